/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/idle_peers.h>

#include <analyze/poll_homes.h>
#include <base/alloc.h>
#include <base/earlier.h>
#include <errno.h>
#include <read/sort.h>
#include <string.h>

#define NO_RUNTIME 255u
#define NEAR_SPANS 8u

static bool has_bit(const struct ky_idle_mask *mask, uint32_t bit)
{
	return mask->bits[bit / 64] >> bit % 64 & 1;
}

static void set_bit(struct ky_idle_mask *mask, uint32_t bit)
{
	mask->bits[bit / 64] |= UINT64_C(1) << bit % 64;
}

/* ---- ranges ---- */

static bool is_range_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_idle_range *one = a, *other = b;

	(void)ctx;
	return one->from_ns < other->from_ns;
}

static uint32_t join_ranges(struct ky_idle_range *ranges, size_t count)
{
	uint32_t kept = 0;

	ky_sort(ranges, count, sizeof(*ranges), is_range_before, NULL);
	for (size_t i = 0; i < count; i++) {
		if (kept && ranges[i].from_ns <= ranges[kept - 1].to_ns)
			ranges[kept - 1].to_ns = ky_later(ranges[kept - 1].to_ns, ranges[i].to_ns);
		else
			ranges[kept++] = ranges[i];
	}
	return kept;
}

/* ---- runtimes ---- */

static bool number_runtimes(struct ky_idle_peers *peers)
{
	const struct ky_trace *trace = peers->trace;

	peers->runtime_of = ky_alloc(trace->worker_count + (size_t)1);
	if (!peers->runtime_of)
		return false;
	for (uint32_t worker = 0; worker < trace->worker_count; worker++) {
		uint32_t other = 0;

		peers->runtime_of[worker] = NO_RUNTIME;
		if (!ky_poll_homes_has_queue(trace, worker))
			continue;
		while (other < worker &&
		       (peers->runtime_of[other] == NO_RUNTIME ||
			trace->workers[other].runtime != trace->workers[worker].runtime))
			other++;
		peers->runtime_of[worker] = other < worker ? peers->runtime_of[other] :
							     (uint8_t)peers->runtime_count++;
		peers->worker_counts[peers->runtime_of[worker]]++;
	}
	return true;
}

struct kinds {
	uint32_t *number_of; /* by name: 1 + its number */
	struct ky_idle_mask *polled_by;
	uint32_t count, capacity;
	/* Of two runtimes: kinds that both poll; of one: that it polls. */
	uint32_t *shared;
};

static bool note_kind(struct kinds *kinds, uint32_t name, uint32_t runtime)
{
	uint32_t *number = &kinds->number_of[name];

	if (!*number) {
		if (kinds->count == KY_IDLE_KINDS_MAX)
			return true;
		if (ky_grow(&kinds->polled_by, &kinds->capacity, kinds->count + 1,
			    sizeof(*kinds->polled_by)))
			return false;
		*number = ++kinds->count;
	}
	set_bit(&kinds->polled_by[*number - 1], runtime);
	return true;
}

static bool note_kinds(const struct ky_idle_peers *peers, struct kinds *kinds)
{
	const struct ky_trace *trace = peers->trace;

	for (uint32_t worker = 0; worker < trace->worker_count; worker++) {
		uint32_t runtime = peers->runtime_of[worker], last = KY_NONE;
		struct ky_cursor cursor;
		bool is_in = runtime != NO_RUNTIME &&
			     ky_cursor_begin(&cursor, &trace->workers[worker].polls, 0);

		for (; is_in; is_in = ky_cursor_next(&cursor)) {
			const struct ky_poll_row *row = (const void *)cursor.at;
			uint32_t name = trace->tasks[row->task].name;

			if (name == KY_NONE || name == last)
				continue;
			last = name;
			if (!note_kind(kinds, name, runtime))
				return false;
		}
	}
	return true;
}

static void count_shared(const struct ky_idle_peers *peers, struct kinds *kinds)
{
	for (uint32_t kind = 0; kind < kinds->count; kind++) {
		uint8_t runtimes[KY_IDLE_RUNTIMES_MAX];
		uint32_t count = 0;

		for (uint32_t i = 0; i < peers->runtime_count; i++)
			if (has_bit(&kinds->polled_by[kind], i))
				runtimes[count++] = (uint8_t)i;
		for (uint32_t i = 0; i < count; i++)
			for (uint32_t j = 0; j < count; j++)
				kinds->shared[runtimes[i] * peers->runtime_count + runtimes[j]]++;
	}
}

static bool are_alike(const struct ky_idle_peers *peers, const struct kinds *kinds, uint32_t one,
		      uint32_t other)
{
	uint32_t shared = kinds->shared[one * peers->runtime_count + other];

	return peers->worker_counts[one] == peers->worker_counts[other] && shared &&
	       2 * shared >= kinds->shared[one * peers->runtime_count + one] &&
	       2 * shared >= kinds->shared[other * peers->runtime_count + other];
}

static bool find_alike(struct ky_idle_peers *peers)
{
	size_t count = peers->runtime_count;
	struct kinds kinds = {0};
	bool is_made = true;

	peers->alike = ky_alloc((count + 1) * sizeof(*peers->alike));
	if (!peers->alike)
		return false;
	if (count > 1) {
		kinds.number_of = ky_alloc((ky_trace_name_count(peers->trace) + (size_t)1) *
					   sizeof(*kinds.number_of));
		kinds.shared = ky_alloc(count * count * sizeof(*kinds.shared));
		is_made = kinds.number_of && kinds.shared && note_kinds(peers, &kinds);
	}
	if (is_made && count > 1)
		count_shared(peers, &kinds);
	for (uint32_t one = 0; is_made && one < count; one++)
		for (uint32_t other = 0; other < count; other++)
			if (one == other || are_alike(peers, &kinds, one, other))
				set_bit(&peers->alike[one], other);
	ky_free(kinds.number_of);
	ky_free(kinds.shared);
	ky_free(kinds.polled_by);
	return is_made;
}

bool ky_idle_peers_are(const struct ky_idle_peers *peers, uint32_t worker, uint32_t other)
{
	uint32_t runtime = peers->runtime_of[worker], of = peers->runtime_of[other];

	return worker != other && runtime != NO_RUNTIME && of != NO_RUNTIME &&
	       has_bit(&peers->alike[runtime], of);
}

/* ---- when one is idle ---- */

/* From then on the park is no idle time: its worker is notified. */
static uint64_t idle_until(const struct ky_idle_peers *peers, uint32_t worker,
			   const struct ky_park *park)
{
	uint64_t notified_ns;

	if (park->flags & (KY_PARK_GAP | KY_PARK_END_UNPROVEN))
		return park->start_ns;
	if (!peers->notified->is_recorded)
		return park->start_ns + park->duration_ns;
	if (!ky_notified_at(peers->notified, worker, park, &notified_ns))
		return park->start_ns;
	return ky_earlier(park->start_ns + park->duration_ns, notified_ns);
}

/* One of them more, at the end or together with the last one. Returns false where memory is
 * short. */
static bool add_span(struct ky_idle_set *set, uint64_t from_ns, uint64_t to_ns)
{
	struct ky_idle_span *last = set->count ? &set->spans[set->count - 1] : NULL;

	if (last && from_ns <= last->to_ns) {
		last->to_ns = ky_later(last->to_ns, to_ns);
		return true;
	}
	if (set->count == KY_IDLE_SPANS_MAX) {
		set->is_full = true;
		return true;
	}
	if (ky_grow(&set->spans, &set->capacity, set->count + 1, sizeof(*set->spans)))
		return false;
	set->spans[set->count++] = (struct ky_idle_span){from_ns, to_ns, 0};
	return true;
}

static bool collect(const struct ky_idle_peers *peers, struct ky_idle_set *out, uint32_t worker)
{
	const struct ky_column *parks = &peers->trace->workers[worker].parks;
	struct ky_park park;

	for (uint32_t i = 0; i < peers->range_count; i++) {
		const struct ky_idle_range *range = &peers->ranges[i];
		uint64_t row = ky_column_find(parks, range->from_ns);

		for (row -= row != 0; row < parks->row_count; row++) {
			uint64_t from_ns, to_ns;

			ky_trace_park(peers->trace, worker, row, &park);
			if (park.start_ns >= range->to_ns)
				break;
			from_ns = ky_later(park.start_ns, range->from_ns);
			to_ns = ky_earlier(idle_until(peers, worker, &park), range->to_ns);
			if (from_ns < to_ns && !add_span(out, from_ns, to_ns))
				return false;
		}
	}
	return true;
}

/* Both have their spans in order. */
static bool merge(struct ky_idle_set *out, const struct ky_idle_set *one,
		  const struct ky_idle_set *other)
{
	uint32_t i = 0, j = 0;

	while (i < one->count || j < other->count) {
		bool is_one = j == other->count ||
			      (i < one->count && one->spans[i].from_ns <= other->spans[j].from_ns);
		const struct ky_idle_span *span = is_one ? &one->spans[i++] : &other->spans[j++];

		if (!add_span(out, span->from_ns, span->to_ns))
			return false;
	}
	return true;
}

static bool add_worker(const struct ky_idle_peers *peers, struct ky_idle_set *set, uint32_t worker)
{
	struct ky_idle_set added = {0}, merged = {.runtimes = set->runtimes};
	bool is_made = collect(peers, &added, worker) && merge(&merged, set, &added);

	merged.is_full |= set->is_full || added.is_full;
	ky_free(added.spans);
	ky_free(is_made ? set->spans : merged.spans);
	if (is_made)
		*set = merged;
	return is_made;
}

static void sum_up(struct ky_idle_set *set)
{
	uint64_t sum_ns = 0;

	for (uint32_t i = 0; i < set->count; i++) {
		set->spans[i].before_ns = sum_ns;
		sum_ns += set->spans[i].to_ns - set->spans[i].from_ns;
	}
}

/* NULL with *failed: out of memory; NULL: there are too many. */
static struct ky_idle_set *find_set(struct ky_idle_peers *peers, const struct ky_idle_mask *mask,
				    bool *failed)
{
	struct ky_idle_set *set;

	for (uint32_t i = 0; i < peers->set_count; i++)
		if (memcmp(&peers->sets[i].runtimes, mask, sizeof(*mask)) == 0)
			return &peers->sets[i];
	if (peers->set_count == KY_IDLE_SETS_MAX)
		return NULL;
	set = &peers->sets[peers->set_count++];
	*set = (struct ky_idle_set){.runtimes = *mask};
	for (uint32_t worker = 0; worker < peers->trace->worker_count && !*failed; worker++) {
		uint32_t runtime = peers->runtime_of[worker];

		if (runtime != NO_RUNTIME && has_bit(mask, runtime))
			*failed = !add_worker(peers, set, worker);
	}
	if (set->is_full)
		set->count = 0;
	sum_up(set);
	return set;
}

/* Idle time of the set before that moment. */
static uint64_t idle_before(struct ky_idle_set *set, uint64_t ns)
{
	uint32_t low = 0, high = set->count;
	const struct ky_idle_span *span;

	if (set->last < high && set->spans[set->last].from_ns < ns) {
		low = set->last + 1;
		if (low + NEAR_SPANS < high && set->spans[low + NEAR_SPANS].from_ns >= ns)
			high = low + NEAR_SPANS;
	}
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (set->spans[middle].from_ns < ns)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return 0;
	set->last = low - 1;
	span = &set->spans[low - 1];
	return span->before_ns + ky_earlier(ns, span->to_ns) - span->from_ns;
}

bool ky_idle_peers_ns(struct ky_idle_peers *peers, uint32_t worker, uint64_t from_ns,
		      uint64_t to_ns, uint64_t *out)
{
	uint32_t runtime = peers->runtime_of[worker];
	struct ky_idle_set *set;
	bool failed = false;

	*out = 0;
	if (from_ns >= to_ns || runtime == NO_RUNTIME)
		return true;
	set = find_set(peers, &peers->alike[runtime], &failed);
	if (set && !failed)
		*out = 0 - idle_before(set, from_ns);
	if (set && !failed)
		*out += idle_before(set, to_ns);
	return !failed;
}

int ky_idle_peers_make(struct ky_idle_peers *out, const struct ky_trace *trace,
		       const struct ky_notified *notified, struct ky_idle_range *ranges,
		       size_t range_count)
{
	*out = (struct ky_idle_peers){.trace = trace, .notified = notified, .ranges = ranges};
	out->range_count = join_ranges(ranges, range_count);
	if (number_runtimes(out) && find_alike(out))
		return 0;
	ky_idle_peers_release(out);
	return -ENOMEM;
}

void ky_idle_peers_release(struct ky_idle_peers *peers)
{
	for (uint32_t i = 0; i < peers->set_count; i++)
		ky_free(peers->sets[i].spans);
	ky_free(peers->runtime_of);
	ky_free(peers->alike);
	*peers = (struct ky_idle_peers){0};
}
