/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <agent/dumps.h>

#include <base/alloc.h>
#include <base/now.h>
#include <errno.h>
#include <pthread.h>
#include <record/emit/bell.h>
#include <record/emit/emit_engine.h>
#include <string.h>
#include <unistd.h>

static struct {
	pthread_mutex_t lock;
	pthread_cond_t done;
	int32_t pid; /* atomic; of the process whose queue this is */
	bool is_open;
	struct ky_dump_request *first; /* in order of their arrival */
	struct ky_dump_queue_stats stats;
	pthread_t runner;
	bool has_runner;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

bool ky_dump_queue_is_ours(void)
{
	return __atomic_load_n(&queue.pid, __ATOMIC_ACQUIRE) == (int32_t)getpid();
}

void ky_dump_queue_open(void)
{
	static const pthread_mutex_t fresh_lock = PTHREAD_MUTEX_INITIALIZER;
	static const pthread_cond_t fresh_done = PTHREAD_COND_INITIALIZER;

	/* In a forked child another thread of the parent's may have held them. */
	if (!ky_dump_queue_is_ours()) {
		memcpy(&queue.lock, &fresh_lock, sizeof(fresh_lock));
		memcpy(&queue.done, &fresh_done, sizeof(fresh_done));
	}
	pthread_mutex_lock(&queue.lock);
	queue.first = NULL;
	queue.has_runner = false;
	queue.is_open = true;
	memset(&queue.stats, 0, sizeof(queue.stats));
	pthread_mutex_unlock(&queue.lock);
	__atomic_store_n(&queue.pid, (int32_t)getpid(), __ATOMIC_RELEASE);
}

void ky_dump_queue_close(void)
{
	if (!ky_dump_queue_is_ours())
		return;
	pthread_mutex_lock(&queue.lock);
	queue.is_open = false;
	pthread_mutex_unlock(&queue.lock);
}

static void append(struct ky_dump_request *request)
{
	struct ky_dump_request **at = &queue.first;

	while (*at)
		at = &(*at)->next;
	*at = request;
	queue.stats.waiting++;
}

int ky_dump_queue_put(struct ky_dump_request *request)
{
	int err = 0;

	if (!ky_dump_queue_is_ours())
		return KYMO_E_CLOSED;
	pthread_mutex_lock(&queue.lock);
	if (!queue.is_open)
		err = KYMO_E_CLOSED;
	else if (request->is_waited_for && queue.has_runner &&
		 pthread_equal(queue.runner, pthread_self()))
		err = -EDEADLK;
	else if (queue.stats.waiting == KY_DUMPS_WAITING_MAX)
		err = KYMO_E_BUSY;
	queue.stats.refused += err == KYMO_E_BUSY;
	if (!err)
		append(request);
	pthread_mutex_unlock(&queue.lock);
	if (!err)
		ky_bell_ring(ky_engine_ring());
	return err;
}

void ky_dump_queue_wait(struct ky_dump_request *request)
{
	pthread_mutex_lock(&queue.lock);
	while (!request->is_done)
		pthread_cond_wait(&queue.done, &queue.lock);
	pthread_mutex_unlock(&queue.lock);
}

/* Under the lock. NULL: nothing is due before *next_ns. */
static struct ky_dump_request *take_due(uint64_t now_ns, bool is_closing, uint64_t *next_ns)
{
	struct ky_dump_request **at = &queue.first, *request;

	*next_ns = UINT64_MAX;
	for (; *at; at = &(*at)->next) {
		request = *at;
		if (is_closing || request->due_ns <= now_ns) {
			*at = request->next;
			queue.stats.waiting--;
			return request;
		}
		if (request->due_ns < *next_ns)
			*next_ns = request->due_ns;
	}
	return NULL;
}

static void finish(struct ky_dump_request *request, int err)
{
	if (request->done)
		request->done(request->done_ctx, &request->result);
	pthread_mutex_lock(&queue.lock);
	if (err)
		queue.stats.failed++;
	else
		queue.stats.made++;
	if (request->is_waited_for) {
		request->is_done = true;
		pthread_cond_broadcast(&queue.done);
		request = NULL; /* the waiter's from here on */
	}
	pthread_mutex_unlock(&queue.lock);
	ky_free(request);
}

/* As `kymo dump --stop` does from outside. */
static void stop_recording(const struct ky_ring *ring)
{
	uint32_t gates = atomic_load_explicit(&ring->control->gates, memory_order_relaxed);

	if (ky_settings_note_stop(&ring->control->settings, gates, ky_now_ns(CLOCK_MONOTONIC)))
		kymo_recorder_gates(0, UINT32_MAX);
}

uint64_t ky_dump_queue_run(const struct ky_dump_place *place, const struct ky_ring *ring,
			   bool is_closing, const struct ky_dump_hooks *hooks)
{
	struct ky_dump_request *request;
	uint64_t next_ns;

	for (;;) {
		int err;

		pthread_mutex_lock(&queue.lock);
		queue.runner = pthread_self();
		queue.has_runner = true;
		request = take_due(ky_now_ns(CLOCK_MONOTONIC), is_closing, &next_ns);
		pthread_mutex_unlock(&queue.lock);
		if (!request)
			return next_ns;
		if (request->is_firing)
			hooks->before(hooks->ctx, request);
		if (request->is_last && ring)
			stop_recording(ring);
		err = ky_dump_make(request, place, ring);
		if (request->is_firing)
			hooks->after(hooks->ctx, request, err);
		finish(request, err);
	}
}

void ky_dump_queue_stats(struct ky_dump_queue_stats *out)
{
	memset(out, 0, sizeof(*out));
	if (!ky_dump_queue_is_ours())
		return;
	pthread_mutex_lock(&queue.lock);
	*out = queue.stats;
	pthread_mutex_unlock(&queue.lock);
}
