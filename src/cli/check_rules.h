/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* check_rules.h - what `kymo check` asks of a trace, as a TOML file:
 *
 *   [[rule]]
 *   name = "checkout is polled in 10 ms"    default: value and view
 *   view = "polls"                          a table, a view or a type of event
 *   where = "site like '%checkout%'"        default: all rows
 *   value = "p99(duration_ns)"              an aggregate of SQL
 *   max = "10ms"                            and, or instead, min: DURATION, SIZE or a number
 *   missing = "skip"                        where there is no value; default "fail"
 *
 * Errors:  one sentence that names file, line and key; nothing of a wrong file counts.
 * Threads: owner.
 */
#ifndef KY_CLI_CHECK_RULES_H
#define KY_CLI_CHECK_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KY_CHECK_RULES_MAX 256u
#define KY_CHECK_WHY_BYTES 512u

enum ky_check_unit {
	KY_CHECK_NUMBER,
	KY_CHECK_NS,
	KY_CHECK_BYTES
};

struct ky_check_bound {
	bool is_given;
	uint32_t unit; /* enum ky_check_unit */
	double value;
	char text[32]; /* as written */
};

struct ky_check_rule {
	char name[160], view[128], where[1024], value[512];
	struct ky_check_bound min, max;
	bool may_be_missing;
	uint32_t line; /* of its first key */
};

struct ky_check_rules {
	struct ky_check_rule *rules;
	uint32_t count;
};

/* Returns 0, or a negative error with its sentence in why (KY_CHECK_WHY_BYTES). */
int ky_check_rules_load(struct ky_check_rules *out, const char *file, char *why);
void ky_check_rules_release(struct ky_check_rules *rules);

#endif
