/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/failed_groups.h>

#include <base/json_write.h>
#include <base/text.h>
#include <string.h>

/* Events name a task by its number, not by its kind. */
static uint32_t name_of(const struct ky_trace *trace, const struct ky_trace_failed_calls *failed)
{
	return failed->task == KY_NONE ? KY_NONE : trace->tasks[failed->task].name;
}

static struct ky_failed_group *group_of(struct ky_failed_group *groups, uint32_t *count,
					const struct ky_trace_failed_calls *failed, uint32_t name)
{
	for (uint32_t i = 0; i < *count; i++)
		if (groups[i].error == failed->error && groups[i].syscall == failed->syscall &&
		    groups[i].name == name)
			return &groups[i];
	if (*count == KY_FAILED_GROUPS_MAX)
		return NULL;
	groups[*count] = (struct ky_failed_group){.from_ns = failed->time_ns,
						  .syscall = failed->syscall,
						  .fd = failed->fd,
						  .error = failed->error,
						  .name = name};
	return &groups[(*count)++];
}

/* What this report says that the one before it, of the same count, did not. */
static uint64_t news(const struct ky_trace *trace, uint32_t at)
{
	const struct ky_trace_failed_calls *failed = &trace->failed_calls[at];

	while (at-- > 0) {
		const struct ky_trace_failed_calls *before = &trace->failed_calls[at];

		if (before->tid != failed->tid || before->error != failed->error)
			continue;
		/* Fewer than before: it was counted anew. */
		return before->count < failed->count ? failed->count - before->count :
						       failed->count;
	}
	return failed->count;
}

uint32_t ky_failed_groups(struct ky_failed_group out[KY_FAILED_GROUPS_MAX],
			  const struct ky_trace *trace, uint64_t from_ns, uint64_t to_ns)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < trace->failed_count; i++) {
		const struct ky_trace_failed_calls *failed = &trace->failed_calls[i];
		struct ky_failed_group *group;

		if (failed->time_ns < from_ns || (to_ns && failed->time_ns >= to_ns))
			continue;
		group = group_of(out, &count, failed, name_of(trace, failed));
		if (!group)
			continue;
		group->to_ns = failed->time_ns;
		group->count += news(trace, i);
		if (group->fd != failed->fd)
			group->fd = UINT64_MAX;
	}
	for (uint32_t i = 1; i < count; i++) {
		struct ky_failed_group moved = out[i];
		uint32_t at = i;

		for (; at && out[at - 1].count < moved.count; at--)
			out[at] = out[at - 1];
		out[at] = moved;
	}
	return count;
}

void ky_failed_groups_json(struct ky_buf *out, const struct ky_trace *trace, uint64_t from_ns,
			   uint64_t to_ns)
{
	struct ky_failed_group groups[KY_FAILED_GROUPS_MAX];
	uint32_t count = ky_failed_groups(groups, trace, from_ns, to_ns);

	if (!count)
		return;
	ky_json_open(out, "failing_calls", "[");
	for (uint32_t i = 0; i < count; i++) {
		const char *name = ky_trace_name(trace, groups[i].name);

		ky_json_open(out, NULL, "{");
		ky_json_number(out, "count_min", groups[i].count);
		ky_json_number(out, "syscall", groups[i].syscall);
		ky_json_number(out, "errno", groups[i].error);
		ky_json_number_or_null(out, "fd", groups[i].fd != UINT64_MAX, groups[i].fd);
		ky_json_number(out, "from_ns", groups[i].from_ns);
		ky_json_number(out, "to_ns", groups[i].to_ns);
		ky_json_key(out, "task");
		ky_json_string(out, name, strlen(name));
		ky_text(out, "}");
	}
	ky_text(out, "]");
}
