/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* park.h - is a stopped thread one that may be borrowed?
 *
 * Yes only when all of it is proven: it sleeps inside libc's epoll_wait() or syscall(futex), called
 * from the object that holds Tokio; its callers are known up to its very first frame; the innermost
 * of Tokio's own frames that says which is a park, not a poll; and nowhere between does the C
 * library or the loader stand, so it holds neither malloc's lock nor the loader's.
 *
 * Threads:     owner.
 */
#ifndef KY_ATTACH_PARK_H
#define KY_ATTACH_PARK_H

#include <attach/attach_arch.h>
#include <attach/process.h>

enum ky_attach_park {
	KY_PARK_YES = 0,
	KY_PARK_ELSEWHERE,  /* not in one of libc's waits, or not called by Tokio */
	KY_PARK_IN_POLL,    /* inside a task */
	KY_PARK_IN_LIBRARY, /* malloc, the loader, or a function that was called by them */
	KY_PARK_UNKNOWN     /* callers not known up to the first one */
};

enum ky_attach_park ky_park_of(const struct ky_process *process,
			       const struct ky_arch_frame *registers);

/* Threads that sleep in a wait right now and might do, the best to borrow first. No thread is
 * touched. Returns how many. */
size_t ky_park_candidates(const struct ky_process *process, pid_t *out, size_t capacity);

/* What a line of /proc/PID/task/TID/syscall says. */
enum ky_arch_wait ky_park_parse(const char *text, uint64_t *pc);

/* A function's name, judged. */
enum ky_park_name {
	KY_PARK_NAME_OTHER = 0,
	KY_PARK_NAME_PARK,
	KY_PARK_NAME_POLL
};
enum ky_park_name ky_park_name_of(const char *name);

#endif
