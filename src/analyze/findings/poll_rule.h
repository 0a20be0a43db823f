/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* poll_rule.h - what makes polls long: each rule is a file, the table in poll_rules.c has their
 * order, and the first one that fits is the cause.
 * Threads: any.
 */
#ifndef KY_ANALYZE_FINDINGS_POLL_RULE_H
#define KY_ANALYZE_FINDINGS_POLL_RULE_H

#include <analyze/findings/findings.h>
#include <analyze/findings/poll_case.h>

struct ky_poll_rule {
	uint8_t id;
	bool is_blocked; /* the half it is about */
	/* Is this the cause? Sets how sure that is. */
	bool (*fits)(const struct ky_poll_case *one, enum ky_confidence *confidence);
	/* What the polls did, as "were blocked in futex". */
	void (*say)(struct ky_buf *out, const struct ky_poll_case *one,
		    const struct ky_findings_options *options);
	/* Adds to whom it hurt; may be NULL. */
	void (*say_impact)(struct ky_buf *out, const struct ky_poll_case *one);
	const char *action;
};

extern const struct ky_poll_rule ky_rule_nested_block_on, ky_rule_in_place_blocked,
	ky_rule_in_place_busy, ky_rule_log_writing, ky_rule_log_writing_busy, ky_rule_blocking_call,
	ky_rule_page_fault_storm, ky_rule_huge_drop, ky_rule_allocation_burst, ky_rule_coop_budget,
	ky_rule_lifo_slot_blocked, ky_rule_lifo_slot_busy, ky_rule_redundant_wakes,
	ky_rule_cpu_heavy_poll;

/* Of a library that writes logs, or a standard stream of Rust. */
bool ky_line_writes_logs(const struct ky_code_line *line);

#endif
