/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <kymo/alloc.h>

#include <errno.h>
#include <record/emit/emit_engine.h>
#include <record/sample/alloc_odds.h>
#include <record/sample/stack_store.h>
#include <record/sample/stack_walk.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A thread reads the settings after so many bytes at the latest. Where nothing is sampled they
 * are few: what it allocates between the gate's opening and its reading is never reported. */
#define SEARCH_BYTES (INT64_C(4) << 20)
#define SEARCH_OFF_BYTES (INT64_C(16) << 10)
#define FILTER_FULL 255u

_Static_assert(KYMO_ALLOCS_MAX <= 1u << KYMO_ALLOC_FILTER_BITS, "the filter stays sparse");

__thread int64_t kymo_alloc_left KYMO_TLS_MODEL;
uint8_t kymo_alloc_filter[1u << KYMO_ALLOC_FILTER_BITS];

static __thread struct {
	uint64_t mean_bytes; /* that the gap was drawn with; 0: none was */
	uint64_t further;    /* of the gap, beyond kymo_alloc_left */
	uint64_t random;
	uint32_t generation; /* of the ring that `tid` was asked for */
	uint32_t tid;
	bool is_busy; /* inside a sample */
} self KYMO_TLS_MODEL;

struct live_table {
	struct ky_ring *ring;
	struct ky_alloc_head *head;
	_Atomic uint64_t *words;
	struct ky_alloc_entry *entries;
};

static struct ky_ring *live_ring(void)
{
	struct ky_ring *ring = __atomic_load_n(&ky_engine.ring, __ATOMIC_ACQUIRE);

	if (!ring || __atomic_load_n(&ky_engine.phase, __ATOMIC_ACQUIRE) != KY_LIVE ||
	    !__atomic_load_n(&ky_engine.pool->is_alive, __ATOMIC_ACQUIRE))
		return NULL;
	return ring;
}

static void fill_table(struct live_table *out, struct ky_ring *ring, uint8_t *area)
{
	out->ring = ring;
	out->head = (struct ky_alloc_head *)(void *)area;
	out->words = (_Atomic uint64_t *)(void *)(area + KY_ALLOC_WORDS_OFFSET);
	out->entries = (struct ky_alloc_entry *)(void *)(area + KY_ALLOC_ENTRIES_OFFSET);
}

/* What an earlier recording had reported is free again. */
static void forget_filter(void)
{
	/* No page is made for it. */
	for (size_t i = 0; i < sizeof(kymo_alloc_filter); i++)
		if (__atomic_load_n(&kymo_alloc_filter[i], __ATOMIC_RELAXED))
			__atomic_store_n(&kymo_alloc_filter[i], 0, __ATOMIC_RELAXED);
}

/* Of a live recording that has reported something, or is about to. */
static bool find_table(struct live_table *out)
{
	struct ky_ring *ring = live_ring();
	uint8_t *area = ring ? ky_ring_allocs(ring, forget_filter) : NULL;

	if (area)
		fill_table(out, ring, area);
	return area != NULL;
}

/* ---- how far it is to the next sample ---- */

void ky_alloc_seed(uint64_t seed)
{
	self.random = seed;
	self.mean_bytes = 0;
	kymo_alloc_left = 0;
}

/* 0: allocations are not sampled. */
static uint64_t wanted_mean(void)
{
	const struct ky_ring *ring = live_ring();
	uint64_t mean;

	if (!ring || !kymo_gate_is_open(KYMO_GATE_ALLOC))
		return 0;
	mean = atomic_load_explicit(&ring->control->settings.alloc_bytes, memory_order_relaxed);
	if (mean < KYMO_ALLOC_BYTES_MIN || mean > KYMO_ALLOC_BYTES_MAX)
		mean = ky_engine.options.alloc_bytes;
	return mean;
}

static uint64_t draw_gap(void)
{
	uint32_t high;

	if (!self.random)
		self.random = (uint64_t)(uintptr_t)&self ^
			      kymo_arch_ticks(&high) * 0x9e3779b97f4a7c15u;
	return ky_alloc_gap(ky_alloc_random(&self.random), self.mean_bytes);
}

static void begin_gap(uint64_t gap)
{
	kymo_alloc_left = gap < (uint64_t)SEARCH_BYTES ? (int64_t)gap : SEARCH_BYTES;
	self.further = gap - (uint64_t)kymo_alloc_left;
}

/* After an allocation that went beyond kymo_alloc_left. True: a sampled byte lies in it. */
static bool is_hit(size_t bytes)
{
	uint64_t mean = wanted_mean(), beyond = (uint64_t)0 - (uint64_t)kymo_alloc_left, gap;

	if (mean != self.mean_bytes) {
		self.mean_bytes = mean;
		if (!mean) {
			kymo_alloc_left = SEARCH_OFF_BYTES;
			return false;
		}
		/* As if there had been no gap before this allocation: none remembers another. */
		beyond = bytes;
		self.further = draw_gap();
	} else if (!mean) {
		kymo_alloc_left = SEARCH_OFF_BYTES;
		return false;
	}
	gap = self.further;
	if (beyond <= gap) {
		begin_gap(gap - beyond);
		return false;
	}
	begin_gap(draw_gap());
	return true;
}

/* ---- the filter ---- */

static void filter_add(uint64_t address, int change)
{
	uint8_t *count = &kymo_alloc_filter[kymo_alloc_hash((const void *)(uintptr_t)address)];
	uint8_t was = __atomic_load_n(count, __ATOMIC_RELAXED);

	/* One that was full once is not known any more, and stays. */
	while (was != FILTER_FULL && (change > 0 || was != 0) &&
	       !__atomic_compare_exchange_n(count, &was, (uint8_t)(was + change), true,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/* ---- the table ---- */

static uint32_t word_at(uint64_t address, uint32_t probe)
{
	return (ky_alloc_home(address) + probe) % KY_ALLOC_ENTRIES;
}

/* Takes the address's word; `entry` is then the caller's alone, until it stores another value into
 * the word. KY_ALLOC_ENTRIES: it is not there. */
static uint32_t take_word(const struct live_table *table, uint64_t address)
{
	for (uint32_t i = 0; i < KY_ALLOC_PROBES; i++) {
		uint32_t at = word_at(address, i);
		uint64_t was = address;

		if (atomic_load_explicit(&table->words[at], memory_order_relaxed) == address &&
		    atomic_compare_exchange_strong_explicit(&table->words[at], &was, KY_ALLOC_BUSY,
							    memory_order_acquire,
							    memory_order_relaxed))
			return at;
	}
	return KY_ALLOC_ENTRIES;
}

static uint32_t claim_word(const struct live_table *table, uint64_t address)
{
	for (uint32_t i = 0; i < KY_ALLOC_PROBES; i++) {
		uint32_t at = word_at(address, i);
		uint64_t was = 0;

		if (atomic_load_explicit(&table->words[at], memory_order_relaxed) == 0 &&
		    atomic_compare_exchange_strong_explicit(&table->words[at], &was, KY_ALLOC_BUSY,
							    memory_order_acquire,
							    memory_order_relaxed))
			return at;
	}
	return KY_ALLOC_ENTRIES;
}

/* False: there is no room. */
static bool keep(const struct live_table *table, const struct kymo_alloc_taken *what)
{
	/* Freed unseen, by code that we do not see, and given out again. */
	uint32_t at = take_word(table, what->address);
	struct ky_alloc_entry *entry;

	if (at == KY_ALLOC_ENTRIES)
		at = claim_word(table, what->address);
	else
		filter_add(what->address, -1);
	if (at == KY_ALLOC_ENTRIES)
		return false;
	entry = &table->entries[at];
	if (!ky_ring_touch(&entry->stamp)) {
		atomic_store_explicit(&table->words[at], 0, memory_order_release);
		return false;
	}
	atomic_store_explicit(&entry->stamp, what->stamp, memory_order_relaxed);
	atomic_store_explicit(&entry->bytes, what->bytes, memory_order_relaxed);
	atomic_store_explicit(&entry->weight, what->weight, memory_order_relaxed);
	atomic_store_explicit(&entry->about, what->about, memory_order_relaxed);
	filter_add(what->address, 1);
	atomic_store_explicit(&table->words[at], what->address, memory_order_release);
	return true;
}

static void lose(const struct live_table *table, _Atomic uint64_t *why)
{
	atomic_fetch_add_explicit(why, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&table->ring->alloc_samples.head->lost_count, 1,
				  memory_order_relaxed);
}

/* ---- reporting ---- */

/* Of the kernel; 0 where it may not be asked. */
static uint32_t tid_here(void)
{
	const struct kymo_thread *thread = kymo_thread_self;
	uint32_t generation = __atomic_load_n(&ky_engine.generation, __ATOMIC_ACQUIRE);

	if (ky_thread_is_state(thread))
		return ((const struct ky_thread *)(const void *)thread)->tid;
	if (self.generation == generation && self.tid)
		return self.tid;
	if (ky_engine_is_under_filter())
		return 0;
	self.tid = (uint32_t)syscall(SYS_gettid);
	self.generation = generation;
	return self.tid;
}

static uint32_t number_of_stack(const struct live_table *table, const uint64_t *frames,
				uint32_t count)
{
	uint8_t *area = (uint8_t *)table->head;
	struct ky_stack_store store = {
		.index = (struct ky_place_stack *)(void *)(area + KY_ALLOC_STACKS_OFFSET),
		.index_count = KY_ALLOC_STACKS,
		.units = area + KY_ALLOC_UNITS_OFFSET,
		.unit_count = KY_ALLOC_UNITS,
		.units_used = &table->head->units_used,
		.refused_count = &table->head->stacks_refused,
	};

	if (!count)
		return KY_ALLOC_NO_STACK;
	return count ? ky_stack_store_number(&store, frames, count, KY_ALLOC_NO_STACK) :
		       KY_ALLOC_NO_STACK;
}

static uint32_t capture(uint64_t *frames, const struct kymo_alloc_caller *caller, bool *is_whole)
{
	struct kymo_stack stack = {.frames = frames, .frames_max = KY_ALLOC_FRAMES_MAX};
	uint32_t own = 0;

	if (kymo_gate_is_open(KYMO_GATE_ALLOC_STACK))
		kymo_stack_capture(&stack, &caller->from);
	while (own < stack.count && frames[own] >= caller->own_low &&
	       frames[own] < caller->own_high)
		own++;
	memmove(frames, frames + own, (stack.count - own) * sizeof(*frames));
	*is_whole = stack.end == KYMO_STACK_FIRST;
	return stack.count - own;
}

static void put(const struct live_table *table, const void *address, size_t bytes,
		const struct kymo_alloc_caller *caller, uint64_t mean_bytes)
{
	uint64_t frames[KY_ALLOC_FRAMES_MAX] = {0};
	struct kymo_alloc_taken what = {.address = (uintptr_t)address,
					.bytes = bytes,
					.weight = ky_alloc_weight(bytes, mean_bytes)};
	struct ky_sample sample = {.kind = KY_SAMPLE_ALLOC, .syscall = -1, .tid = tid_here()};
	bool is_whole;

	sample.frame_count = capture(frames, caller, &is_whole);
	sample.frames = frames;
	sample.flags = is_whole ? 0 : KY_SAMPLE_TRUNCATED;
	what.stamp = ky_clock_ticks(&table->ring->clock);
	what.about = (uint64_t)sample.tid << 32 | (is_whole ? 0 : KY_ALLOC_TRUNCATED) |
		     number_of_stack(table, frames, sample.frame_count);
	atomic_store_explicit(&table->head->mean_bytes, mean_bytes, memory_order_relaxed);
	if (!keep(table, &what)) {
		lose(table, &table->head->refused_count);
		return;
	}
	sample.stamp = what.stamp;
	sample.value = bytes;
	sample.more = what.address;
	sample.weight = what.weight;
	(void)ky_sample_put(&table->ring->alloc_samples, &sample);
	atomic_fetch_add_explicit(&table->head->kept_count, 1, memory_order_relaxed);
}

void kymo_alloc_emit(const void *address, size_t bytes, const struct kymo_alloc_caller *caller)
{
	int saved = errno;
	struct live_table table;

	if (self.is_busy) {
		/* A signal handler in the middle of a sample. */
		if (find_table(&table))
			lose(&table, &table.head->nested_count);
		return;
	}
	self.is_busy = true;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (is_hit(bytes) && address && find_table(&table))
		put(&table, address, bytes, caller, self.mean_bytes);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	self.is_busy = false;
	errno = saved;
}

/* ---- ends ---- */

bool kymo_alloc_take(const void *address, struct kymo_alloc_taken *taken)
{
	struct ky_ring *ring = live_ring();
	struct live_table table;
	struct ky_alloc_entry *entry;
	uint32_t at;

	if (!address || !ring ||
	    __atomic_load_n(&ring->alloc_state, __ATOMIC_ACQUIRE) != KY_PLACE_MADE)
		return false;
	fill_table(&table, ring, ky_ring_allocs(ring, NULL));
	at = take_word(&table, (uintptr_t)address);
	if (at == KY_ALLOC_ENTRIES)
		return false;
	entry = &table.entries[at];
	taken->address = (uintptr_t)address;
	taken->bytes = atomic_load_explicit(&entry->bytes, memory_order_relaxed);
	taken->weight = atomic_load_explicit(&entry->weight, memory_order_relaxed);
	taken->stamp = atomic_load_explicit(&entry->stamp, memory_order_relaxed);
	taken->about = atomic_load_explicit(&entry->about, memory_order_relaxed);
	taken->end_stamp = ky_clock_ticks(&ring->clock);
	filter_add(taken->address, -1);
	atomic_store_explicit(&table.words[at], 0, memory_order_release);
	return true;
}

void kymo_alloc_put_back(const struct kymo_alloc_taken *taken)
{
	struct live_table table;
	int saved = errno;

	if (find_table(&table) && !keep(&table, taken))
		kymo_alloc_end(taken); /* no thread would report its end */
	errno = saved;
}

void kymo_alloc_end(const struct kymo_alloc_taken *taken)
{
	struct ky_sample sample = {.kind = KY_SAMPLE_FREE,
				   .syscall = -1,
				   .stamp = taken->end_stamp,
				   .value = taken->bytes,
				   .more = taken->address,
				   .other = taken->stamp};
	struct live_table table;
	int saved = errno;

	if (find_table(&table)) {
		sample.tid = tid_here();
		(void)ky_sample_put(&table.ring->alloc_samples, &sample);
		atomic_fetch_add_explicit(&table.head->ended_count, 1, memory_order_relaxed);
	}
	errno = saved;
}
