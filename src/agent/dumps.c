/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <agent/dumps.h>

#include <base/alloc.h>
#include <base/now.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

bool ky_dumps_is_ours(const struct ky_dumps *dumps)
{
	return __atomic_load_n(&dumps->pid, __ATOMIC_ACQUIRE) == (int32_t)getpid();
}

void ky_dumps_open(struct ky_dumps *dumps, uint32_t waiting_max)
{
	static const pthread_mutex_t fresh_lock = PTHREAD_MUTEX_INITIALIZER;
	static const pthread_cond_t fresh_done = PTHREAD_COND_INITIALIZER;

	/* In a forked child another thread of the parent's may have held them. */
	if (!ky_dumps_is_ours(dumps)) {
		memcpy(&dumps->lock, &fresh_lock, sizeof(fresh_lock));
		memcpy(&dumps->done, &fresh_done, sizeof(fresh_done));
	}
	pthread_mutex_lock(&dumps->lock);
	dumps->waiting_max = waiting_max;
	dumps->first = dumps->making = NULL;
	dumps->making_count = 0;
	dumps->has_runner = false;
	dumps->is_open = true;
	memset(&dumps->stats, 0, sizeof(dumps->stats));
	pthread_mutex_unlock(&dumps->lock);
	__atomic_store_n(&dumps->pid, (int32_t)getpid(), __ATOMIC_RELEASE);
}

void ky_dumps_close(struct ky_dumps *dumps)
{
	if (!ky_dumps_is_ours(dumps))
		return;
	pthread_mutex_lock(&dumps->lock);
	dumps->is_open = false;
	pthread_mutex_unlock(&dumps->lock);
}

static void append(struct ky_dump_request **at, struct ky_dump_request *request)
{
	while (*at)
		at = &(*at)->next;
	request->next = NULL;
	*at = request;
}

int ky_dumps_put(struct ky_dumps *dumps, struct ky_dump_request *request)
{
	int err = 0;

	if (!ky_dumps_is_ours(dumps))
		return KYMO_E_CLOSED;
	pthread_mutex_lock(&dumps->lock);
	if (!dumps->is_open)
		err = KYMO_E_CLOSED;
	else if (request->is_waited_for && dumps->has_runner &&
		 pthread_equal(dumps->runner, pthread_self()))
		err = -EDEADLK;
	else if (dumps->stats.waiting + dumps->making_count >= dumps->waiting_max)
		err = KYMO_E_BUSY;
	dumps->stats.refused += err == KYMO_E_BUSY;
	if (!err) {
		append(&dumps->first, request);
		dumps->stats.waiting++;
	}
	pthread_mutex_unlock(&dumps->lock);
	return err;
}

void ky_dumps_wait(struct ky_dumps *dumps, struct ky_dump_request *request)
{
	pthread_mutex_lock(&dumps->lock);
	while (!request->is_done)
		pthread_cond_wait(&dumps->done, &dumps->lock);
	pthread_mutex_unlock(&dumps->lock);
}

/* NULL: nothing is due before *next_ns. */
static struct ky_dump_request *take_due(struct ky_dumps *dumps, bool is_closing, uint64_t *next_ns)
{
	struct ky_dump_request **at, *request = NULL;
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);

	*next_ns = UINT64_MAX;
	pthread_mutex_lock(&dumps->lock);
	dumps->runner = pthread_self();
	dumps->has_runner = true;
	for (at = &dumps->first; *at; at = &(*at)->next) {
		if (is_closing || (*at)->due_ns <= now_ns) {
			request = *at;
			*at = request->next;
			dumps->stats.waiting--;
			break;
		}
		if ((*at)->due_ns < *next_ns)
			*next_ns = (*at)->due_ns;
	}
	pthread_mutex_unlock(&dumps->lock);
	return request;
}

static void count_making(struct ky_dumps *dumps, uint32_t more)
{
	pthread_mutex_lock(&dumps->lock);
	dumps->making_count += more;
	pthread_mutex_unlock(&dumps->lock);
}

static void finish(struct ky_dumps *dumps, struct ky_dump_request *request,
		   const struct ky_dump_hooks *hooks, int err)
{
	if (request->is_firing)
		hooks->after(hooks->ctx, request, err);
	if (request->done)
		request->done(request->done_ctx, &request->result);
	pthread_mutex_lock(&dumps->lock);
	if (err)
		dumps->stats.failed++;
	else
		dumps->stats.made++;
	if (request->is_waited_for) {
		request->is_done = true;
		pthread_cond_broadcast(&dumps->done);
		request = NULL; /* the waiter's from here on */
	}
	pthread_mutex_unlock(&dumps->lock);
	ky_free(request);
}

static void finish_made(struct ky_dumps *dumps, const struct ky_dump_maker *maker,
			const struct ky_dump_hooks *hooks, bool waits)
{
	struct ky_dump_request **at = &dumps->making;

	while (*at) {
		struct ky_dump_request *request = *at;
		int err = maker->is_made(maker->ctx, request, waits);

		if (err == KY_DUMP_IS_MADE_ELSEWHERE) {
			at = &request->next;
			continue;
		}
		*at = request->next;
		count_making(dumps, UINT32_MAX); /* one less */
		finish(dumps, request, hooks, err);
	}
}

uint64_t ky_dumps_run(struct ky_dumps *dumps, const struct ky_dump_maker *maker,
		      const struct ky_dump_hooks *hooks, bool is_closing)
{
	struct ky_dump_request *request;
	uint64_t next_ns;
	int err;

	finish_made(dumps, maker, hooks, false);
	while ((request = take_due(dumps, is_closing, &next_ns)) != NULL) {
		if (request->is_firing)
			hooks->before(hooks->ctx, request);
		err = maker->make(maker->ctx, request);
		if (err == KY_DUMP_IS_MADE_ELSEWHERE) {
			append(&dumps->making, request);
			count_making(dumps, 1);
		} else {
			finish(dumps, request, hooks, err);
		}
	}
	if (is_closing)
		finish_made(dumps, maker, hooks, true);
	return next_ns;
}

void ky_dumps_cancel(struct ky_dumps *dumps, const struct ky_dump_maker *maker,
		     const struct ky_dump_hooks *hooks, int err)
{
	struct ky_dump_request *request;
	uint64_t next_ns;

	while ((request = take_due(dumps, true, &next_ns)) != NULL) {
		request->result.err = err;
		finish(dumps, request, hooks, err);
	}
	finish_made(dumps, maker, hooks, true);
}

void ky_dumps_stats(struct ky_dumps *dumps, struct ky_dumps_stats *out)
{
	memset(out, 0, sizeof(*out));
	if (!ky_dumps_is_ours(dumps))
		return;
	pthread_mutex_lock(&dumps->lock);
	*out = dumps->stats;
	pthread_mutex_unlock(&dumps->lock);
}
