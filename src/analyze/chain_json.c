/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/chain.h>

#include <base/json_write.h>
#include <base/text.h>

static void put_name(struct ky_buf *out, const char *key, const struct ky_trace *trace,
		     uint32_t name)
{
	if (name == KY_NONE)
		ky_json_null(out, key);
	else
		ky_json_text(out, key, ky_trace_name(trace, name));
}

static void put_cause(struct ky_buf *out, const struct ky_wake_cause *cause, uint32_t tid)
{
	ky_wake_cause_json(out, cause, KY_NONE);
	if (tid)
		ky_json_number(out, "thread", tid);
}

static void put_group(struct ky_buf *out, const struct ky_trace *trace,
		      const struct ky_chain_group *group)
{
	ky_json_open(out, NULL, "{");
	ky_json_text(out, "kind", ky_link_kind_key(group->kind));
	put_name(out, "site", trace, group->name);
	ky_json_number(out, "ns", group->ns);
	ky_json_number(out, "count", group->count);
	ky_json_number(out, "longest_ns", group->longest_ns);
	if (group->kind == KY_LINK_READY && group->part < KY_PARTS) {
		ky_json_text(out, "part",
			     group->part == KY_PART_BEHIND_UNSPLIT ? "behind_poll" :
								     ky_part_key(group->part));
		put_name(out, "culprit", trace, group->culprit);
	}
	if (group->kind == KY_LINK_POLL)
		for (uint32_t i = 0; i < KY_OWN_PARTS; i++)
			if (group->own[i])
				ky_json_number(out, ky_own_part_key(i), group->own[i]);
	if (group->kind == KY_LINK_WAIT) {
		put_cause(out, &group->cause, group->tid);
		if (group->culprit != KY_NONE)
			put_name(out, "culprit", trace, group->culprit);
	}
	ky_json_close(out, "}");
}

static void put_link(struct ky_buf *out, const struct ky_trace *trace, const struct ky_link *link)
{
	ky_json_open(out, NULL, "{");
	ky_json_number(out, "from_ns", link->from_ns);
	ky_json_number(out, "to_ns", link->to_ns);
	ky_json_text(out, "kind", ky_link_kind_key(link->kind));
	ky_json_number(out, "depth", link->depth);
	ky_json_number(out, "task", trace->tasks[link->task].id);
	put_name(out, "site", trace, trace->tasks[link->task].name);
	if (link->worker != KY_NONE && !trace->workers[link->worker].is_thread_lane)
		ky_json_number(out, "worker", trace->workers[link->worker].id);
	if (link->kind == KY_LINK_WAIT)
		put_cause(out, &link->cause, link->tid);
	else if (link->tid)
		ky_json_number(out, "thread", link->tid);
	if (link->waker != KY_NONE)
		ky_json_number(out, "waker", trace->tasks[link->waker].id);
	ky_json_close(out, "}");
}

void ky_chain_json(struct ky_buf *out, const char *key, const struct ky_task_chain *chain,
		   uint64_t limit)
{
	const struct ky_trace *trace = chain->trace;

	ky_json_open(out, key, "{");
	ky_json_number(out, "task", trace->tasks[chain->task].id);
	put_name(out, "site", trace, trace->tasks[chain->task].name);
	ky_json_number(out, "from_ns", chain->from_ns);
	ky_json_number(out, "to_ns", chain->to_ns);
	ky_json_flag(out, "is_cut", chain->is_cut);
	ky_json_open(out, "groups", "[");
	for (uint32_t i = 0; i < chain->group_count; i++)
		put_group(out, trace, &chain->groups[i]);
	ky_json_close(out, "]");
	ky_json_number(out, "link_count", chain->link_count);
	ky_json_open(out, "links", "[");
	for (uint32_t i = 0; i < chain->link_count && (!limit || i < limit); i++)
		put_link(out, trace, &chain->links[i]);
	ky_json_close(out, "]");
	ky_json_close(out, "}");
}
