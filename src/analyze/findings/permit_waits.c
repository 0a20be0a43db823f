/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/findings/permit_waits.h>

#include <base/alloc.h>
#include <base/text.h>

#define ASKED 128u

bool ky_permit_is_unnamed(const struct ky_code_stacks *code, uint32_t stack)
{
	const struct ky_code_line *line;
	struct ky_code_walk walk;
	bool is_permit = false;

	ky_code_walk_begin(&walk, code, stack);
	while ((line = ky_code_walk_next(&walk)) && !ky_code_is_own(line)) {
		bool is_inside = ky_text_contains(line->name, "sync::batch_semaphore::");

		if (is_permit && !is_inside && ky_text_contains(line->name, "tokio::sync::"))
			return false;
		is_permit |= is_inside;
	}
	return is_permit;
}

static uint8_t sort_of(uint8_t what)
{
	return ky_sync_is_tokios_lock(what)                         ? KY_SYNC_LOCK :
	       what == KY_SYNC_CHANNEL || what == KY_SYNC_SEMAPHORE ? what :
								      (uint8_t)KY_SYNC_NONE;
}

static void collect(struct ky_permit_waits *waits, const struct ky_facts *facts, uint8_t *whats)
{
	const struct ky_trace *trace = facts->trace;
	struct ky_wake wake;

	for (uint32_t worker = 0; worker < trace->worker_count; worker++)
		for (uint64_t row = 0; row < trace->workers[worker].wakes.row_count; row++) {
			const struct ky_kind_facts *kind;

			ky_trace_wake(trace, worker, row, &wake);
			if (wake.stack == KY_NONE)
				continue;
			if (!whats[wake.stack])
				whats[wake.stack] = ASKED |
						    sort_of(ky_sync_what_of(&facts->profile->code,
									    wake.stack));
			kind = whats[wake.stack] != ASKED ?
				       ky_facts_kind(facts, trace->tasks[wake.woken].name) :
				       NULL;
			if (kind)
				waits->kinds[kind - facts->kinds] |=
					(uint8_t)(1u << (whats[wake.stack] & (ASKED - 1)));
		}
}

static bool make(struct ky_permit_waits *waits, const struct ky_facts *facts)
{
	uint8_t *whats = ky_alloc(facts->trace->samples.stack_count + (size_t)1);

	waits->kinds = ky_alloc(facts->kind_count + (size_t)1);
	if (whats && waits->kinds)
		collect(waits, facts, whats);
	ky_free(whats);
	return waits->kinds != NULL;
}

uint8_t ky_permit_waits_of(struct ky_permit_waits *waits, const struct ky_facts *facts,
			   uint32_t task)
{
	const struct ky_kind_facts *kind = ky_facts_kind(facts, facts->trace->tasks[task].name);
	uint8_t ended_by;

	if (!kind || (!waits->kinds && !make(waits, facts)))
		return KY_SYNC_NONE;
	ended_by = waits->kinds[kind - facts->kinds];
	for (uint8_t what = KY_SYNC_NONE + 1; what < 8; what++)
		if (ended_by == 1u << what)
			return what;
	return KY_SYNC_NONE;
}

void ky_permit_waits_release(struct ky_permit_waits *waits)
{
	ky_free(waits->kinds);
	*waits = (struct ky_permit_waits){0};
}
