/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* stage.h - a destination for sealed segments, in code that is not part of kymo.
 *
 * A stage takes one segment at a time, from one thread at low priority, outside the recorded
 * process. It never deletes a file: the bound on disk (--total-bytes) alone does.
 * Answers:  KYMO_STAGE_TAKEN: it is safe, and never offered again, by a later process neither;
 *           KYMO_STAGE_AGAIN: not now, and no other segment either until again_ns have passed;
 *           KYMO_STAGE_REFUSED: not this one, with a reason; it stays on disk, and the next process
 *           offers it again; KYMO_STAGE_PENDING: ask with poll().
 * A segment may come twice: when the power fails after it was taken and before that is on disk.
 * Threads:  one; finish() is called while the same thread waits.
 * Since     0.1
 */
#ifndef KYMO_STAGE_H
#define KYMO_STAGE_H

#include <kymo/base.h>

#ifdef __cplusplus
extern "C" {
#endif

enum kymo_stage_answer {
	KYMO_STAGE_TAKEN = 0,
	KYMO_STAGE_AGAIN = 1,
	KYMO_STAGE_REFUSED = 2,
	KYMO_STAGE_PENDING = 3
};

#define KYMO_STAGE_REASON_BYTES 256

struct kymo_stage_result {
	size_t size;     /* sizeof(struct kymo_stage_result) */
	uint32_t answer; /* enum kymo_stage_answer */
	uint32_t reserved;
	uint64_t again_ns; /* of AGAIN: how long to wait */
	/* One sentence, without secrets; of TAKEN: what the user should know, else empty. */
	char reason[KYMO_STAGE_REASON_BYTES];
};

/* A sealed segment. Strings and the descriptor are the caller's, valid during the call. */
struct kymo_segment {
	size_t size;            /* sizeof(struct kymo_segment) */
	int fd;                 /* what is to be sent, open for reading; pread() it */
	uint32_t pid;           /* of the recorded process; 0: not known */
	const char *path;       /* opens the same; of a copy without a name: /proc/self/fd/N */
	const char *service;    /* [A-Za-z0-9._-] */
	const char *run;        /* of the run's directory */
	const char *name;       /* NNNNNN.trc[.zst|.gz], or that of a dump */
	const char *boot;       /* eight digits of the boot id, the pid, its start: one process */
	const char *host;       /* the machine's name; "" */
	uint64_t number;        /* of the segment in its run, ascending */
	uint64_t byte_count;    /* of what is to be sent */
	uint64_t start_unix_ns; /* its first event; 0: not known */
	uint64_t end_unix_ns;   /* when it was sealed */
	const char *directory;  /* of the run: room for what a stage needs for a while */
	/* 64 digits that are the same whenever this segment is sent from its directory with the
	 * same --redact, though a copy may have other bytes: what has the same was made from it.
	 * "": not known. */
	const char *origin;
	const char *dump_id; /* a ULID: it is a dump, and no part of a stream; else "" */
	/* For a stage that sends a segment in several requests: a part that arrived is noted on
	 * disk, so that no later process sends it again, though the segment is offered again. part:
	 * a word of up to 32 bytes without blanks. note_part returns 0, or a negative error: not on
	 * disk, and true of this process alone. */
	void *part_ctx;
	int (*has_part)(void *ctx, const char *part); /* 1 or 0 */
	int (*note_part)(void *ctx, const char *part);
};

struct kymo_segment_stage {
	size_t size;      /* sizeof(struct kymo_segment_stage) */
	const char *name; /* where it leads, for sentences and for the list of what it took */
	void *ctx;
	/* Once, before the first segment. Returns 0 or a negative error, with a sentence. */
	int (*open)(void *ctx, char *errbuf, size_t errbuf_bytes);
	void (*take)(void *ctx, const struct kymo_segment *segment,
		     struct kymo_stage_result *result);
	/* After PENDING: waits up to wait_ms. NULL: take() never leaves anything pending. */
	void (*poll)(void *ctx, uint32_t wait_ms, struct kymo_stage_result *result);
	/* From another thread: what runs has to end by this time of CLOCK_MONOTONIC. NULL: it ends
	 * soon in any case. */
	void (*finish)(void *ctx, uint64_t deadline_ns);
	void (*close)(void *ctx); /* once, last; also after a failed open() */
};

#ifdef __cplusplus
}
#endif

#endif
