/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Who owns which stamps, and which no source holds. */
#include <read/copies_scan.h>

#include <base/alloc.h>
#include <errno.h>
#include <read/sort.h>
#include <string.h>

static bool insert_owned(struct ky_copies_process *process, uint32_t at, struct ky_owned owned)
{
	struct ky_owned *list = ky_realloc(process->owned,
					   (process->owned_count + 1) * sizeof(*list));

	if (!list)
		return false;
	process->owned = list;
	memmove(list + at + 1, list + at, (process->owned_count - at) * sizeof(*list));
	list[at] = owned;
	process->owned_count++;
	return true;
}

/* What no part has yet of the stamps after lo, up to hi. Next to another's part times keep to
 * that one's clock. */
static bool give(struct ky_copies_process *process, struct ky_owned claim)
{
	struct ky_owned part = claim;
	uint32_t at = 0;

	while (part.lo < claim.hi) {
		const struct ky_owned *next;

		while (at < process->owned_count && process->owned[at].hi <= part.lo)
			at++;
		next = at < process->owned_count ? &process->owned[at] : NULL;
		part.hi = claim.hi;
		part.hi_ns = claim.hi_ns;
		if (next && next->lo < claim.hi) {
			part.hi = next->lo;
			part.hi_ns = next->lo_ns ? next->lo_ns : UINT64_MAX;
		}
		if (part.lo < part.hi) {
			if (!insert_owned(process, at, part))
				return false;
			at++;
			next = at < process->owned_count ? &process->owned[at] : NULL;
		}
		if (!next || next->lo >= claim.hi)
			return true;
		part.lo = next->hi;
		part.lo_ns = next->hi_ns + 1;
	}
	return true;
}

static bool is_claim_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_copies_claim *x = a, *y = b;

	(void)ctx;
	return x->to < y->to;
}

enum turn {
	TURN_STREAMS, /* what they hold as a whole */
	TURN_DUMPS,
	TURN_REMAINS, /* what streams hold in part: after a time of flight */
	TURNS
};

static bool give_claim(struct ky_copies_scan *scan, const struct ky_copies_claim *claim,
		       enum turn turn)
{
	const struct ky_copies_survey *survey = &scan->surveys[claim->source];
	struct ky_owned wish = {claim->from, claim->to, claim->from_ns, claim->to_ns,
				survey->group};

	if (survey->is_mixed || (turn == TURN_DUMPS) != (claim->part == KY_COPIES_DUMP))
		return true;
	if (turn == TURN_STREAMS) {
		wish.lo = claim->whole_from;
		wish.lo_ns = claim->border_ns;
	}
	return wish.lo >= wish.hi || give(&scan->copies->processes[survey->process], wish);
}

/* Between two segments of one part times are left as they are. */
static void join_own(struct ky_copies_process *process)
{
	uint32_t kept = 0;

	for (uint32_t i = 1; i < process->owned_count; i++) {
		const struct ky_owned *owned = &process->owned[i];
		struct ky_owned *last = &process->owned[kept];

		if (owned->group == last->group && owned->lo == last->hi) {
			last->hi = owned->hi;
			last->hi_ns = owned->hi_ns;
		} else {
			process->owned[++kept] = *owned;
		}
	}
	if (process->owned_count)
		process->owned_count = kept + 1;
}

int ky_copies_divide(struct ky_copies_scan *scan)
{
	ky_sort(scan->claims, scan->claim_count, sizeof(*scan->claims), is_claim_before, NULL);
	for (int turn = 0; turn < TURNS; turn++)
		for (uint32_t i = 0; i < scan->claim_count; i++)
			if (!give_claim(scan, &scan->claims[i], (enum turn)turn))
				return -ENOMEM;
	for (uint32_t i = 0; i < scan->copies->process_count; i++)
		join_own(&scan->copies->processes[i]);
	return 0;
}

static bool is_begun_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_copies_claim *x = a, *y = b;

	(void)ctx;
	return x->whole_from < y->whole_from;
}

static int add_unrecorded(struct ky_copies *copies, uint64_t from_ns, uint64_t to_ns)
{
	struct ky_unrecorded *list = ky_realloc(copies->unrecorded,
						(copies->unrecorded_count + 1) * sizeof(*list));

	if (!list)
		return -ENOMEM;
	copies->unrecorded = list;
	list[copies->unrecorded_count++] = (struct ky_unrecorded){from_ns, to_ns};
	return 0;
}

/* The stamps that another holds as a whole, one after the other: between them nothing was
 * recorded, or nothing kept it. Claims are in the order of where they begin. */
static int find_unrecorded(struct ky_copies_scan *scan, uint32_t process)
{
	uint64_t reached = 0, reached_ns = 0;
	int result = 0;

	for (uint32_t i = 0; i < scan->claim_count && !result; i++) {
		const struct ky_copies_claim *claim = &scan->claims[i];
		const struct ky_copies_survey *survey = &scan->surveys[claim->source];

		if (survey->is_mixed || survey->process != process || claim->to <= reached)
			continue;
		if (reached && claim->whole_from > reached && claim->whole_from_ns > reached_ns)
			result = add_unrecorded(scan->copies, reached_ns, claim->whole_from_ns);
		reached = claim->to;
		reached_ns = claim->to_ns;
	}
	return result;
}

int ky_copies_find_unrecorded(struct ky_copies_scan *scan)
{
	int result = 0;

	ky_sort(scan->claims, scan->claim_count, sizeof(*scan->claims), is_begun_before, NULL);
	for (uint32_t i = 0; i < scan->copies->process_count && !result; i++)
		result = find_unrecorded(scan, i);
	return result;
}
