/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <read/requests.h>

#include <base/text.h>
#include <read/load.h>
#include <read/sort.h>
#include <string.h>

#define WAITS_MAX (1u << 25)
#define ORIGIN_DRIVER 3u
#define ORIGIN_MASK 127u

/* The begin of a request, and the moment at which its task became ready before that. */
struct lead {
	uint64_t ready_ns;
	uint32_t task, span;
	bool is_by_driver;
};

bool ky_request_is_type(const char *type)
{
	return ky_text_contains(type, ":kymo::conn:");
}

uint8_t ky_request_kind_of(const struct ky_trace *trace, uint32_t name)
{
	return name != KY_NONE && strcmp(ky_trace_name(trace, name), "conn_out") == 0 ?
		       KY_REQUEST_OUT :
		       KY_REQUEST_IN;
}

/* ---- loading ---- */

bool ky_load_request_wait(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_trace *trace = load->trace;
	struct ky_request_wait wait = {
		.span_id = ky_frame_number(frame, KY_F_CONN_WAIT_span_id, 0),
		.from_ns = ky_frame_number(frame, KY_F_CONN_WAIT_since_ns, frame->timestamp_ns),
		.to_ns = frame->timestamp_ns,
		.serial = trace->request_wait_count,
	};

	if (wait.from_ns >= wait.to_ns)
		return true;
	if (trace->request_wait_count >= ky_list_max(load, WAITS_MAX))
		return ky_leave_out(load->private, KY_LEFT_REQUEST_WAITS);
	if (!ky_pages_array(&trace->pages, &trace->request_waits, &trace->request_wait_capacity,
			    trace->request_wait_count + 1, sizeof(wait)))
		return false;
	trace->request_waits[trace->request_wait_count++] = wait;
	return true;
}

bool ky_load_request_unseen(struct ky_load *load, const struct ky_frame *frame)
{
	uint64_t count = ky_frame_number(frame, KY_F_CONN_UNSEEN_unseen_count, 0);
	uint64_t *sum = &load->trace->requests_unseen;

	*sum = count > UINT64_MAX - *sum ? UINT64_MAX : *sum + count;
	return true;
}

/* ---- waits ---- */

static bool is_wait_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_request_wait *one = a, *other = b;

	(void)ctx;
	if (one->span_id != other->span_id)
		return one->span_id < other->span_id;
	return one->to_ns != other->to_ns ? one->to_ns < other->to_ns : one->serial < other->serial;
}

/* The first wait of a span with this id, or a later one. */
static uint32_t first_wait(const struct ky_trace *trace, uint64_t id)
{
	uint32_t low = 0, high = trace->request_wait_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (trace->request_waits[middle].span_id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* A file may give one id to many spans at once: in all they have at most twice the waits there are.
 */
static void link_waits(struct ky_trace *trace)
{
	uint64_t left = 2 * (uint64_t)trace->request_wait_count;

	ky_sort(trace->request_waits, trace->request_wait_count, sizeof(*trace->request_waits),
		is_wait_before, NULL);
	/* One begins where the one before ended, or later, whatever a file says. */
	for (uint32_t i = 1; i < trace->request_wait_count; i++) {
		struct ky_request_wait *wait = &trace->request_waits[i];

		if (wait->span_id == wait[-1].span_id && wait->from_ns < wait[-1].to_ns)
			wait->from_ns = wait[-1].to_ns;
	}
	for (uint32_t i = 0; i < trace->span_count; i++) {
		struct ky_trace_span *span = &trace->spans[i];
		uint32_t end;

		if (span->request != KY_REQUEST_IN)
			continue;
		span->wait_at = first_wait(trace, span->id);
		end = span->id == UINT64_MAX ? trace->request_wait_count :
					       first_wait(trace, span->id + 1);
		if (end - span->wait_at > left)
			continue;
		span->wait_count = end - span->wait_at;
		left -= span->wait_count;
	}
}

/* ---- the wake before the read ---- */

static bool is_lead_before(const void *a, const void *b, const void *ctx)
{
	const struct lead *one = a, *other = b;

	(void)ctx;
	if (one->ready_ns != other->ready_ns)
		return one->ready_ns < other->ready_ns;
	return one->task != other->task ? one->task < other->task : one->span < other->span;
}

/* False: the poll that read its first bytes is not known, or was not for them. */
static bool find_lead(const struct ky_trace *trace, uint32_t index, struct lead *out)
{
	const struct ky_trace_span *span = &trace->spans[index];
	uint32_t worker = span->worker_id == UINT64_MAX ? KY_NONE :
							  ky_trace_worker(trace, span->worker_id);
	const struct ky_column *polls;
	struct ky_poll poll;
	uint64_t row;

	if (span->request != KY_REQUEST_IN || worker == KY_NONE || span->task == KY_NONE ||
	    !span->idle_since_ns)
		return false;
	polls = &trace->workers[worker].polls;
	row = ky_column_find(polls, span->start_ns + 1);
	if (!row)
		return false;
	ky_trace_poll(trace, worker, row - 1, &poll);
	if (poll.task != span->task || poll.delay_state || poll.delay_ns > poll.start_ns ||
	    poll.start_ns + poll.duration_ns < span->start_ns)
		return false;
	*out = (struct lead){poll.start_ns - poll.delay_ns, span->task, index, false};
	/* What came before the answer went out was for the request before. */
	return out->ready_ns >= span->idle_since_ns;
}

/* The first that is not before (ns, task), from `at` on: near, as wakes come in order. */
static uint32_t seek(const struct lead *leads, uint32_t count, uint32_t at, uint64_t ns,
		     uint32_t task)
{
	struct lead wanted = {ns, task, 0, false};
	uint32_t step = 1, low = at;

	while (at < count && is_lead_before(&leads[at], &wanted, NULL)) {
		low = at + 1;
		at = count - at > step ? at + step : count;
		step = step < count ? step * 2 : step;
	}
	while (low < at) {
		uint32_t middle = low + (at - low) / 2;

		if (is_lead_before(&leads[middle], &wanted, NULL))
			low = middle + 1;
		else
			at = middle;
	}
	return low;
}

static void mark_wakes(const struct ky_trace *trace, uint32_t worker, struct lead *leads,
		       uint32_t count)
{
	struct ky_cursor cursor;
	uint32_t at = 0;
	uint64_t last_ns = 0;

	if (!ky_cursor_begin(&cursor, &trace->workers[worker].wakes, 0))
		return;
	do {
		const struct ky_wake_row *row = (const void *)cursor.at;

		if (((row->word >> 8) & ORIGIN_MASK) != ORIGIN_DRIVER)
			continue;
		/* Those of one moment come in any order of tasks. */
		at = seek(leads, count, cursor.time_ns == last_ns ? 0 : at, cursor.time_ns,
			  row->woken);
		last_ns = cursor.time_ns;
		if (at < count && leads[at].ready_ns == cursor.time_ns &&
		    leads[at].task == row->woken)
			leads[at].is_by_driver = true;
	} while (ky_cursor_next(&cursor));
}

/* Of several requests in one poll the first alone was woken for. */
static void apply(struct ky_trace *trace, const struct lead *leads, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct lead *lead = &leads[i];
		struct ky_trace_span *span = &trace->spans[lead->span];

		if (!lead->is_by_driver || lead->ready_ns >= span->start_ns)
			continue;
		span->lead_ns = span->start_ns - lead->ready_ns;
		span->start_ns = lead->ready_ns;
		span->duration_ns += span->is_open ? 0 : span->lead_ns;
	}
}

int ky_requests_finish(struct ky_trace *trace)
{
	size_t bytes = (size_t)trace->span_count * sizeof(struct lead);
	struct lead *leads;
	uint32_t count = 0;

	link_waits(trace);
	leads = ky_pages_alloc(&trace->pages, bytes + 1);
	if (!leads)
		return trace->pages.failed;
	for (uint32_t i = 0; i < trace->span_count; i++)
		count += find_lead(trace, i, &leads[count]);
	ky_sort(leads, count, sizeof(*leads), is_lead_before, NULL);
	for (uint32_t i = 0; count && i < trace->worker_count; i++)
		mark_wakes(trace, i, leads, count);
	apply(trace, leads, count);
	ky_pages_free(&trace->pages, leads, bytes + 1);
	return 0;
}
