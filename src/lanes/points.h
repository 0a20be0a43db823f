/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* points.h - values that were recorded at moments, as lanes: events of the program, their numeric
 * fields, counters, annotations, depths of queues.
 *
 * A pixel has how many points lie in it, the smallest and the largest of them, the last value at
 * its end, and its first point; where none lies in it the value from before goes on.
 * Memory:      20 bytes a point of the lanes that are asked for.
 * Threads:     owner while it is made; any number of readers afterwards.
 */
#ifndef KY_LANES_POINTS_H
#define KY_LANES_POINTS_H

#include <base/buf.h>
#include <lanes/strip.h>
#include <read/trace.h>

enum ky_points_kind {
	KY_POINTS_EVENTS,  /* index: in custom_types; no values */
	KY_POINTS_FIELD,   /* ... field: of the type, numeric */
	KY_POINTS_COUNTER, /* index: name */
	KY_POINTS_NOTES,   /* annotations; no values */
	KY_POINTS_QUEUE,   /* index: in queues */
	KY_POINTS_KINDS
};

struct ky_points {
	uint32_t kind, index, field;
	uint32_t count;
	bool has_values;
	uint64_t *times_ns; /* ascending */
	double *values;
	uint32_t *rows; /* of the trace's table */
};

struct ky_points_pixel {
	double low, high, last; /* NaN: there is none */
	uint32_t count, row;    /* row of the first; UINT32_MAX */
};

/* Returns 0, -ENOMEM, -EINVAL: there is no such lane. */
int ky_points_make(struct ky_points *out, const struct ky_trace *trace, uint32_t kind,
		   uint32_t index, uint32_t field);
void ky_points_release(struct ky_points *points);

/* Fills out[0 .. view->pixels). */
void ky_points_pixels(struct ky_points_pixel *out, const struct ky_points *points,
		      const struct ky_view *view);

/* All lanes that the trace has points for. Errors: out->failed. */
void ky_points_list_json(struct ky_buf *out, const struct ky_trace *trace);
/* How many of a lane's points lie in [from_ns, to_ns], and the first `limit` of them as below, each
 * with its row. Errors: out->failed. */
void ky_points_within_json(struct ky_buf *out, const struct ky_trace *trace,
			   const struct ky_points *points, uint64_t from_ns, uint64_t to_ns,
			   uint32_t limit);
/* One point by its row. Returns false: there is no such one. */
bool ky_points_facts_json(struct ky_buf *out, const struct ky_trace *trace, uint32_t kind,
			  uint32_t index, uint32_t row);

#endif
