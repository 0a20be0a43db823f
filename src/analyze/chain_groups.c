/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/chain_groups.h>

#include <base/alloc.h>
#include <base/hash.h>
#include <read/sort.h>

#define SLOTS_MIN 64u

static bool is_same(const struct ky_chain_group *a, const struct ky_chain_group *b)
{
	return a->kind == b->kind && a->part == b->part && a->name == b->name &&
	       a->culprit == b->culprit && a->tid == b->tid && a->cause.kind == b->cause.kind &&
	       a->cause.line == b->cause.line;
}

static uint64_t hash_of(const struct ky_chain_group *group)
{
	uint64_t hash = ky_hash_number((uint64_t)group->name << 32 | group->culprit);

	hash = ky_hash_number(hash ^ ((uint64_t)group->kind << 48 | (uint64_t)group->part << 40 |
				      (uint64_t)group->cause.kind << 32 | group->tid));
	return ky_hash_number(hash ^ (uintptr_t)group->cause.line);
}

/* Where a group like it is, or goes: number + 1. */
static uint32_t *slot_of(const struct ky_task_chain *chain, const struct ky_chain_group *like)
{
	uint32_t at = (uint32_t)hash_of(like) & (chain->group_slot_count - 1);

	while (chain->group_slots[at] && !is_same(&chain->groups[chain->group_slots[at] - 1], like))
		at = (at + 1) & (chain->group_slot_count - 1);
	return &chain->group_slots[at];
}

/* At least half of the slots are free. Returns whether memory was enough. */
static bool grow_slots(struct ky_task_chain *chain)
{
	uint32_t count = chain->group_slot_count ? chain->group_slot_count * 2 : SLOTS_MIN;
	uint32_t *slots;

	if (chain->group_count < chain->group_slot_count / 2)
		return true;
	slots = ky_alloc(count * sizeof(*slots));
	if (!slots)
		return false;
	ky_free(chain->group_slots);
	chain->group_slots = slots;
	chain->group_slot_count = count;
	for (uint32_t i = 0; i < chain->group_count; i++)
		*slot_of(chain, &chain->groups[i]) = i + 1;
	return true;
}

/* NULL: no memory. */
static struct ky_chain_group *add(struct ky_task_chain *chain, const struct ky_chain_group *like,
				  uint64_t ns)
{
	struct ky_chain_group *group;
	uint32_t *slot;

	if (!grow_slots(chain))
		return NULL;
	slot = slot_of(chain, like);
	if (!*slot) {
		if (ky_grow(&chain->groups, &chain->group_capacity, chain->group_count + 1,
			    sizeof(*chain->groups)))
			return NULL;
		chain->groups[chain->group_count++] = *like;
		*slot = chain->group_count;
	}
	group = &chain->groups[*slot - 1];
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
