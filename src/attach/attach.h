/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* attach.h - has a running process load our library and call kymo_attach() in it.
 *
 * Invariants:  a process in which that is not possible, or not provably harmless, is as before, and
 *              one sentence says why. A thread is never stopped for longer than it takes to make
 *              another.
 * Threads:     owner; one attempt at a time in this process.
 */
#ifndef KY_ATTACH_ATTACH_H
#define KY_ATTACH_ATTACH_H

#include <attach/process.h>
#include <kymo/attach.h>

struct ky_attach_request {
	uint32_t action; /* enum kymo_attach_action */
	bool is_streaming;
	uint32_t gates;
	uint32_t sample_hz; /* the process samples itself; 0: it does not */
	uint64_t ring_bytes, session;
	const char *service;        /* NULL: the program's name */
	const char *ring_directory; /* NULL: the default */
	const char *library;        /* absolute path of libkymo-preload.so */
	uint32_t patience_ms;       /* so long the library waits for our word; 0: the default */
};

struct ky_attach_answer {
	int32_t result;                    /* of kymo_attach() */
	char text[KYMO_ATTACH_TEXT_BYTES]; /* its words, as of a status file */
	uint64_t stopped_ns;               /* the longest that a thread was stopped */
	uint32_t stop_count; /* threads that were stopped, the one that served included */
};

/* Asks the process to do it, waits for its answer, and unlocks it (process.h).
 *
 * Returns  0: there is an answer; -errno: there is none, and why is a sentence about the process
 *          ("process 12 …") without subject and full stop. */
int ky_attach_ask(const struct ky_process *process, const struct ky_attach_request *request,
		  struct ky_attach_answer *out, char *why);

#endif
