/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/root_uses.h>

#include <base/alloc.h>
#include <base/json_write.h>
#include <errno.h>
#include <read/sort.h>

static void raise(struct ky_root_bounds *bounds, uint64_t least, uint64_t most)
{
	if (least > bounds->least)
		bounds->least = least;
	if (most > bounds->most)
		bounds->most = most;
}

static void add(struct ky_root_use *use, const struct ky_trace_root_poll *poll)
{
	use->tid = poll->tid;
	use->poll_count++;
	use->unbounded_count += poll->begin_min_ns == 0;
	raise(&use->poll_max_ns, poll->end_min_ns - poll->begin_max_ns,
	      poll->begin_min_ns ? poll->end_ns - poll->begin_min_ns : 0);
	if (poll->woken_ns && poll->woken_ns <= poll->begin_max_ns) {
		use->delay_count++;
		raise(&use->delay_max_ns,
		      poll->begin_min_ns > poll->woken_ns ? poll->begin_min_ns - poll->woken_ns : 0,
		      poll->begin_max_ns - poll->woken_ns);
	}
	use->wait_count += poll->wait_ns > 0;
	use->wait_ns += poll->wait_ns;
	if (poll->wait_ns > use->wait_max_ns)
		use->wait_max_ns = poll->wait_ns;
}

static bool is_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_root_use *one = a, *other = b;

	(void)ctx;
	return one->wait_ns != other->wait_ns ? one->wait_ns > other->wait_ns :
						one->task < other->task;
}

int ky_root_uses(const struct ky_trace *trace, uint64_t from_ns, uint64_t to_ns,
		 struct ky_root_use **out, uint32_t *count)
{
	struct ky_root_use *uses;
	uint32_t *place; /* of a task's use, + 1 */

	*out = NULL;
	*count = 0;
	if (!trace->root_poll_count)
		return 0;
	uses = ky_alloc((size_t)trace->task_count * sizeof(*uses));
	place = ky_alloc((size_t)trace->task_count * sizeof(*place));
	if (!uses || !place) {
		ky_free(uses);
		ky_free(place);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < trace->root_poll_count; i++) {
		const struct ky_trace_root_poll *poll = &trace->root_polls[i];

		if (poll->end_ns < from_ns || poll->end_ns > to_ns)
			continue;
		if (!place[poll->task]) {
			uses[*count].task = poll->task;
			place[poll->task] = ++*count;
		}
		add(&uses[place[poll->task] - 1], poll);
	}
	ky_free(place);
	ky_sort(uses, *count, sizeof(*uses), is_before, NULL);
	*out = uses;
	return 0;
}

static void bounds_json(struct ky_buf *out, const char *name, const struct ky_root_bounds *bounds,
			bool is_bounded)
{
	ky_json_open(out, name, "{");
	ky_json_number(out, "at_least", bounds->least);
	ky_json_number_or_null(out, "at_most", is_bounded, bounds->most);
	ky_json_close(out, "}");
}

void ky_root_uses_json(struct ky_buf *out, const struct ky_trace *trace, uint64_t from_ns,
		       uint64_t to_ns)
{
	struct ky_root_use *uses;
	uint32_t count;

	if (ky_root_uses(trace, from_ns, to_ns, &uses, &count)) {
		out->failed = -ENOMEM;
		return;
	}
	if (count)
		ky_json_open(out, "roots", "[");
	for (uint32_t i = 0; i < count; i++) {
		const struct ky_root_use *use = &uses[i];
		const struct ky_task *task = &trace->tasks[use->task];

		ky_json_open(out, NULL, "{");
		ky_json_number(out, "id", task->id);
		ky_json_text(out, "name", ky_trace_name(trace, task->name));
		ky_json_number(out, "tid", use->tid);
		ky_json_text(out, "thread",
			     ky_trace_name(trace, ky_trace_thread_name(trace, use->tid)));
		ky_json_number(out, "polls", use->poll_count);
		ky_json_number(out, "polls_begin_unknown", use->unbounded_count);
		bounds_json(out, "poll_max_ns", &use->poll_max_ns,
			    use->unbounded_count < use->poll_count);
		ky_json_number(out, "delays", use->delay_count);
		bounds_json(out, "delay_max_ns", &use->delay_max_ns, use->delay_count > 0);
		ky_json_number(out, "waits", use->wait_count);
		ky_json_number(out, "wait_ns", use->wait_ns);
		ky_json_number(out, "wait_max_ns", use->wait_max_ns);
		ky_json_close(out, "}");
	}
	if (count)
		ky_json_close(out, "]");
	ky_free(uses);
}
