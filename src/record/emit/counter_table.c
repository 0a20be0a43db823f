/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <record/emit/counter_table.h>

#include <kymo/counter.h>
#include <record/emit/ring_file.h>
#include <string.h>

struct counter {
	uint64_t value; /* atomic */
	uint32_t flags; /* atomic */
	/* atomic: the stretch of time its last sample is of << 10 | where that lies; 0: none */
	uint64_t sample;
	char name[KY_COUNTER_NAME_BYTES];
};

static struct counter counters[KY_COUNTERS];
static uint32_t counter_count; /* atomic: released after the name */
static uint64_t refused_count; /* atomic */
static uint64_t sample_count;  /* atomic: begun in this ring */

_Static_assert(KY_COUNTER_SAMPLES == 1u << 10, "where a sample lies takes ten bits");
_Static_assert(KY_COUNTERS == 1u << KY_COUNTER_INDEX_BITS, "as does the index of a counter six");

static void copy_value(struct ky_ring_side *side, uint32_t idx)
{
	uint64_t value;

	do {
		value = __atomic_load_n(&counters[idx].value, __ATOMIC_SEQ_CST);
		atomic_store_explicit(&side->counters[idx].value, value, memory_order_seq_cst);
	} while (__atomic_load_n(&counters[idx].value, __ATOMIC_SEQ_CST) != value);
}

/* The stretches of time that have one sample each: half a second to a second. */
static uint64_t stretch_of(const struct ky_ring *ring, uint64_t ticks)
{
	uint64_t second = ring->clock.is_os ? UINT64_C(1000000000) : ring->clock.ticks_per_second;

	return second ? (ticks >> (63 - __builtin_clzll(second))) + 1 : 1;
}

/* The value after this change into the sample of this stretch, which is begun where there is none.
 * Two that begin it at once leave one place unused, whose old content is an older sample. */
static void take_sample(const struct ky_ring *ring, uint32_t idx)
{
	struct ky_ring_side *side = ring->side;
	struct ky_ring_counter_sample *sample;
	uint64_t ticks = ky_clock_ticks(&ring->clock), stretch = stretch_of(ring, ticks),
		 number = 0;
	uint64_t old = __atomic_load_n(&counters[idx].sample, __ATOMIC_SEQ_CST), value, word;
	bool is_new = old >> 10 != stretch;

	if (is_new) {
		number = __atomic_fetch_add(&sample_count, 1, __ATOMIC_RELAXED);
		word = stretch << 10 | number % KY_COUNTER_SAMPLES;
		is_new = __atomic_compare_exchange_n(&counters[idx].sample, &old, word, false,
						     __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
		old = is_new ? word : old;
	}
	sample = &side->counter_samples[old % KY_COUNTER_SAMPLES];
	if (is_new) {
		atomic_store_explicit(&sample->serial, 0, memory_order_relaxed);
		atomic_thread_fence(memory_order_release);
	}
	do {
		value = __atomic_load_n(&counters[idx].value, __ATOMIC_SEQ_CST);
		atomic_store_explicit(&sample->ticks, ticks, memory_order_relaxed);
		atomic_store_explicit(&sample->value, value, memory_order_seq_cst);
	} while (__atomic_load_n(&counters[idx].value, __ATOMIC_SEQ_CST) != value);
	if (!is_new)
		return;
	atomic_store_explicit(&sample->serial, (number + 1) << KY_COUNTER_INDEX_BITS | idx,
			      memory_order_release);
	atomic_store_explicit(&side->counter_sample_index, number + 1, memory_order_relaxed);
}

void ky_counters_new_ring(void)
{
	uint32_t count = __atomic_load_n(&counter_count, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < count; i++)
		__atomic_store_n(&counters[i].sample, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&sample_count, 0, __ATOMIC_RELAXED);
}

static void copy_identity(struct ky_ring_side *side, uint32_t idx)
{
	uint32_t flags = __atomic_load_n(&counters[idx].flags, __ATOMIC_RELAXED);

	memcpy(side->counters[idx].name, counters[idx].name, sizeof(counters[idx].name));
	atomic_store_explicit(&side->counters[idx].errors_flag,
			      flags & KYMO_COUNTER_ERRORS ? 1u : 0u, memory_order_relaxed);
}

void ky_counters_copy(struct ky_ring_side *side)
{
	uint32_t count = __atomic_load_n(&counter_count, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < count; i++) {
		copy_identity(side, i);
		copy_value(side, i);
	}
	/* Names and values are there when a reader finds the count. */
	atomic_store_explicit(&side->counter_count, count, memory_order_release);
	atomic_store_explicit(&side->counters_refused,
			      (uint32_t)__atomic_load_n(&refused_count, __ATOMIC_RELAXED),
			      memory_order_relaxed);
}

uint64_t ky_counters_refused(void)
{
	return __atomic_load_n(&refused_count, __ATOMIC_RELAXED);
}

uint32_t ky_counter_find_or_add(const char *name, size_t name_bytes, uint32_t flags)
{
	uint32_t count = __atomic_load_n(&counter_count, __ATOMIC_RELAXED), i;

	for (i = 0; i < count; i++)
		if (strncmp(counters[i].name, name, name_bytes) == 0 &&
		    !counters[i].name[name_bytes])
			break;
	if (i == KY_COUNTERS) {
		__atomic_fetch_add(&refused_count, 1, __ATOMIC_RELAXED);
		return 0;
	}
	__atomic_fetch_or(&counters[i].flags, flags, __ATOMIC_RELAXED);
	if (i == count) {
		memcpy(counters[i].name, name, name_bytes);
		__atomic_store_n(&counter_count, count + 1, __ATOMIC_RELEASE);
	}
	return i + 1;
}

uint64_t *ky_counter_value(uint32_t counter)
{
	if (!counter || counter > __atomic_load_n(&counter_count, __ATOMIC_ACQUIRE))
		return NULL;
	return &counters[counter - 1].value;
}

void ky_counter_report(const struct ky_ring *ring, uint32_t counter)
{
	copy_value(ring->side, counter - 1);
	take_sample(ring, counter - 1);
}
