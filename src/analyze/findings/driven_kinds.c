/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/findings/driven_kinds.h>

#include <analyze/findings/finding.h>
#include <analyze/findings/sync_waits.h>
#include <analyze/wake_cause.h>
#include <analyze/wake_walk.h>
#include <base/alloc.h>
#include <errno.h>
#include <string.h>

#define KINDS_MAX 4096u /* with more of them each counts as driven */
#define NOT_ASKED 255u

struct driving {
	const struct ky_facts *facts;
	bool *driven;
	uint8_t *edges; /* bit to + from * kinds: `from` sends `to` something */
	uint8_t *whats; /* by stack: enum ky_sync_what; NOT_ASKED */
	/* By kind: wakes that are the driver's or a yield's, which no name says. */
	uint64_t *doubtful;
};

bool ky_wake_is_from_outside(const struct ky_wake *wake, uint32_t kind)
{
	if (kind == KY_WAKE_IO || kind == KY_WAKE_TIMER || kind == KY_WAKE_DRIVER ||
	    kind == KY_WAKE_SIGNAL)
		return true;
	return wake->waker == KY_NONE && kind != KY_WAKE_DEFERRED && kind != KY_WAKE_JOIN;
}

static bool is_release(struct driving *driving, const struct ky_wake *wake)
{
	uint8_t *what = wake->stack != KY_NONE && driving->whats ? &driving->whats[wake->stack] :
								   NULL;

	if (!what)
		return false;
	if (*what == NOT_ASKED)
		*what = ky_sync_what_of(&driving->facts->profile->code, wake->stack);
	return *what != KY_SYNC_NONE;
}

static void add_wake(struct driving *driving, const struct ky_wake *wake, uint32_t cause)
{
	const struct ky_facts *facts = driving->facts;
	const struct ky_kind_facts *to = ky_facts_kind(facts,
						       facts->trace->tasks[wake->woken].name);
	const struct ky_kind_facts *from;
	size_t bit;

	if (!to || is_release(driving, wake))
		return;
	if (cause == KY_WAKE_DRIVER) {
		driving->doubtful[to - facts->kinds]++;
		return;
	}
	if (ky_wake_is_from_outside(wake, cause)) {
		driving->driven[to - facts->kinds] = true;
		return;
	}
	from = wake->waker != KY_NONE && wake->waker != wake->woken ?
		       ky_facts_kind(facts, facts->trace->tasks[wake->waker].name) :
		       NULL;
	if (!from || from == to)
		return;
	bit = (size_t)(from - facts->kinds) * facts->kind_count + (size_t)(to - facts->kinds);
	driving->edges[bit / 8] = (uint8_t)(driving->edges[bit / 8] | 1u << bit % 8);
}

static bool read_wakes(struct driving *driving)
{
	const struct ky_facts *facts = driving->facts;
	struct ky_wake_walk walk = {.trace = facts->trace,
				    .from_ns = facts->report->from_ns,
				    .to_ns = facts->report->to_ns};
	struct ky_wake_namer namer = {0};
	struct ky_wake wake;

	if (ky_wake_namer_make(&namer, facts->trace, facts->profile ? &facts->profile->code : NULL))
		return false;
	while (ky_wake_walk_next(&walk, &wake))
		add_wake(driving, &wake, ky_wake_namer_cause(&namer, &wake).kind);
	ky_wake_namer_release(&namer);
	return true;
}

static void spread(struct driving *driving)
{
	size_t count = driving->facts->kind_count;
	bool has_new = true;

	while (has_new) {
		has_new = false;
		for (size_t bit = 0; bit < count * count; bit++)
			if (driving->edges[bit / 8] & 1u << bit % 8 &&
			    driving->driven[bit / count] && !driving->driven[bit % count])
				has_new = driving->driven[bit % count] = true;
	}
}

static bool make(struct driving *driving)
{
	const struct ky_facts *facts = driving->facts;
	size_t count = facts->kind_count, stacks = facts->trace->samples.stack_count;

	/* Who is spawned again and again is somebody's request, whatever wakes it. */
	for (size_t i = 0; i < count; i++)
		driving->driven[i] = count > KINDS_MAX ||
				     facts->report->groups[i].task_count > KY_FIND_STUCK_WAITS;
	if (count > KINDS_MAX)
		return true;
	driving->edges = ky_alloc(count * count / 8 + 1);
	driving->whats = facts->profile ? ky_alloc(stacks + 1) : NULL;
	if (!driving->edges || (facts->profile && !driving->whats))
		return false;
	if (driving->whats)
		memset(driving->whats, NOT_ASKED, stacks);
	driving->doubtful = ky_alloc((count + 1) * sizeof(*driving->doubtful));
	if (!driving->doubtful || !read_wakes(driving))
		return false;
	/* I/O wakes a task for each request; an exhausted budget is rare beside its wakes. */
	for (size_t i = 0; i < count; i++)
		driving->driven[i] |= driving->doubtful[i] &&
				      driving->doubtful[i] * KY_FIND_STUCK_TIMES >=
					      facts->kinds[i].wake_count;
	spread(driving);
	return true;
}

int ky_driven_kinds_make(bool **out, const struct ky_facts *facts)
{
	struct driving driving = {.facts = facts};
	bool is_made;

	driving.driven = ky_alloc((facts->kind_count + (size_t)1) * sizeof(*driving.driven));
	is_made = driving.driven && make(&driving);
	ky_free(driving.edges);
	ky_free(driving.whats);
	ky_free(driving.doubtful);
	*out = is_made ? driving.driven : NULL;
	if (!is_made)
		ky_free(driving.driven);
	return is_made ? 0 : -ENOMEM;
}
