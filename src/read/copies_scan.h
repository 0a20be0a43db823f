/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* copies_scan.h - while it is found out who gives what: what each source says, and who owns it.
 *
 * Threads: owner.
 */
#ifndef KY_READ_COPIES_SCAN_H
#define KY_READ_COPIES_SCAN_H

#include <read/copies_state.h>

#define KY_COPIES_BYTES 40u
#define KY_COPIES_BLOCKING_POOL 254u /* and 255, unknown: ids of no worker */

enum ky_copies_part {
	KY_COPIES_NONE = 0, /* it does not say */
	KY_COPIES_STREAM,
	KY_COPIES_REST, /* continues where a stream was truncated */
	KY_COPIES_DUMP
};

/* Of one segment. After from nothing is missing that it was to hold; after whole_from nothing at
 * all, up to `to`. */
struct ky_copies_claim {
	uint64_t from, whole_from, to;
	uint64_t from_ns, border_ns, to_ns; /* from_ns, border_ns (of whole_from): 0 not known */
	uint64_t whole_from_ns;
	uint32_t source;
	enum ky_copies_part part;
	bool has_to;
};

/* One source as it describes itself. */
struct ky_copies_survey {
	struct ky_copies_key key;
	char part_text[KY_COPIES_BYTES];
	enum ky_copies_part part;
	bool is_wanted; /* it is read as a whole: there may be copies of it, or in it */
	bool is_mixed;  /* of several parts or processes: it keeps all */
	uint32_t process, group;
	struct ky_worker_id *workers;
	uint32_t worker_count;
	struct ky_clock_line *lines; /* of the segment that is read */
	uint32_t line_count, line_capacity;
	uint64_t last_ns;
};

struct ky_copies_scan {
	struct ky_copies *copies;
	struct ky_copies_survey *surveys;
	uint32_t count;
	struct ky_copies_claim *claims;
	uint32_t claim_count, claim_capacity;
	uint32_t group_count;
	struct ky_copies_survey *survey; /* the source that is read */
	uint32_t source;
};

/* copies_survey.c: what its first metadata says. Returns 0, -ENOMEM. */
int ky_copies_survey(struct ky_copies_survey *survey, struct ky_byte_source *source,
		     const struct ky_trc_limits *limits);
/* The same file: all claims, workers and clocks of source number `index`. Returns 0, -ENOMEM. */
int ky_copies_read(struct ky_copies_scan *scan, struct ky_byte_source *source, uint32_t index,
		   const struct ky_trc_limits *limits, uint64_t raw_bytes_max);

/* copies_owners.c: every survey has its group and process. Returns 0, -ENOMEM. */
int ky_copies_divide(struct ky_copies_scan *scan);
/* The same file: what no claim holds, of every process. Sorts the claims by where they begin.
 * Returns 0, -ENOMEM. */
int ky_copies_find_unrecorded(struct ky_copies_scan *scan);

#endif
