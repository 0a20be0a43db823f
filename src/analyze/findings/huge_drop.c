/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/findings/poll_rule.h>

#include <base/text.h>

static bool is_drop(const struct ky_code_line *line)
{
	return ky_text_contains(line->name, "drop_in_place") ||
	       ky_text_contains(line->name, "::Drop>::drop") ||
	       ky_text_contains(line->name, "as core::ops::drop::Drop");
}

/* The functions of glibc, jemalloc and mimalloc that give memory back. */
static bool is_free(const struct ky_code_line *line)
{
	static const char *const parts[] = {
		"_int_free",          "cfree",        "__libc_free", "__GI___libc_free",
		"malloc_consolidate", "unlink_chunk", "mi_free",     "__rust_dealloc",
		"__rdl_dealloc"};

	return KY_LINE_HAS(line, parts) || ky_text_contains(line->name, "je_free") ||
	       (ky_text_begins(line->name, "free") && line->name[4] == '\0');
}

/* Without debug information destructors are inlined and have no name: what frees for most of the
 * time drops. */
static bool fits(const struct ky_poll_case *one, enum ky_confidence *confidence)
{
	*confidence = KY_CONFIDENCE_LIKELY;
	return one->row_count >= KY_FIND_SAMPLES_MIN &&
	       (ky_poll_case_share_ppm(one, is_drop) >= KY_FIND_HALF_PPM ||
		ky_poll_case_share_ppm(one, is_free) >= KY_FIND_CODE_PPM);
}

static void say(struct ky_buf *out, const struct ky_poll_case *one,
		const struct ky_findings_options *options)
{
	(void)one;
	(void)options;
	ky_text(out, "dropped values");
}

const struct ky_poll_rule ky_rule_huge_drop = {
	.id = KY_FINDING_HUGE_DROP,
	.is_blocked = false,
	.fits = fits,
	.say = say,
	.action = "Drop large values outside of polls: give them to "
		  "spawn_blocking(drop) or to a thread that frees them."};
