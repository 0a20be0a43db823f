/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* poll_case.h - the long polls of one kind of task, of which one half (on CPU, or blocked) may be
 * the cause of harm; and the samples that fell in them.
 *
 * Memory:      4 bytes a sample, of KY_POLL_CASE_ROWS_MAX samples.
 * Threads:     owner.
 */
#ifndef KY_ANALYZE_FINDINGS_POLL_CASE_H
#define KY_ANALYZE_FINDINGS_POLL_CASE_H

#include <analyze/culprit.h>
#include <analyze/findings/facts.h>
#include <analyze/findings/finding.h>

#define KY_POLL_CASE_ROWS_MAX 8192u

struct ky_poll_case {
	const struct ky_facts *facts;
	const struct ky_kind_facts *kind;
	bool is_blocked; /* this half; else on CPU */
	bool is_guessed; /* the trace does not split these polls, so samples do */
	bool is_unknown; /* neither does a sample: all of it stands in the half on CPU */
	uint64_t ns, worst_ns;
	uint64_t behind_ns;       /* others' ready time for it */
	uint64_t behind_worst_ns; /* of one delay: several such polls may stand before it */
	uint32_t *rows;           /* indexes in trace->samples.rows, of this half */
	uint32_t row_count;
	struct ky_culprit culprit; /* line NULL: not known */
	uint32_t most;             /* of rows: the one with most weight; KY_NONE */
	uint32_t syscall, reason;  /* of most of the time; KY_NO_SYSCALL: several, or not known */
	uint32_t fd_kind;
};

/* Returns 0, -ENOMEM. */
int ky_poll_case_make(struct ky_poll_case *out, const struct ky_facts *facts,
		      const struct ky_kind_facts *kind, bool is_blocked);
void ky_poll_case_release(struct ky_poll_case *one);

/* Of its samples' weight: those whose stack has a line that is_one() accepts. */
uint32_t ky_poll_case_share_ppm(const struct ky_poll_case *one,
				bool (*is_one)(const struct ky_code_line *line));
/* The same, of the frames between the poll and the leaf alone. */
uint32_t ky_poll_case_inside_ppm(const struct ky_poll_case *one,
				 bool (*is_one)(const struct ky_code_line *line));
/* Those that the program's own code called: no own line is in between. */
uint32_t ky_poll_case_called_ppm(const struct ky_poll_case *one,
				 bool (*is_one)(const struct ky_code_line *line));

#endif
