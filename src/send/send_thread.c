/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <send/send_thread.h>

#include <base/alloc.h>
#include <base/now.h>
#include <base/start_thread.h>
#include <errno.h>
#include <send/segment_walk.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NICE 10
#define PACE_NS UINT64_C(1000000000)
#define READY_NS UINT64_C(20000000)

struct ky_send_thread {
	struct ky_sender *sender;
	const char *directory, *dumps;
	bool (*is_ready)(void *ctx); /* NULL: it is */
	void *ready_ctx;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint64_t deadline_ns; /* under the lock; UINT64_MAX: not at the end */
	bool is_joined;
	uint32_t is_done; /* atomic */
};

/* Until then, or until the end begins. Returns the deadline. */
static uint64_t wait_until(struct ky_send_thread *thread, uint64_t until_ns, uint64_t known_ns)
{
	const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000u),
				       .tv_nsec = (long)(until_ns % 1000000000u)};
	uint64_t deadline_ns;

	pthread_mutex_lock(&thread->lock);
	while (thread->deadline_ns == known_ns &&
	       pthread_cond_timedwait(&thread->changed, &thread->lock, &until) != ETIMEDOUT)
		;
	deadline_ns = thread->deadline_ns;
	pthread_mutex_unlock(&thread->lock);
	return deadline_ns;
}

static void wait_until_ready(struct ky_send_thread *thread)
{
	uint64_t deadline_ns = UINT64_MAX, now_ns = ky_now_ns(CLOCK_MONOTONIC);

	while (thread->is_ready && now_ns < deadline_ns && !thread->is_ready(thread->ready_ctx)) {
		deadline_ns = wait_until(thread, now_ns + READY_NS, deadline_ns);
		now_ns = ky_now_ns(CLOCK_MONOTONIC);
	}
}

static void send_while_it_records(struct ky_send_thread *thread)
{
	uint64_t seen = 0, stamp, now_ns, due_ns;

	do {
		now_ns = ky_now_ns(CLOCK_MONOTONIC);
		stamp = ky_segment_walk_stamp(thread->directory) +
			(thread->dumps ? ky_segment_walk_stamp(thread->dumps) : 0);
		if (stamp != seen || now_ns >= ky_sender_due_ns(thread->sender))
			(void)ky_sender_pass(thread->sender);
		seen = stamp;
		due_ns = ky_sender_due_ns(thread->sender);
		now_ns = ky_now_ns(CLOCK_MONOTONIC) + PACE_NS;
	} while (wait_until(thread, due_ns < now_ns ? due_ns : now_ns, UINT64_MAX) == UINT64_MAX);
}

static void send_the_rest(struct ky_send_thread *thread)
{
	uint64_t deadline_ns = wait_until(thread, 0, UINT64_MAX), due_ns;

	ky_sender_hurry(thread->sender);
	for (;;) {
		(void)ky_sender_pass(thread->sender);
		due_ns = ky_sender_due_ns(thread->sender);
		if (due_ns >= deadline_ns || ky_now_ns(CLOCK_MONOTONIC) >= deadline_ns)
			break;
		deadline_ns = wait_until(thread, due_ns, deadline_ns);
	}
}

static void *run(void *ctx)
{
	struct ky_send_thread *thread = ctx;
	id_t tid = (id_t)syscall(SYS_gettid);

	pthread_setname_np(pthread_self(), "kymo-send");
	(void)setpriority(PRIO_PROCESS, tid, getpriority(PRIO_PROCESS, tid) + NICE);
	wait_until_ready(thread);
	send_while_it_records(thread);
	send_the_rest(thread);
	__atomic_store_n(&thread->is_done, 1, __ATOMIC_RELEASE);
	return NULL;
}

int ky_send_thread_open(struct ky_send_thread **out, const struct ky_sender_options *options,
			bool (*is_ready)(void *ctx), void *ready_ctx)
{
	struct ky_send_thread *thread = ky_alloc(sizeof(*thread));
	pthread_condattr_t clock;
	int err;

	*out = NULL;
	if (!thread)
		return -ENOMEM;
	thread->deadline_ns = UINT64_MAX;
	thread->directory = options->directory;
	thread->dumps = options->dumps;
	thread->is_ready = is_ready;
	thread->ready_ctx = ready_ctx;
	err = ky_sender_open(&thread->sender, options);
	if (err) {
		ky_free(thread);
		return err;
	}
	pthread_mutex_init(&thread->lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&thread->changed, &clock);
	pthread_condattr_destroy(&clock);
	err = ky_start_thread(&thread->thread, run, thread);
	if (err) {
		thread->is_joined = true;
		ky_send_thread_close(thread);
		return err;
	}
	*out = thread;
	return 0;
}

void ky_send_thread_finish(struct ky_send_thread *thread, uint64_t deadline_ns)
{
	pthread_mutex_lock(&thread->lock);
	thread->deadline_ns = deadline_ns;
	pthread_cond_signal(&thread->changed);
	pthread_mutex_unlock(&thread->lock);
	ky_sender_finish_at(thread->sender, deadline_ns);
}

bool ky_send_thread_is_done(const struct ky_send_thread *thread)
{
	return __atomic_load_n(&thread->is_done, __ATOMIC_ACQUIRE);
}

const struct ky_sender *ky_send_thread_join(struct ky_send_thread *thread)
{
	if (!thread->is_joined)
		pthread_join(thread->thread, NULL);
	thread->is_joined = true;
	return thread->sender;
}

void ky_send_thread_close(struct ky_send_thread *thread)
{
	if (!thread)
		return;
	if (!thread->is_joined) {
		ky_send_thread_finish(thread, 0);
		(void)ky_send_thread_join(thread);
	}
	ky_sender_close(thread->sender);
	pthread_cond_destroy(&thread->changed);
	pthread_mutex_destroy(&thread->lock);
	ky_free(thread);
}
