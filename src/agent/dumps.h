/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* dumps.h - dumps that wait until they are due, and the maker that makes them: the thread that runs
 * the queue, or a process of its own.
 *
 * The other files of dumps: dump_request.h is what is asked for (dump_options.c takes it from the C
 * API), dump_writer.h writes a cut to a file or a function. Of the library alone: dump_place.h,
 * where a file goes. Of the program kymo alone: named_dump.h, with names of code, and
 * session/dump_child.h, which forks for each.
 *
 * The library's queue is static, so that a call which comes too late finds a closed queue and not
 * freed memory. After a fork it is the parent's: everything is refused until ky_dumps_open().
 * Memory: what is put in, at most waiting_max requests.
 */
#ifndef KY_AGENT_DUMPS_H
#define KY_AGENT_DUMPS_H

#include <agent/dump_request.h>
#include <pthread.h>

struct ky_dumps_stats {
	uint32_t waiting;
	uint64_t made, failed, refused;
};

struct ky_dumps {
	uint32_t waiting_max; /* set before it is opened; those that a process makes count, too */
	pthread_mutex_t lock;
	pthread_cond_t done;
	int32_t pid; /* atomic; of the process whose queue this is */
	bool is_open;
	struct ky_dump_request *first;  /* in order of their arrival */
	struct ky_dump_request *making; /* the runner's alone */
	uint32_t making_count;
	struct ky_dumps_stats stats;
	pthread_t runner;
	bool has_runner;
};

/* Empty and accepting; forgets what was there, its locks included. Threads: setup-only. */
void ky_dumps_open(struct ky_dumps *dumps, uint32_t waiting_max);
/* This process has opened it. Threads: any. */
bool ky_dumps_is_ours(const struct ky_dumps *dumps);
/* Refuses from now on; what is waiting stays for ky_dumps_run(). Threads: any. */
void ky_dumps_close(struct ky_dumps *dumps);

/* Takes the request over. A waited-for one is given back by ky_dumps_wait(). Returns 0;
 * KYMO_E_CLOSED; KYMO_E_BUSY (counted); -EDEADLK: the runner would wait for itself. Threads: any.
 */
int ky_dumps_put(struct ky_dumps *dumps, struct ky_dump_request *request);
void ky_dumps_wait(struct ky_dumps *dumps, struct ky_dump_request *request);

#define KY_DUMP_IS_MADE_ELSEWHERE 1

struct ky_dump_maker {
	/* Returns 0 or an error, with the request's result; KY_DUMP_IS_MADE_ELSEWHERE: it takes its
	 * time, and is_made() says when it is over. */
	int (*make)(void *ctx, struct ky_dump_request *request);
	/* Returns what make() does. waits: until it is over. NULL: never made elsewhere. */
	int (*is_made)(void *ctx, struct ky_dump_request *request, bool waits);
	void *ctx;
};

/* About dumps of firings: before one is made, and what became of it (0 or an error). */
struct ky_dump_hooks {
	void (*before)(void *ctx, struct ky_dump_request *request);
	void (*after)(void *ctx, const struct ky_dump_request *request, int err);
	void *ctx;
};

/* Makes what is due; is_closing: everything, and waits for it. Returns when the next one is due,
 * CLOCK_MONOTONIC; UINT64_MAX: none. Threads: the runner's. */
uint64_t ky_dumps_run(struct ky_dumps *dumps, const struct ky_dump_maker *maker,
		      const struct ky_dump_hooks *hooks, bool is_closing);

/* None of what waits can be made any more: each fails with err. Waits for what is being made
 * elsewhere. hooks->before is not called. Threads: the runner's. */
void ky_dumps_cancel(struct ky_dumps *dumps, const struct ky_dump_maker *maker,
		     const struct ky_dump_hooks *hooks, int err);

void ky_dumps_stats(struct ky_dumps *dumps, struct ky_dumps_stats *out);

#endif
