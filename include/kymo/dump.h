/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* dump.h - a trace made from the ring: by a call, or by a rule that fires.
 *
 * The ring always holds the latest events. A dump copies the ring and writes a trace, while the
 * recording continues; no thread of the program waits for it unless it asks to. The library's
 * thread makes dumps one after another; up to 32 may be waiting.
 * Threads: any, unless stated.      Signals: unsafe.
 */
#ifndef KYMO_DUMP_H
#define KYMO_DUMP_H

#include <kymo/recorder.h>

#ifdef __cplusplus
extern "C" {
#endif

enum kymo_dump_flags {
	KYMO_DUMP_WAIT = 1u << 0, /* return when it is done */
	/* Record no more once the range is over: every gate closes, sampling and readings of
	 * resources end, so that the ring keeps what it holds. kymo_recorder_gates() that
	 * opens one, or `kymo set PID recording=on`, resumes. */
	KYMO_DUMP_STOP = 1u << 1
};

/* How a dump went. Times are CLOCK_MONOTONIC ns, of the events in it; 0: none. */
struct kymo_dump_result {
	size_t size;              /* the caller of kymo_recorder_dump() sets it */
	int32_t err;              /* 0, KYMO_E_* or -errno: then there is no trace */
	uint32_t open_poll_count; /* at the end of the dump */
	uint64_t events_written;
	uint64_t records_lost;
	uint64_t oldest_ns, newest_ns;
	uint64_t age_ns;     /* how far back the ring reached */
	uint64_t ring_bytes; /* ... with this size */
	/* The size that would have reached back as far as was asked for, or over age_min_ns of the
	 * options, at the rate seen; 0: it did. */
	uint64_t ring_bytes_needed;
	uint64_t bytes_written; /* compressed */
	char path[512];         /* of the trace; empty: it went to a function */
};

/* Called by the library's thread when a dump is done or has failed; result is valid during the
 * call, which may ask for another dump but must not wait for it. */
typedef void (*kymo_dump_done_fn)(void *ctx, const struct kymo_dump_result *result);

struct kymo_dump_options {
	size_t size;        /* sizeof(struct kymo_dump_options) */
	const char *reason; /* NULL: "request"; part of the file's name, cut at 47 bytes */
	const char *label;  /* NULL, or UTF-8 for people, at most 1,024 bytes */
	const struct kymo_key_value *metadata; /* metadata_count pairs for this trace, at most 16 */
	size_t metadata_count;
	uint64_t last_ns; /* not 0: from so long before the call */
	/* CLOCK_MONOTONIC; 0: from the oldest, to the newest. What lies ahead is waited for, at
	 * most an hour; a range that begins after the moment of the dump is -EINVAL. */
	uint64_t from_ns, to_ns;
	uint64_t after_ns; /* and so much more after the call; at most an hour */
	/* A name that ends in .trc, .trc.zst or .trc.gz is the file's; what stood there becomes
	 * NAME.old. Any other is a directory, but one like .trc.xz that is none yet is -EINVAL in
	 * err. NULL: dump_directory of the recorder's options. In a directory the name is
	 * SERVICE/dump-UTC-PID-REASON.trc, with the recorder's compression appended. A file
	 * appears complete, under its name, or not at all. */
	const char *path;
	kymo_write_fn write; /* not NULL: the bytes go here instead of to a file */
	void *write_ctx;
	uint32_t flags; /* enum kymo_dump_flags */
	kymo_dump_done_fn done;
	void *done_ctx;
};

#define KYMO_DUMP_OPTIONS_INIT                                                                     \
	{                                                                                          \
		sizeof(struct kymo_dump_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0         \
	}

/* Asks for a dump; all that options points to but the contexts is copied.
 *
 * options  NULL: everything the ring holds, to the default place
 * result   NULL, or filled when the call waits
 * Returns  0; what result->err says, when it waits; -E2BIG, -EINVAL about the options; KYMO_E_BUSY:
 *          too many are waiting (counted); KYMO_E_CLOSED: nothing is open in this process, or it is
 *          being closed; KYMO_E_UNSUPPORTED: with KYMO_RECORDER_NO_DRAIN; -EDEADLK: the library's
 *          thread would wait for itself; -ENOMEM. Nothing recorded yet: KYMO_E_AGAIN in err.
 *          kymo_recorder_close() makes what is waiting before it returns, without the rest of
 *          after_ns.
 * Since    0.1
 */
KYMO_API int kymo_recorder_dump(const struct kymo_dump_options *options,
				struct kymo_dump_result *result);

/* Adds rules that make a dump when they fire, "poll>100ms; rss>512M for 60s": for the syntax see
 * kymo-run(1). They join those of the options and of KYMO_TRIGGERS; at most 32 in all. Firings
 * before this call do not count against the budget after it.
 *
 * Returns  0; -EINVAL and a sentence in errbuf (may be NULL) that quotes what it does not accept:
 *          no rule is added then; KYMO_E_CLOSED; KYMO_E_UNSUPPORTED as above. A rule that can never
 *          fire here (no cgroup to read, ..) is left out: -ENOTSUP in the status' last_error.
 * Since    0.1
 */
KYMO_API int kymo_trigger_add(const char *rules, char *errbuf, size_t errbuf_bytes);

#ifdef __cplusplus
}
#endif

#endif
