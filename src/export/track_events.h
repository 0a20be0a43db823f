/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* track_events.h - a trace as slices, instants, counters and arrows on tracks: what timelines of
 * other tools show. One walk, and a sink for each format.
 *
 * A worker has a lane, of its thread where no other worker has the same one: its polls, parks and
 * driver turns are slices, wakes that it issued are instants. Slices of one track nest: what
 * overlaps another slice without lying in it goes to a further track of the lane. A task, a span, a
 * run of the blocking pool and a loss each have a track of their own, below a group's; spans below
 * their parent's.
 * The wake that makes a task ready has an arrow to the task's next poll.
 *
 * Invariants:  events of a lane ascend in time; of a slice without an end, which is still open when
 *              the trace ends, no end is reported. A track is declared before its first event.
 * Errors:      a sink keeps its own.
 * Threads:     owner.
 */
#ifndef KY_EXPORT_TRACK_EVENTS_H
#define KY_EXPORT_TRACK_EVENTS_H

#include <export/export.h>

enum ky_track_kind {
	KY_TRACK_LANE,    /* of a worker */
	KY_TRACK_FURTHER, /* of a lane: what does not nest */
	KY_TRACK_GROUP,   /* has tracks and no events */
	KY_TRACK_OWN,     /* of one slice, or of instants */
	KY_TRACK_COUNTER
};

#define KY_TRACK_PROCESS 1u /* id of the track that is above all others */

struct ky_track {
	uint64_t id, parent;
	const char *name;
	uint32_t kind; /* enum ky_track_kind */
	uint32_t lane; /* index of the worker; KY_NONE */
	uint32_t tid;  /* LANE: its thread; 0: not known, or shared with other lanes */
};

/* Names of events that the trace has not. */
enum ky_track_name {
	KY_TRACK_NAME_OF_TRACE, /* `name` is an index */
	KY_TRACK_NAME_UNNAMED,
	KY_TRACK_NAME_PARK,
	KY_TRACK_NAME_DRIVER,
	KY_TRACK_NAME_WAKE,
	KY_TRACK_NAME_LOST,
	KY_TRACK_NAME_UNRECORDED,
	KY_TRACK_NAME_COUNTED,
	KY_TRACK_NAMES
};
const char *ky_track_name_text(uint32_t name); /* enum ky_track_name */

struct ky_track_value {
	const char *name;
	const char *text; /* NULL: a number */
	uint64_t number;
};
#define KY_TRACK_VALUES_MAX 66u

struct ky_track_event {
	uint64_t time_ns;
	uint64_t track;
	uint64_t task;              /* id, where has_task */
	uint64_t flow_out, flow_in; /* arrow that begins or ends here; 0: none */
	int64_t counter;
	const struct ky_track_value *values;
	uint32_t value_count;
	uint32_t lane;       /* index of the worker; KY_NONE: of no lane */
	uint32_t name;       /* name index, where named is OF_TRACE */
	uint8_t named;       /* enum ky_track_name */
	bool is_first_track; /* of its lane */
	bool has_task;
};

struct ky_track_sink {
	void *ctx;
	void (*track)(void *ctx, const struct ky_track *track);
	void (*begin)(void *ctx, const struct ky_track_event *event);
	void (*end)(void *ctx, const struct ky_track_event *event);
	void (*instant)(void *ctx, const struct ky_track_event *event);
	void (*counter)(void *ctx, const struct ky_track_event *event);
	int (*flush)(void *ctx); /* now and then: passes on what it has. Returns 0 or an error */
};

/* Counts what it reports in export->counts. Returns 0, -ENOMEM, or what flush returned. */
int ky_track_events(struct ky_export *export, const struct ky_track_sink *sink);

/* Number of the process; 1 where the trace does not say. */
uint64_t ky_track_pid(const struct ky_trace *trace);

/* In track_groups.c: what is not on the lanes of workers. *track: the last id given. */
int ky_track_groups(struct ky_export *export, const struct ky_track_sink *sink, uint64_t *track);

/* A moment or a row that begins then is exported. */
static inline bool ky_track_has(const struct ky_export *export, uint64_t time_ns)
{
	return time_ns >= export->from_ns && (!export->to_ns || time_ns < export->to_ns);
}

#endif
