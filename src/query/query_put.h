/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* query_put.h - what a call of a column (query_calls.h) gives: a number, a text, or nothing.
 * Threads: owner.
 */
#ifndef KY_QUERY_QUERY_PUT_H
#define KY_QUERY_QUERY_PUT_H

#include <query/query_table.h>

static inline void ky_query_put(struct ky_query_value *out, uint64_t number)
{
	out->type = KY_VALUE_NUMBER;
	out->number = (int64_t)(number > INT64_MAX ? INT64_MAX : number);
}

static inline void ky_query_put_text(struct ky_query_value *out, const char *text)
{
	out->type = KY_VALUE_TEXT;
	out->text = text;
}

static inline void ky_query_put_name(struct ky_query_value *out, const struct ky_trace *trace,
				     uint32_t name)
{
	if (name != KY_NONE)
		ky_query_put_text(out, ky_trace_name(trace, name));
}

/* Of a task by its index; KY_NONE: none. */
static inline void ky_query_put_task(struct ky_query_value *out, const struct ky_trace *trace,
				     uint32_t task)
{
	if (task != KY_NONE)
		ky_query_put(out, trace->tasks[task].id);
}

static inline void ky_query_put_task_site(struct ky_query_value *out, const struct ky_trace *trace,
					  uint32_t task)
{
	if (task != KY_NONE)
		ky_query_put_name(out, trace, trace->tasks[task].name);
}

/* What source->scratch holds by now. */
static inline void ky_query_put_scratch(const struct ky_query_source *source,
					struct ky_query_value *out)
{
	(void)ky_buf_append(source->scratch, "", 1);
	if (source->scratch->failed)
		return;
	ky_query_put_text(out, (const char *)source->scratch->bytes);
	out->is_passing = true;
}

#endif
