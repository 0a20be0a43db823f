/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* dump_request.h - one dump that a program or a rule asks for: everything it needs, copied.
 *
 * Memory:  one allocation each, freed by ky_free(); bounded by the bounds of struct
 *          kymo_dump_options.
 * Threads: any.
 */
#ifndef KY_AGENT_DUMP_REQUEST_H
#define KY_AGENT_DUMP_REQUEST_H

#include <drain/cut.h>
#include <kymo/dump.h>
#include <sys/types.h>
#include <watch/watchdog.h>

#define KY_DUMP_REASON_BYTES 48u
#define KY_DUMP_LABEL_BYTES_MAX 1024u
#define KY_DUMP_METADATA_MAX 16u
#define KY_DUMP_PAIRS_MAX (KY_DUMP_METADATA_MAX + 8u)
/* Up to the firing, and up to the end of the range. */
#define KY_DUMP_NOTES_MAX (2 * KY_STUCK_NOTES)
#define KY_DUMP_AFTER_NS_MAX (UINT64_C(3600) * 1000000000u)

struct ky_dump_request {
	struct ky_dump_request *next;
	uint64_t due_ns; /* not before: its range is not over yet */
	uint64_t from_ns, to_ns;
	const char *path; /* NULL: the default place */
	kymo_write_fn write;
	void *write_ctx;
	kymo_dump_done_fn done;
	void *done_ctx;
	pid_t maker;        /* the process that makes it; 0: none */
	bool is_waited_for; /* the waiter frees it */
	bool is_done;
	bool is_last;   /* nothing is recorded after it */
	bool is_firing; /* of a rule: its bytes count against the budget */
	struct kymo_dump_result result;
	char reason[KY_DUMP_REASON_BYTES]; /* fit for a file name */
	struct ky_cut_pair pairs[KY_DUMP_PAIRS_MAX];
	size_t pair_count;
	struct ky_stuck_note notes[KY_DUMP_NOTES_MAX];
	size_t note_count;
	struct ky_trigger_note trigger; /* of a firing: */
	const char *rule, *value;       /* its rule's name, what was measured */
	size_t text_bytes, text_bytes_max;
	char texts[];
};

/* options: as kymo_recorder_dump() takes them. now_ns: the moment that last_ns and after_ns count
 * from. Returns 0; -E2BIG; -EINVAL; -ENOMEM. The library alone has it. */
int ky_dump_request_make(struct ky_dump_request **out, const struct kymo_dump_options *options,
			 uint64_t now_ns);

/* A rule has fired. path: of the file; NULL: the default place, whose name has the reason. Returns
 * 0; -ENOMEM. */
int ky_dump_request_firing(struct ky_dump_request **out, const struct ky_firing *firing,
			   const char *path);

/* The range, what is written beside it. */
void ky_dump_request_cut(const struct ky_dump_request *request, struct ky_cut_options *cut);

/* For the two above. text_bytes: of all that is kept. NULL: no memory. */
struct ky_dump_request *ky_dump_request_alloc(size_t text_bytes);
const char *ky_dump_request_keep(struct ky_dump_request *request, const char *text);
void ky_dump_request_pair(struct ky_dump_request *request, const char *key, const char *value);
/* Part of a file name, though never its start. "": "request". */
void ky_dump_request_reason(struct ky_dump_request *request, const char *reason);

#endif
