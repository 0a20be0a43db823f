/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/tokio_metrics.h>

#include <base/alloc.h>
#include <errno.h>

#define PPM UINT64_C(1000000)
#define OPEN KY_METRIC_OPEN

const char *ky_metric_state(uint32_t state)
{
	static const char *const words[] = {"exact", "bounded", "not recorded"};

	return words[state < 3 ? state : 2];
}

void ky_metric_rows_release(struct ky_metric_rows *rows)
{
	ky_free(rows->rows);
	*rows = (struct ky_metric_rows){0};
}

void ky_metric_put(struct ky_metric_rows *rows, const struct ky_metric_row *like,
		   struct ky_metric_bound bound)
{
	struct ky_metric_row *row;

	rows->is_full = rows->is_full ||
			ky_grow(&rows->rows, &rows->capacity, rows->count + 1, sizeof(*rows->rows));
	if (rows->is_full)
		return;
	row = &rows->rows[rows->count++];
	*row = *like;
	row->value = bound.least;
	row->value_max = bound.most;
	if (row->state == KY_METRIC_NOT_RECORDED)
		row->value = row->value_max = OPEN;
	else if (bound.least != bound.most)
		row->state = KY_METRIC_BOUNDED;
	else
		row->why = NULL;
}

/* ---- bounds ---- */

struct metrics_making {
	struct ky_metric_rows *rows;
	const struct ky_trace *trace;
	const struct ky_tokio_sums *sums;
	const char *doubt; /* why no count has an upper bound; NULL: they have */
	uint32_t subject;
};

static uint64_t plus(uint64_t a, uint64_t b)
{
	return a > OPEN - b ? OPEN : a + b;
}

static struct ky_metric_bound exactly(uint64_t value)
{
	return (struct ky_metric_bound){value, value};
}

static struct ky_metric_bound from(uint64_t least, uint64_t more)
{
	return (struct ky_metric_bound){least, plus(least, more)};
}

/* A mean, or a share in millionths. */
static uint64_t quotient(uint64_t a, uint64_t factor, uint64_t b)
{
	if (!b)
		return OPEN;
	if (a <= OPEN / factor)
		return a * factor / b;
	return b >= factor ? a / (b / factor) : OPEN;
}

static struct ky_metric_bound divided(struct ky_metric_bound a, struct ky_metric_bound b,
				      uint64_t factor)
{
	struct ky_metric_bound out = {0, OPEN};

	if (b.most != OPEN && b.most)
		out.least = quotient(a.least, factor, b.most);
	if (a.most != OPEN && b.least)
		out.most = quotient(a.most, factor, b.least);
	return out;
}

/* ---- rows ---- */

static void put(struct metrics_making *making, const char *name, const char *unit,
		struct ky_metric_bound bound, const char *why, const char *note)
{
	const struct ky_metric_row like = {.name = name,
					   .unit = unit,
					   .why = making->doubt ? making->doubt : why,
					   .note = note,
					   .subject = making->subject,
					   .bucket_ns = OPEN};

	if (making->doubt)
		bound.most = OPEN;
	ky_metric_put(making->rows, &like, bound);
}

/* What no loss changes. */
static void put_sure(struct metrics_making *making, const char *name, const char *unit,
		     struct ky_metric_bound bound, const char *note)
{
	const char *doubt = making->doubt;

	making->doubt = NULL;
	put(making, name, unit, bound, NULL, note);
	making->doubt = doubt;
}

static void lacks(struct metrics_making *making, const char *name, const char *unit,
		  const char *what)
{
	const struct ky_metric_row like = {.name = name,
					   .unit = unit,
					   .why = what,
					   .subject = making->subject,
					   .bucket_ns = OPEN,
					   .state = KY_METRIC_NOT_RECORDED};

	ky_metric_put(making->rows, &like, exactly(0));
}

/* tokio_metrics' mean() is 0 of nothing. */
static void put_mean(struct metrics_making *making, const char *name, struct ky_metric_bound total,
		     struct ky_metric_bound count, const char *why)
{
	struct ky_metric_bound mean = count.most ? divided(total, count, 1) : exactly(0);

	if (making->doubt)
		mean.least = 0;
	put(making, name, "ns", mean, why, NULL);
}

/* ... and its ratios are NaN. */
static void put_ratio(struct metrics_making *making, const char *name, struct ky_metric_bound part,
		      struct ky_metric_bound all, const char *why)
{
	struct ky_metric_bound ratio = divided(part, all, PPM);

	if (!all.most && !making->doubt) {
		put(making, name, "ppm", exactly(OPEN), NULL, "0 / 0: NaN in tokio-metrics");
		return;
	}
	if (ratio.most > PPM)
		ratio.most = PPM;
	if (making->doubt)
		ratio.least = 0;
	put(making, name, "ppm", ratio, why, NULL);
}

#define WHY_LOSSES "records are missing (view losses), so this is what is here at least"
#define WHY_HELD "a policy holds back what is short, so this is what is here at least"

static struct metrics_making begin(struct ky_metric_rows *rows, const struct ky_trace *trace,
				   const struct ky_tokio_sums *sums)
{
	*rows = (struct ky_metric_rows){0};
	return (struct metrics_making){
		.rows = rows,
		.trace = trace,
		.sums = sums,
		.doubt = sums->has_losses ? WHY_LOSSES : NULL,
	};
}

/* ---- tasks ---- */

#define WHY_OLD "some tasks may be older than the trace"
#define WHY_END "the end of some polls is not recorded"
#define WHY_WAKE "wakes of some of its polls are not recorded"
#define WHY_SPAWN "spawns lie within windows of ids: at least and at most"
#define NEED_WAKES                                                                                 \
	"no wake of these tasks is recorded: kymo run records them (gate wake); dial9 those of "   \
	"tasks that it instruments"
#define NEED_IDLE                                                                                  \
	"their idle time began before the trace or its wakes are not recorded (gate wake): a "     \
	"trace from the begin of the program has it"
#define NOTE_SLOW "50 us and more: tokio_metrics::TaskMonitor::DEFAULT_SLOW_POLL_THRESHOLD"
#define NOTE_LONG "50 us and more: tokio_metrics::TaskMonitor::DEFAULT_LONG_DELAY_THRESHOLD"

static void put_lives(struct metrics_making *making, const struct ky_kind_sums *kind)
{
	struct ky_metric_bound first = from(kind->first_polls, kind->first_unknown);
	struct ky_metric_bound delay = {kind->first_delay_min_ns, kind->first_delay_max_ns};
	const char *why = kind->first_unknown ? WHY_OLD : WHY_SPAWN;

	if (kind->first_unknown)
		delay.most = OPEN;
	put(making, "instrumented_count", "count", from(kind->spawned, kind->spawned_unknown),
	    WHY_OLD, "tasks spawned in the trace: their spawn stands for instrument()");
	put(making, "dropped_count", "count", exactly(kind->ended), NULL,
	    "tasks that ended: their future is dropped then");
	put(making, "first_poll_count", "count", first, WHY_OLD, NULL);
	if (!kind->first_polls && kind->first_unknown) {
		lacks(making, "total_first_poll_delay", "ns",
		      "the spawn of these tasks is not recorded: a trace from the begin of the "
		      "program bounds it, dial9's spawn hook records it");
		lacks(making, "mean_first_poll_delay", "ns",
		      "the spawn of these tasks is not recorded");
		return;
	}
	put(making, "total_first_poll_delay", "ns", delay, why,
	    "from the spawn, which follows instrument()");
	put_mean(making, "mean_first_poll_delay", delay, first, why);
}

static void put_idle(struct metrics_making *making, const struct ky_kind_sums *kind)
{
	bool is_whole = !kind->idle_unknown;
	struct ky_metric_bound count = from(kind->idle.count, kind->idle_unknown);
	struct ky_metric_bound ns = {kind->idle.ns, is_whole ? kind->idle.ns : OPEN};
	struct ky_metric_bound longest = {kind->idle_max_ns, is_whole ? kind->idle_max_ns : OPEN};

	if (!kind->idle.count && !is_whole) {
		lacks(making, "total_idled_count", "count", NEED_IDLE);
		lacks(making, "total_idle_duration", "ns", NEED_IDLE);
		lacks(making, "max_idle_duration", "ns", NEED_IDLE);
		lacks(making, "mean_idle_duration", "ns", NEED_IDLE);
		return;
	}
	put(making, "total_idled_count", "count", count, WHY_WAKE,
	    "counted when the next poll begins; not where it was woken inside the poll before");
	put(making, "total_idle_duration", "ns", ns, WHY_WAKE,
	    "from the end of a poll to the first wake after it");
	put(making, "max_idle_duration", "ns", longest, WHY_WAKE, NULL);
	put_mean(making, "mean_idle_duration", ns, count, WHY_WAKE);
}

static const char *const scheduled_names[][2] = {
	{"total_scheduled_count", "count"},   {"total_scheduled_duration", "ns"},
	{"total_short_delay_count", "count"}, {"total_short_delay_duration", "ns"},
	{"total_long_delay_count", "count"},  {"total_long_delay_duration", "ns"},
	{"mean_scheduled_duration", "ns"},    {"mean_short_delay_duration", "ns"},
	{"mean_long_delay_duration", "ns"},   {"long_delay_ratio", "ppm"},
};

static void put_scheduled(struct metrics_making *making, const struct ky_kind_sums *kind)
{
	uint64_t unknown = kind->scheduled_unknown, open = unknown ? OPEN : 0;
	uint64_t short_count = kind->scheduled.count - kind->long_delays.count;
	uint64_t short_ns = kind->scheduled.ns - kind->long_delays.ns;
	uint64_t short_more = unknown > OPEN / KY_LONG_DELAY_NS ? OPEN : unknown * KY_LONG_DELAY_NS;
	struct ky_metric_bound count = from(kind->scheduled.count, unknown),
			       ns = from(kind->scheduled.ns, open);
	struct ky_metric_bound shorts = from(short_count, unknown),
			       shorts_ns = from(short_ns, short_more);
	struct ky_metric_bound longs = from(kind->long_delays.count, unknown);
	struct ky_metric_bound longs_ns = from(kind->long_delays.ns, open);

	if (!kind->scheduled.count && unknown) {
		for (uint32_t i = 0; i < sizeof(scheduled_names) / sizeof(*scheduled_names); i++)
			lacks(making, scheduled_names[i][0], scheduled_names[i][1], NEED_WAKES);
		return;
	}
	put(making, "total_scheduled_count", "count", count, WHY_WAKE,
	    "polls after a wake; a first poll follows none");
	put(making, "total_scheduled_duration", "ns", ns, WHY_WAKE,
	    "from the first wake since the last poll began; delay_ns of view polls counts a wake "
	    "inside a poll from that poll's end");
	put(making, "total_short_delay_count", "count", shorts, WHY_WAKE, NULL);
	put(making, "total_short_delay_duration", "ns", shorts_ns, WHY_WAKE, NULL);
	put(making, "total_long_delay_count", "count", longs, WHY_WAKE, NOTE_LONG);
	put(making, "total_long_delay_duration", "ns", longs_ns, WHY_WAKE, NOTE_LONG);
	put_mean(making, "mean_scheduled_duration", ns, count, WHY_WAKE);
	put_mean(making, "mean_short_delay_duration", shorts_ns, shorts, WHY_WAKE);
	put_mean(making, "mean_long_delay_duration", longs_ns, longs, WHY_WAKE);
	put_ratio(making, "long_delay_ratio", longs, count, WHY_WAKE);
}

static void put_polls(struct metrics_making *making, const struct ky_kind_sums *kind)
{
	uint64_t vague = plus(kind->unproven.count, kind->held_polls);
	uint64_t vague_ns = plus(kind->unproven.ns, kind->held_poll_ns);
	uint64_t proven_ns = plus(plus(kind->fast.ns, kind->slow.ns), kind->held_poll_ns);
	struct ky_metric_bound count = exactly(
		plus(plus(kind->fast.count, kind->slow.count), vague));
	struct ky_metric_bound ns = from(proven_ns, kind->unproven.ns);
	struct ky_metric_bound fast = from(kind->fast.count, vague),
			       fast_ns = from(kind->fast.ns, vague_ns);
	struct ky_metric_bound slow = from(kind->slow.count, vague),
			       slow_ns = from(kind->slow.ns, vague_ns);
	const char *why = kind->held_polls ? "some polls are in a histogram alone" : WHY_END;

	put(making, "total_poll_count", "count", count, NULL,
	    "without the poll that only drops the future of a cancelled task");
	put(making, "total_poll_duration", "ns", ns, why,
	    "with Tokio's part of a poll, and in the last one the drop of the future");
	put(making, "total_fast_poll_count", "count", fast, why, NULL);
	put(making, "total_fast_poll_duration", "ns", fast_ns, why, NULL);
	put(making, "total_slow_poll_count", "count", slow, why, NOTE_SLOW);
	put(making, "total_slow_poll_duration", "ns", slow_ns, why, NOTE_SLOW);
	put_mean(making, "mean_poll_duration", ns, count, why);
	put_mean(making, "mean_fast_poll_duration", fast_ns, fast, why);
	put_mean(making, "mean_slow_poll_duration", slow_ns, slow, why);
	put_ratio(making, "slow_poll_ratio", slow, count, why);
}

int ky_task_metrics(struct ky_metric_rows *out, const struct ky_trace *trace,
		    const struct ky_tokio_sums *sums)
{
	struct metrics_making making = begin(out, trace, sums);

	for (uint32_t i = 0; i < sums->kind_count; i++) {
		making.subject = sums->kinds[i].name;
		put_lives(&making, &sums->kinds[i]);
		put_polls(&making, &sums->kinds[i]);
		if (sums->has_held && !sums->has_losses)
			making.doubt = WHY_HELD;
		put_scheduled(&making, &sums->kinds[i]);
		put_idle(&making, &sums->kinds[i]);
		making.doubt = sums->has_losses ? WHY_LOSSES : NULL;
	}
	return out->is_full ? -ENOMEM : 0;
}

/* ---- runtimes ---- */

#define WHY_WORKERS "a worker that did nothing yet is not seen: at least"
#define WHY_PARKS                                                                                  \
	"Tokio also counts a park that a notification ends before its system call: at least"
#define WHY_NOOPS "parks that end before their system call are not seen: at least"
#define WHY_BUSY "between the time in its polls, and all between its parks and turns of the driver"
#define WHY_LIVE "the runtime of tasks that were not polled is not known"
#define WHY_SCHEDULES "spawns are not recorded with their queue, wakes are: at least"
#define WHY_READY                                                                                  \
	"each wait may also have returned a notification and a signal, which Tokio does not count"
#define WHY_PER_PARK "at most by the parks after a poll that are seen"
#define NOTE_HISTOGRAM                                                                             \
	"bounds: Tokio's default; Tokio adds a poll from the LIFO slot to the poll before it"
#define NOTE_POLLS "Tokio's own counter leaves out polls from the LIFO slot"
#define NOTE_SEEN "of the workers seen"
#define NEED_PARKS                                                                                 \
	"dial9's parks are those of on_thread_park, once for several and before it is sure that "  \
	"one follows: kymo run records each"
#define NEED_MEAN                                                                                  \
	"an average that Tokio weights itself: a record of RuntimeMetrics::worker_mean_poll_time " \
	"(tokio_unstable); the plain mean of each kind is in view task_metrics"
#define NEED_STEALS                                                                                \
	"a record of each steal, or of RuntimeMetrics::worker_steal_count (tokio_unstable)"
#define NEED_OVERFLOW                                                                              \
	"a record of each overflow, or of RuntimeMetrics::worker_overflow_count (tokio_unstable)"
#define NEED_LOCAL                                                                                 \
	"a reading of RuntimeMetrics::worker_local_queue_depth (tokio_unstable); kymo why "        \
	"replays the queues"
#define NEED_GLOBAL                                                                                \
	"a reading of RuntimeMetrics::global_queue_depth (injection_queue_depth up to 0.3)"
#define NEED_POOL_QUEUE                                                                            \
	"a reading of RuntimeMetrics::blocking_queue_depth (tokio_unstable); wait_ns of view "     \
	"blocking says how long each closure stood there"
#define NEED_POOL                                                                                  \
	"a reading of RuntimeMetrics::num_blocking_threads (tokio_unstable); view blocking has "   \
	"each run with its thread"
#define NEED_POOL_IDLE "a reading of RuntimeMetrics::num_idle_blocking_threads (tokio_unstable)"
#define NEED_BUDGET                                                                                \
	"a record where the budget of coop runs out, or of "                                       \
	"RuntimeMetrics::budget_forced_yield_count (tokio_unstable)"
#define NEED_READY "kymo run records what each wait of the driver returned (gate park)"

/* Total, max and min over the workers. */
struct three {
	const char *names[3], *unit;
};

static struct ky_metric_bound parks_of(const struct ky_worker_counts *sums)
{
	return (struct ky_metric_bound){sums->parks, OPEN};
}

static struct ky_metric_bound noops_of(const struct ky_worker_counts *sums)
{
	return (struct ky_metric_bound){sums->noops, OPEN};
}

static struct ky_metric_bound working_of(const struct ky_worker_counts *sums)
{
	return exactly(sums->working_parks);
}

static struct ky_metric_bound busy_of(const struct ky_worker_counts *sums)
{
	return (struct ky_metric_bound){sums->poll_ns, sums->awake_ns};
}

static struct ky_metric_bound polls_of(const struct ky_worker_counts *sums)
{
	return exactly(sums->polls);
}

static struct ky_metric_bound local_of(const struct ky_worker_counts *sums)
{
	return (struct ky_metric_bound){sums->local_wakes, OPEN};
}

static struct ky_metric_bound ready_of(const struct ky_worker_counts *sums)
{
	return (struct ky_metric_bound){sums->ready_min, sums->ready_max};
}

/* out: total, max, min. */
static void add_workers(const struct metrics_making *making,
			struct ky_metric_bound (*of)(const struct ky_worker_counts *),
			struct ky_metric_bound out[3])
{
	out[0] = out[1] = exactly(0);
	out[2] = exactly(OPEN);
	for (uint32_t i = 0; i < making->trace->worker_count; i++) {
		struct ky_metric_bound one;

		if (ky_tokio_runtime(making->trace, i) != making->subject)
			continue;
		one = of(&making->sums->workers[i]);
		out[0].least = plus(out[0].least, one.least);
		out[0].most = plus(out[0].most, one.most);
		out[1].least = one.least > out[1].least ? one.least : out[1].least;
		out[1].most = one.most > out[1].most ? one.most : out[1].most;
		out[2].least = one.least < out[2].least ? one.least : out[2].least;
		out[2].most = one.most < out[2].most ? one.most : out[2].most;
	}
	if (!making->sums->runtimes[making->subject].workers)
		out[2] = exactly(0);
}

static struct ky_metric_bound
put_three(struct metrics_making *making, const struct three *three,
	  struct ky_metric_bound (*of)(const struct ky_worker_counts *), const char *why,
	  const char *note)
{
	struct ky_metric_bound bounds[3];

	add_workers(making, of, bounds);
	put(making, three->names[0], three->unit, bounds[0], why, note);
	put(making, three->names[1], three->unit, bounds[1], why, NULL);
	put(making, three->names[2], three->unit, bounds[2], why, NOTE_SEEN);
	return bounds[0];
}

static void lack_three(struct metrics_making *making, const struct three *three, const char *what)
{
	for (uint32_t i = 0; i < 3; i++)
		lacks(making, three->names[i], three->unit, what);
}

#define THREE(stem, unit)                                                                          \
	{                                                                                          \
		{"total_" stem, "max_" stem, "min_" stem}, unit                                    \
	}
static const struct three three_parks = THREE("park_count", "count");
static const struct three three_busy = THREE("busy_duration", "ns");
static const struct three three_noops = THREE("noop_count", "count");
static const struct three three_steals = THREE("steal_count", "count");
static const struct three three_steal_operations = THREE("steal_operations", "count");
static const struct three three_local = THREE("local_schedule_count", "count");
static const struct three three_overflows = THREE("overflow_count", "count");
static const struct three three_polls = THREE("polls_count", "count");
static const struct three three_queues = THREE("local_queue_depth", "count");
static const struct three three_means = {{"mean_poll_duration", "mean_poll_duration_worker_max",
					  "mean_poll_duration_worker_min"},
					 "ns"};

static bool is_current_thread(const struct metrics_making *making)
{
	return making->subject < making->trace->runtime_count &&
	       making->trace->runtimes[making->subject].flavor == 2;
}

/* Of a park each wait is here. */
static bool has_waits(const struct metrics_making *making)
{
	return making->trace->is_kymo || !making->trace->is_dial9;
}

/* What only a runtime of several workers has. */
static void put_moves(struct metrics_making *making, const struct three *three, const char *what)
{
	if (!is_current_thread(making)) {
		lack_three(making, three, what);
		return;
	}
	for (uint32_t i = 0; i < 3; i++)
		put_sure(making, three->names[i], three->unit, exactly(0),
			 "always 0 of a current-thread runtime");
}

static void put_histogram(struct metrics_making *making)
{
	uint64_t unproven = 0;

	for (uint32_t bucket = 0; bucket < KY_POLL_BUCKETS; bucket++) {
		struct ky_metric_row like = {.name = "poll_time_histogram",
					     .unit = "count",
					     .why = making->doubt ? making->doubt : WHY_END,
					     .note = NOTE_HISTOGRAM,
					     .subject = making->subject,
					     .bucket_ns = bucket * KY_POLL_BUCKET_NS};
		uint64_t count = 0;

		unproven = 0;
		for (uint32_t i = 0; i < making->trace->worker_count; i++) {
			if (ky_tokio_runtime(making->trace, i) != making->subject)
				continue;
			count += making->sums->workers[i].buckets[bucket];
			unproven += making->sums->workers[i].unproven;
		}
		ky_metric_put(making->rows, &like, from(count, making->doubt ? OPEN : unproven));
	}
}

/* What a runtime is and does now. */
static void put_state(struct metrics_making *making)
{
	const struct ky_runtime_sums *runtime = &making->sums->runtimes[making->subject];
	uint64_t more = is_current_thread(making) && runtime->workers == 1 ? 0 : OPEN;

	put(making, "workers_count", "count", from(runtime->workers, more), WHY_WORKERS, NULL);
	put(making, "live_tasks_count", "count", from(runtime->live, runtime->live_unknown),
	    WHY_LIVE, "at the end of the trace");
	lacks(making, "global_queue_depth", "count", NEED_GLOBAL);
	lack_three(making, &three_queues, NEED_LOCAL);
	lacks(making, "blocking_queue_depth", "count", NEED_POOL_QUEUE);
	lacks(making, "blocking_threads_count", "count", NEED_POOL);
	lacks(making, "idle_blocking_threads_count", "count", NEED_POOL_IDLE);
}

static void put_work(struct metrics_making *making, struct ky_metric_bound elapsed)
{
	struct ky_metric_bound polls = put_three(making, &three_polls, polls_of, NULL, NOTE_POLLS);
	struct ky_metric_bound busy = put_three(making, &three_busy, busy_of, WHY_BUSY, NULL);
	struct ky_metric_bound ratio = divided(busy, elapsed, PPM), per_park = {0, OPEN}, parks[3];

	put_sure(making, "elapsed", "ns", elapsed, "from the first to the last poll, park or wake");
	put(making, "busy_ratio", "ppm", ratio, WHY_BUSY, "of all workers together, in millionths");
	put_histogram(making);
	lack_three(making, &three_means, NEED_MEAN);
	if (!has_waits(making)) {
		lack_three(making, &three_parks, NEED_PARKS);
		lack_three(making, &three_noops, NEED_PARKS);
		lacks(making, "mean_polls_per_park", "ppm", NEED_PARKS);
		lacks(making, "io_driver_ready_count", "count", NEED_READY);
		return;
	}
	(void)put_three(making, &three_parks, parks_of, WHY_PARKS, NULL);
	(void)put_three(making, &three_noops, noops_of, WHY_NOOPS, NULL);
	add_workers(making, working_of, parks);
	if (parks[0].least && !making->sums->has_held)
		per_park.most = quotient(polls.least, PPM, parks[0].least);
	put(making, "mean_polls_per_park", "ppm", per_park, WHY_PER_PARK,
	    "parks without the noops; a ratio, in millionths");
	add_workers(making, ready_of, parks);
	put(making, "io_driver_ready_count", "count", parks[0], WHY_READY, NULL);
}

static void put_queues(struct metrics_making *making)
{
	const struct ky_runtime_sums *runtime = &making->sums->runtimes[making->subject];

	put_moves(making, &three_steals, NEED_STEALS);
	put_moves(making, &three_steal_operations, NEED_STEALS);
	put_moves(making, &three_overflows, NEED_OVERFLOW);
	put(making, "num_remote_schedules", "count", from(runtime->remote_wakes, OPEN),
	    WHY_SCHEDULES, "wakes from other threads that made a task ready");
	(void)put_three(making, &three_local, local_of, WHY_SCHEDULES,
			"wakes on workers of the runtime that made a task ready");
	lacks(making, "budget_forced_yield_count", "count", NEED_BUDGET);
}

int ky_runtime_metrics(struct ky_metric_rows *out, const struct ky_trace *trace,
		       const struct ky_tokio_sums *sums)
{
	struct metrics_making making = begin(out, trace, sums);
	uint64_t elapsed_ns = trace->run_last_ns - trace->run_first_ns;

	for (uint32_t i = 0; i <= trace->runtime_count; i++) {
		if (i == trace->runtime_count && !sums->runtimes[i].workers)
			continue;
		making.subject = i;
		put_state(&making);
		put_work(&making, exactly(elapsed_ns));
		put_queues(&making);
	}
	return out->is_full ? -ENOMEM : 0;
}
