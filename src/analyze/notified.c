/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/notified.h>

#include <analyze/poll_homes.h>
#include <base/alloc.h>
#include <errno.h>
#include <read/turns.h>
#include <string.h>

#define TARGETS_MAX 1024u
#define VOTES_MIN 3u
#define WAIT_DRIVER 1u /* WorkerParkEvent.wait */
#define WAIT_FUTEX 2u

/* One futex address: how often each worker left its park first after it. */
struct target {
	uint64_t address;
	uint32_t *votes; /* by worker */
	uint32_t all;
	uint32_t worker; /* KY_NONE: not known */
};

struct notified_making {
	const struct ky_trace *trace;
	struct ky_notified *notified;
	struct target *targets;
	uint32_t target_count;
	bool has_futexes; /* the trace says what workers park on */
};

/* When the park that is open then ends, of a worker that waits so; UINT64_MAX: it is in none. */
static uint64_t park_end(const struct ky_trace *trace, uint32_t worker, uint64_t ns, uint32_t wait)
{
	const struct ky_column *parks = &trace->workers[worker].parks;
	uint64_t row = ky_column_find(parks, ns + 1);
	struct ky_park park;

	if (!row)
		return UINT64_MAX;
	ky_trace_park(trace, worker, row - 1, &park);
	if (park.start_ns + park.duration_ns <= ns || park.wait != wait)
		return UINT64_MAX;
	return park.start_ns + park.duration_ns;
}

/* eventfd: + 1, of the driver that they wait in; 0: it is not known whose it is. */
static uint32_t first_to_leave(const struct ky_trace *trace, uint64_t ns, uint32_t wait,
			       uint64_t eventfd)
{
	uint64_t first_ns = UINT64_MAX;
	uint32_t found = KY_NONE;

	for (uint32_t worker = 0; worker < trace->worker_count; worker++) {
		uint64_t end_ns;

		if (!ky_poll_homes_has_queue(trace, worker) ||
		    (wait == WAIT_DRIVER && trace->workers[worker].eventfd_next != eventfd))
			continue;
		end_ns = park_end(trace, worker, ns, wait);
		if (end_ns < first_ns) {
			first_ns = end_ns;
			found = worker;
		}
	}
	return found;
}

static bool add_time(struct ky_notified *notified, uint32_t worker, uint64_t ns)
{
	struct ky_notified_worker *known = &notified->workers[worker];

	if (known->count == known->capacity) {
		uint64_t capacity = known->capacity ? known->capacity * 2 : 64;
		uint64_t *times_ns = ky_realloc(known->times_ns, capacity * sizeof(*times_ns));

		if (!times_ns)
			return false;
		known->times_ns = times_ns;
		known->capacity = capacity;
	}
	known->times_ns[known->count++] = ns;
	return true;
}

/* NULL with *failed: out of memory; NULL: there are too many. */
static struct target *find_target(struct notified_making *making, uint64_t address, bool *failed)
{
	size_t bytes = (making->trace->worker_count + (size_t)1) * sizeof(uint32_t);
	struct target *target;

	for (uint32_t i = 0; i < making->target_count; i++)
		if (making->targets[i].address == address)
			return &making->targets[i];
	if (making->target_count == TARGETS_MAX)
		return NULL;
	target = &making->targets[making->target_count];
	*target = (struct target){.address = address, .worker = KY_NONE};
	target->votes = ky_alloc(bytes);
	if (!target->votes) {
		*failed = true;
		return NULL;
	}
	memset(target->votes, 0, bytes);
	making->target_count++;
	return target;
}

/* Whose address it is: votes of each notification that found a parked worker. */
static bool learn(struct notified_making *making)
{
	const struct ky_trace *trace = making->trace;
	struct ky_notify notify;
	bool failed = false;

	for (uint64_t row = 0; row < trace->notifies.row_count && !failed; row++) {
		struct target *target;
		uint32_t worker;

		ky_trace_notify(trace, row, &notify);
		if (notify.via != KY_NOTIFY_FUTEX)
			continue;
		worker = first_to_leave(trace, notify.time_ns, WAIT_FUTEX, 0);
		target = worker == KY_NONE ? NULL : find_target(making, notify.target, &failed);
		if (!target)
			continue;
		target->votes[worker]++;
		target->all++;
	}
	for (uint32_t i = 0; i < making->target_count; i++) {
		struct target *target = &making->targets[i];

		for (uint32_t worker = 0; worker < trace->worker_count; worker++) {
			if (target->all < VOTES_MIN ||
			    (uint64_t)target->votes[worker] * 4 < (uint64_t)target->all * 3)
				continue;
			target->worker = worker;
			making->notified->workers[worker].has_futex = true;
		}
	}
	return !failed;
}

/* Whose it is stands in the trace, or was learned. */
static bool find_worker(struct notified_making *making, const struct ky_notify *notify,
			uint32_t *worker)
{
	uint32_t known = ky_trace_notified_worker(making->trace, notify);
	const struct target *target;
	bool failed = false;

	*worker = known;
	if (notify->via == KY_NOTIFY_EVENTFD)
		*worker = first_to_leave(making->trace, notify->time_ns, WAIT_DRIVER,
					 known == KY_NONE ? 0 : notify->target + 1);
	if (notify->via != KY_NOTIFY_FUTEX || making->has_futexes)
		return true;
	target = find_target(making, notify->target, &failed);
	*worker = target ? target->worker : KY_NONE;
	return !failed;
}

static bool assign(struct notified_making *making)
{
	const struct ky_trace *trace = making->trace;
	struct ky_notify notify;

	for (uint64_t row = 0; row < trace->notifies.row_count; row++) {
		uint32_t worker;

		ky_trace_notify(trace, row, &notify);
		if (!find_worker(making, &notify, &worker) ||
		    (worker != KY_NONE && !add_time(making->notified, worker, notify.time_ns)))
			return false;
	}
	return true;
}

int ky_notified_make(struct ky_notified *out, const struct ky_trace *trace)
{
	struct notified_making making = {.trace = trace, .notified = out};
	size_t bytes = (trace->worker_count + (size_t)1) * sizeof(*out->workers);
	bool is_made;

	*out = (struct ky_notified){.is_recorded = trace->notifies.row_count != 0};
	if (!out->is_recorded)
		return 0;
	out->workers = ky_alloc(bytes);
	making.targets = ky_alloc(TARGETS_MAX * sizeof(*making.targets));
	if (out->workers) {
		memset(out->workers, 0, bytes);
		out->worker_count = trace->worker_count;
	}
	for (uint32_t i = 0; out->workers && i < out->worker_count; i++) {
		out->workers[i].has_futex = trace->workers[i].futex != 0;
		making.has_futexes |= out->workers[i].has_futex;
	}
	is_made = out->workers && making.targets && (making.has_futexes || learn(&making)) &&
		  assign(&making);
	for (uint32_t i = 0; i < making.target_count; i++)
		ky_free(making.targets[i].votes);
	ky_free(making.targets);
	if (is_made)
		return 0;
	ky_notified_release(out);
	return -ENOMEM;
}

void ky_notified_release(struct ky_notified *notified)
{
	for (uint32_t i = 0; notified->workers && i < notified->worker_count; i++)
		ky_free(notified->workers[i].times_ns);
	ky_free(notified->workers);
	*notified = (struct ky_notified){0};
}

bool ky_notified_at(const struct ky_notified *notified, uint32_t worker, const struct ky_park *park,
		    uint64_t *out)
{
	const struct ky_notified_worker *known;
	uint64_t low = 0, high;

	*out = UINT64_MAX;
	if (worker >= notified->worker_count)
		return false;
	known = &notified->workers[worker];
	if (park->wait != WAIT_DRIVER && !(park->wait == WAIT_FUTEX && known->has_futex))
		return false;
	high = known->count;
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (known->times_ns[middle] < park->start_ns)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < known->count && known->times_ns[low] < park->start_ns + park->duration_ns)
		*out = known->times_ns[low];
	return true;
}
