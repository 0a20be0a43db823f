/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/chain_groups.h>

#include <base/alloc.h>
#include <read/sort.h>

static bool is_same(const struct ky_chain_group *a, const struct ky_chain_group *b)
{
	return a->kind == b->kind && a->part == b->part && a->name == b->name &&
	       a->culprit == b->culprit && a->tid == b->tid && a->cause.kind == b->cause.kind &&
	       a->cause.line == b->cause.line;
}

/* Groups are few: kinds of tasks and of causes. NULL: no memory. */
static struct ky_chain_group *add(struct ky_task_chain *chain, const struct ky_chain_group *like,
				  uint64_t ns)
{
	struct ky_chain_group *group;
	uint32_t i;

	for (i = 0; i < chain->group_count && !is_same(&chain->groups[i], like); i++)
		continue;
	if (i == chain->group_count) {
		if (ky_grow(&chain->groups, &chain->group_capacity, i + 1, sizeof(*chain->groups)))
			return NULL;
		chain->groups[chain->group_count++] = *like;
	}
	group = &chain->groups[i];
	group->ns += ns;
	group->count++;
	if (ns > group->longest_ns)
		group->longest_ns = ns;
	return group;
}

bool ky_chain_groups_poll(struct ky_task_chain *chain, const struct ky_link *link,
			  const struct ky_poll *poll)
{
	const struct ky_chain_group like = {.kind = KY_LINK_POLL,
					    .name = chain->trace->tasks[link->task].name,
					    .culprit = KY_NONE};
	struct ky_chain_group *group = add(chain, &like, link->to_ns - link->from_ns);
	struct ky_own_poll own;

	if (!group)
		return true;
	/* What a part of a poll was is not known. */
	if (link->to_ns - link->from_ns != poll->duration_ns) {
		group->own[KY_OWN_UNSPLIT] += link->to_ns - link->from_ns;
		return false;
	}
	ky_own_split(&own, chain->trace, poll);
	for (uint32_t i = 0; i < KY_OWN_PARTS; i++)
		group->own[i] += own.sums[i];
	return false;
}

static uint8_t part_of(uint8_t part)
{
	return part == KY_PART_BEHIND_CPU || part == KY_PART_BEHIND_BLOCKED ||
			       part == KY_PART_BEHIND_RUNNABLE || part == KY_PART_LIFO ?
		       (uint8_t)KY_PART_BEHIND_UNSPLIT :
		       part;
}

bool ky_chain_groups_ready(struct ky_task_chain *chain, uint32_t task, const struct ky_delay *delay)
{
	for (uint32_t i = 0; i < delay->part_count; i++) {
		const struct ky_delay_part *part = &delay->parts[i];
		struct ky_chain_group like = {.kind = KY_LINK_READY,
					      .part = part_of(part->part),
					      .name = chain->trace->tasks[task].name,
					      .culprit = KY_NONE};
		struct ky_poll poll;

		if (part->poll_row != KY_NO_ROW && like.part == KY_PART_BEHIND_UNSPLIT) {
			ky_trace_poll(chain->trace, part->worker, part->poll_row, &poll);
			like.culprit = chain->trace->tasks[poll.task].name;
		}
		if (!add(chain, &like, part->ns))
			return true;
	}
	return false;
}

static bool is_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_chain_group *one = a, *other = b;

	(void)ctx;
	if (one->ns != other->ns)
		return one->ns > other->ns;
	if (one->kind != other->kind)
		return one->kind < other->kind;
	if (one->part != other->part)
		return one->part < other->part;
	return one->name != other->name ? one->name < other->name : one->culprit < other->culprit;
}

bool ky_chain_groups_finish(struct ky_task_chain *chain)
{
	uint64_t ready_ns = 0, counted_ns = 0;

	for (uint32_t i = 0; i < chain->link_count; i++) {
		const struct ky_link *link = &chain->links[i];
		struct ky_chain_group like = {.kind = link->kind,
					      .name = chain->trace->tasks[link->task].name,
					      .culprit = KY_NONE};

		if (link->kind == KY_LINK_POLL)
			continue;
		if (link->kind == KY_LINK_READY) {
			ready_ns += link->to_ns - link->from_ns;
			continue;
		}
		if (link->kind == KY_LINK_WAIT) {
			like.cause = link->cause;
			like.tid = link->cause.kind == KY_WAKE_CODE ? link->tid : 0;
			if (link->waker != KY_NONE)
				like.culprit = chain->trace->tasks[link->waker].name;
		}
		if (!add(chain, &like, link->to_ns - link->from_ns))
			return true;
	}
	/* Of those that are no whole delay the parts are not known. */
	for (uint32_t i = 0; i < chain->group_count; i++)
		if (chain->groups[i].kind == KY_LINK_READY)
			counted_ns += chain->groups[i].ns;
	if (ready_ns > counted_ns && !add(chain,
					  &(const struct ky_chain_group){.kind = KY_LINK_READY,
									 .part = KY_PARTS,
									 .name = KY_NONE,
									 .culprit = KY_NONE},
					  ready_ns - counted_ns))
		return true;
	ky_sort(chain->groups, chain->group_count, sizeof(*chain->groups), is_before, NULL);
	return false;
}
