/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/findings/poll_rule.h>

#include <base/text.h>

/* Allocators by the names of their functions: glibc, jemalloc, mimalloc, Rust's own entry. */
static bool is_allocator(const struct ky_code_line *line)
{
	static const char *const parts[] = {"malloc", "realloc",      "calloc", "cfree",
					    "_int_",  "__rust_alloc", "__rdl_", "mi_free",
					    "je_",    "tcache"};

	return KY_LINE_HAS(line, parts) || ky_text_begins(line->name, "alloc::alloc::") ||
	       (ky_text_begins(line->name, "free") && line->name[4] == '\0');
}

/* Estimated, in its long polls: each sample says how many it stands for. */
static uint64_t allocations(const struct ky_poll_case *one)
{
	const struct ky_trace *trace = one->facts->trace;
	double count = 0;

	for (uint32_t i = 0; i < trace->samples.row_count; i++) {
		const struct ky_stack_row *row = &trace->samples.rows[i];

		if (row->kind == KY_STACK_ALLOC && row->task != KY_NONE &&
		    !(row->flags & (KY_ROW_BLOCKING | KY_ROW_UNWEIGHTED)) &&
		    row->poll_ns > KY_FIND_LONG_NS &&
		    trace->tasks[row->task].name == one->kind->name)
			count += row->weight;
	}
	return (uint64_t)count;
}

static bool fits(const struct ky_poll_case *one, enum ky_confidence *confidence)
{
	*confidence = KY_CONFIDENCE_LIKELY;
	if (ky_share_ppm(allocations(one) * KY_FIND_ALLOCATION_NS, one->ns) >=
	    KY_FIND_ALLOCATIONS_PPM)
		return true;
	return one->row_count >= KY_FIND_SAMPLES_MIN &&
	       ky_poll_case_share_ppm(one, is_allocator) >= KY_FIND_HALF_PPM;
}

static void say(struct ky_buf *out, const struct ky_poll_case *one,
		const struct ky_findings_options *options)
{
	(void)one;
	(void)options;
	ky_text(out, "were in the allocator");
}

const struct ky_poll_rule ky_rule_allocation_burst = {
	.id = KY_FINDING_ALLOCATION_BURST,
	.is_blocked = false,
	.fits = fits,
	.say = say,
	.action = "Allocate once for many (with_capacity(), an arena, buffers that are "
		  "used again), or yield between batches."};
