/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <export/track_events.h>

#include <base/alloc.h>
#include <errno.h>
#include <base/text.h>
#include <read/turns.h>
#include <string.h>

#define FLUSH_EVENTS 4096u

const char *ky_track_name_text(uint32_t name)
{
	static const char *const texts[KY_TRACK_NAMES] = {
		[KY_TRACK_NAME_OF_TRACE] = "",
		[KY_TRACK_NAME_UNNAMED] = "(unnamed)",
		[KY_TRACK_NAME_PARK] = "park",
		[KY_TRACK_NAME_DRIVER] = "driver turn",
		[KY_TRACK_NAME_WAKE] = "wake",
		[KY_TRACK_NAME_LOST] = "lost",
		[KY_TRACK_NAME_UNRECORDED] = "not recorded",
		[KY_TRACK_NAME_COUNTED] = "counted, not written one by one",
	};

	return texts[name];
}

uint64_t ky_track_pid(const struct ky_trace *trace)
{
	uint32_t pid = ky_trace_pid(trace);

	return pid ? pid : 1; /* 0 is the kernel's own */
}

/* ---- lanes ---- */

enum lane_source {
	SOURCE_POLL,
	SOURCE_PARK,
	SOURCE_DRIVER,
	SOURCE_WAKE,
	SOURCES
};

/* A slice whose end is to come. */
struct open_slice {
	uint64_t end_ns; /* UINT64_MAX: there is none */
	uint32_t depth;  /* which track of the lane */
};

struct track_lane {
	struct ky_cursor cursors[SOURCES];
	uint64_t next_ns[SOURCES]; /* of the row at which the cursor stands; UINT64_MAX: none */
	struct open_slice *open;   /* in the order of their begins */
	uint64_t *tracks;          /* by depth */
	uint64_t last_ns;
	uint64_t due_ns; /* of its next event; UINT64_MAX: none */
	uint32_t open_count, open_capacity;
	uint32_t track_count, track_capacity;
	uint32_t worker;
};

struct walk {
	struct ky_export *export;
	const struct ky_track_sink *sink;
	struct track_lane *lanes;
	uint32_t *heap;    /* of lanes, by due_ns */
	uint64_t *pending; /* by task: the arrow to its next poll; 0: none */
	uint64_t track, flow;
	uint32_t lane_count, heap_count;
	int failed;
};

static const struct ky_worker *worker_of(const struct walk *walk, const struct track_lane *lane)
{
	return &walk->export->trace->workers[lane->worker];
}

/* Where the row begins: that of a turn is its end less its length. */
static uint64_t begin_of(const struct walk *walk, const struct track_lane *lane, uint32_t source)
{
	const struct ky_cursor *cursor = &lane->cursors[source];
	struct ky_turn turn;

	if (source != SOURCE_DRIVER)
		return cursor->time_ns;
	ky_trace_turn(walk->export->trace, lane->worker, cursor->row, &turn);
	return turn.start_ns;
}

static void note_due(struct track_lane *lane)
{
	uint64_t due_ns = UINT64_MAX;

	for (uint32_t i = 0; i < SOURCES; i++)
		due_ns = lane->next_ns[i] < due_ns ? lane->next_ns[i] : due_ns;
	for (uint32_t i = 0; i < lane->open_count; i++)
		due_ns = lane->open[i].end_ns < due_ns ? lane->open[i].end_ns : due_ns;
	lane->due_ns = due_ns;
}

static void step(const struct walk *walk, struct track_lane *lane, uint32_t source)
{
	lane->next_ns[source] = ky_cursor_next(&lane->cursors[source]) ?
					begin_of(walk, lane, source) :
					UINT64_MAX;
}

/* "worker 3 (tokio-runtime-w)" */
static void put_lane_name(struct ky_buf *out, const struct walk *walk,
			  const struct track_lane *lane)
{
	const struct ky_worker *worker = worker_of(walk, lane);
	uint32_t name = ky_trace_thread_name(walk->export->trace, worker->tid);

	ky_text(out, worker->is_worker ? "worker " : "thread ");
	ky_text_u64(out, worker->is_thread_lane ? worker->tid : worker->id);
	if (name != KY_NONE && *ky_trace_name(walk->export->trace, name)) {
		ky_text(out, " (");
		ky_text(out, ky_trace_name(walk->export->trace, name));
		ky_text(out, ")");
	}
	(void)ky_buf_append(out, "", 1);
}

/* Two workers of one thread would share its track, on which their slices do not nest. */
static uint32_t own_tid(const struct walk *walk, const struct track_lane *lane)
{
	uint32_t tid = worker_of(walk, lane)->tid;

	for (uint32_t i = 0; tid && i < walk->lane_count; i++)
		if (&walk->lanes[i] != lane && worker_of(walk, &walk->lanes[i])->tid == tid)
			return 0;
	return tid;
}

static bool add_track(struct walk *walk, struct track_lane *lane)
{
	struct ky_track track = {.id = ++walk->track,
				 .parent = lane->track_count ? lane->tracks[0] : KY_TRACK_PROCESS,
				 .kind = lane->track_count ? KY_TRACK_FURTHER : KY_TRACK_LANE,
				 .lane = lane->worker};
	struct ky_buf name;

	if (ky_grow(&lane->tracks, &lane->track_capacity, lane->track_count + 1,
		    sizeof(*lane->tracks))) {
		walk->failed = -ENOMEM;
		return false;
	}
	ky_buf_init(&name, 0);
	put_lane_name(&name, walk, lane);
	if (name.failed)
		walk->failed = name.failed;
	track.tid = track.kind == KY_TRACK_LANE ? own_tid(walk, lane) : 0;
	track.name = name.failed ? "" : (const char *)name.bytes;
	walk->sink->track(walk->sink->ctx, &track);
	ky_buf_release(&name);
	lane->tracks[lane->track_count++] = track.id;
	return walk->failed == 0;
}

/* ---- slices of a lane ---- */

static struct ky_track_event event_at(const struct track_lane *lane, uint32_t depth,
				      uint64_t time_ns)
{
	return (struct ky_track_event){.time_ns = time_ns,
				       .track = lane->tracks[depth],
				       .lane = lane->worker,
				       .name = KY_NONE,
				       .is_first_track = depth == 0};
}

/* The first track on which all that is open ends no earlier. */
static uint32_t depth_for(const struct track_lane *lane, uint64_t end_ns)
{
	uint32_t depth = 0, i = 0;

	while (i < lane->open_count) {
		if (lane->open[i].depth == depth && lane->open[i].end_ns < end_ns) {
			depth++;
			i = 0;
		} else {
			i++;
		}
	}
	return depth;
}

static bool push(struct walk *walk, struct track_lane *lane, uint64_t end_ns, uint32_t *depth)
{
	*depth = lane->open_count ? depth_for(lane, end_ns) : 0;
	while (lane->track_count <= *depth)
		if (!add_track(walk, lane))
			return false;
	if (lane->open_count >= lane->open_capacity &&
	    ky_grow(&lane->open, &lane->open_capacity, lane->open_count + 1, sizeof(*lane->open))) {
		walk->failed = -ENOMEM;
		return false;
	}
	lane->open[lane->open_count++] = (struct open_slice){end_ns, *depth};
	return true;
}

static void end_slice(struct walk *walk, struct track_lane *lane)
{
	struct ky_track_event event;
	uint32_t best = 0;

	for (uint32_t i = 1; i < lane->open_count; i++)
		if (lane->open[i].end_ns <= lane->open[best].end_ns)
			best = i;
	event = event_at(lane, lane->open[best].depth, lane->open[best].end_ns);
	lane->last_ns = event.time_ns;
	walk->sink->end(walk->sink->ctx, &event);
	lane->open_count--;
	memmove(lane->open + best, lane->open + best + 1,
		(lane->open_count - best) * sizeof(*lane->open));
}

static uint64_t end_of(uint64_t start_ns, uint64_t duration_ns)
{
	return duration_ns < UINT64_MAX - 1 - start_ns ? start_ns + duration_ns : UINT64_MAX - 1;
}

static void put_poll(struct walk *walk, struct track_lane *lane)
{
	static const struct ky_track_value unproven = {"end", "not recorded", 0};
	struct ky_export *export = walk->export;
	struct ky_track_event event;
	uint64_t flow = 0;
	struct ky_poll poll;
	uint32_t depth;

	ky_trace_poll_at(export->trace, lane->worker, &lane->cursors[SOURCE_POLL], &poll);
	step(walk, lane, SOURCE_POLL);
	if (poll.task != KY_NONE) {
		flow = walk->pending[poll.task];
		walk->pending[poll.task] = 0;
	}
	if (!ky_track_has(export, poll.start_ns) ||
	    (export->task != KY_NONE && export->task != poll.task))
		return;
	if (!push(walk, lane,
		  poll.flags & KY_POLL_OPEN ? UINT64_MAX : end_of(poll.start_ns, poll.duration_ns),
		  &depth))
		return;
	event = event_at(lane, depth, poll.start_ns);
	event.name = poll.name;
	event.named = poll.name == KY_NONE ? KY_TRACK_NAME_UNNAMED : KY_TRACK_NAME_OF_TRACE;
	event.has_task = poll.task != KY_NONE;
	event.task = event.has_task ? export->trace->tasks[poll.task].id : 0;
	event.flow_in = flow;
	if (poll.flags & (KY_POLL_END_UNPROVEN | KY_POLL_GAP)) {
		event.values = &unproven;
		event.value_count = 1;
	}
	export->counts.polls++;
	lane->last_ns = event.time_ns;
	walk->sink->begin(walk->sink->ctx, &event);
}

static void put_span_of_worker(struct walk *walk, struct track_lane *lane, uint64_t start_ns,
			       uint64_t end_ns, uint32_t named)
{
	struct ky_track_event event;
	uint32_t depth;

	if (!ky_track_has(walk->export, start_ns) || walk->export->task != KY_NONE)
		return;
	if (start_ns < lane->last_ns)
		start_ns = lane->last_ns;
	if (end_ns < start_ns)
		end_ns = start_ns;
	if (!push(walk, lane, end_ns, &depth))
		return;
	event = event_at(lane, depth, start_ns);
	event.named = (uint8_t)named;
	lane->last_ns = start_ns;
	walk->sink->begin(walk->sink->ctx, &event);
	if (named == KY_TRACK_NAME_PARK)
		walk->export->counts.parks++;
	else
		walk->export->counts.turns++;
}

static void put_park(struct walk *walk, struct track_lane *lane)
{
	struct ky_park park;

	ky_trace_park(walk->export->trace, lane->worker, lane->cursors[SOURCE_PARK].row, &park);
	step(walk, lane, SOURCE_PARK);
	put_span_of_worker(walk, lane, park.start_ns,
			   park.flags & KY_PARK_OPEN ? UINT64_MAX :
						       end_of(park.start_ns, park.duration_ns),
			   KY_TRACK_NAME_PARK);
}

static void put_turn(struct walk *walk, struct track_lane *lane)
{
	struct ky_turn turn;

	ky_trace_turn(walk->export->trace, lane->worker, lane->cursors[SOURCE_DRIVER].row, &turn);
	step(walk, lane, SOURCE_DRIVER);
	put_span_of_worker(walk, lane, turn.start_ns, turn.end_ns, KY_TRACK_NAME_DRIVER);
}

/* The first wake since its last poll made the task ready: it has the arrow. */
static void put_wake(struct walk *walk, struct track_lane *lane)
{
	struct ky_export *export = walk->export;
	struct ky_track_event event;
	struct ky_wake wake;

	ky_trace_wake(export->trace, lane->worker, lane->cursors[SOURCE_WAKE].row, &wake);
	step(walk, lane, SOURCE_WAKE);
	if (!ky_track_has(export, wake.time_ns) ||
	    (export->task != KY_NONE && export->task != wake.woken && export->task != wake.waker))
		return;
	if (!lane->track_count && !add_track(walk, lane))
		return;
	event = event_at(lane, 0, wake.time_ns);
	event.named = KY_TRACK_NAME_WAKE;
	event.has_task = wake.woken != KY_NONE;
	if (event.has_task) {
		event.task = export->trace->tasks[wake.woken].id;
		if (!walk->pending[wake.woken])
			event.flow_out = walk->pending[wake.woken] = ++walk->flow;
	}
	export->counts.wakes++;
	lane->last_ns = wake.time_ns;
	walk->sink->instant(walk->sink->ctx, &event);
}

/* At one moment: what ends, what begins, then wakes, so that they lie in what begins. */
static void put_next(struct walk *walk, struct track_lane *lane)
{
	uint64_t due_ns = lane->due_ns;
	bool is_end = false;

	for (uint32_t i = 0; i < lane->open_count; i++)
		is_end |= lane->open[i].end_ns == due_ns;
	if (is_end)
		end_slice(walk, lane);
	else if (lane->next_ns[SOURCE_POLL] == due_ns)
		put_poll(walk, lane);
	else if (lane->next_ns[SOURCE_PARK] == due_ns)
		put_park(walk, lane);
	else if (lane->next_ns[SOURCE_DRIVER] == due_ns)
		put_turn(walk, lane);
	else
		put_wake(walk, lane);
	note_due(lane);
}

/* ---- all lanes, in the order of time ---- */

static bool is_due_before(const struct walk *walk, uint32_t a, uint32_t b)
{
	const struct track_lane *one = &walk->lanes[walk->heap[a]],
				*other = &walk->lanes[walk->heap[b]];

	return one->due_ns != other->due_ns ? one->due_ns < other->due_ns :
					      walk->heap[a] < walk->heap[b];
}

static void sift_down(struct walk *walk, uint32_t at)
{
	for (;;) {
		uint32_t first = at, child = 2 * at + 1, held;

		if (child < walk->heap_count && is_due_before(walk, child, first))
			first = child;
		if (child + 1 < walk->heap_count && is_due_before(walk, child + 1, first))
			first = child + 1;
		if (first == at)
			return;
		held = walk->heap[at];
		walk->heap[at] = walk->heap[first];
		walk->heap[first] = held;
		at = first;
	}
}

static void begin_lane(struct walk *walk, struct track_lane *lane)
{
	const struct ky_worker *worker = worker_of(walk, lane);
	const struct ky_column *columns[SOURCES] = {&worker->polls, &worker->parks, &worker->turns,
						    &worker->wakes};

	for (uint32_t i = 0; i < SOURCES; i++)
		lane->next_ns[i] = ky_cursor_begin(&lane->cursors[i], columns[i], 0) ?
					   begin_of(walk, lane, i) :
					   UINT64_MAX;
	note_due(lane);
}

static int prepare(struct walk *walk)
{
	const struct ky_export *export = walk->export;
	const struct ky_trace *trace = export->trace;

	walk->lanes = ky_alloc((trace->worker_count + (size_t)1) * sizeof(*walk->lanes));
	walk->heap = ky_alloc((trace->worker_count + (size_t)1) * sizeof(*walk->heap));
	walk->pending = ky_alloc((trace->task_count + (size_t)1) * sizeof(*walk->pending));
	if (!walk->lanes || !walk->heap || !walk->pending)
		return -ENOMEM;
	for (uint32_t i = 0; i < trace->worker_count; i++)
		if (export->worker == KY_NONE || export->worker == i)
			walk->lanes[walk->lane_count++].worker = i;
	for (uint32_t i = 0; i < walk->lane_count; i++) {
		begin_lane(walk, &walk->lanes[i]);
		walk->heap[walk->heap_count++] = i;
	}
	for (uint32_t i = walk->heap_count; i-- > 0;)
		sift_down(walk, i);
	return 0;
}

static int put_lanes(struct walk *walk)
{
	uint32_t since = 0;

	while (!walk->failed && walk->heap_count) {
		struct track_lane *lane = &walk->lanes[walk->heap[0]];

		if (lane->due_ns == UINT64_MAX)
			break;
		put_next(walk, lane);
		sift_down(walk, 0);
		if (++since == FLUSH_EVENTS) {
			since = 0;
			if (!walk->failed)
				walk->failed = walk->sink->flush(walk->sink->ctx);
		}
	}
	return walk->failed;
}

int ky_track_events(struct ky_export *export, const struct ky_track_sink *sink)
{
	struct walk walk = {.export = export, .sink = sink, .track = KY_TRACK_PROCESS};
	int result = prepare(&walk);

	if (!result)
		result = put_lanes(&walk);
	if (!result)
		result = ky_track_groups(export, sink, &walk.track);
	if (!result)
		result = sink->flush(sink->ctx);
	for (uint32_t i = 0; walk.lanes && i < walk.lane_count; i++) {
		ky_free(walk.lanes[i].open);
		ky_free(walk.lanes[i].tracks);
	}
	ky_free(walk.lanes);
	ky_free(walk.heap);
	ky_free(walk.pending);
	return result;
}
