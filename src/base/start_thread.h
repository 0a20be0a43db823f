/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* start_thread.h - a thread with all signals blocked: they are for the program's other threads. */
#ifndef KY_BASE_START_THREAD_H
#define KY_BASE_START_THREAD_H

#include <pthread.h>
#include <signal.h>

/* Returns 0 or -errno. */
static inline int ky_start_thread(pthread_t *out, void *(*run)(void *ctx), void *ctx)
{
	sigset_t all, before;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(out, NULL, run, ctx);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -err;
}

#endif
