/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <session/reading_thread.h>

#include <base/alloc.h>
#include <base/now.h>
#include <base/start_thread.h>
#include <errno.h>
#include <pthread.h>
#include <time.h>

#define LOOK_SLACK_NS UINT64_C(500000000)

struct ky_reading_thread {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
	struct ky_reading *readings;
	bool is_stopping;
	bool is_lent; /* changed by the owner alone */
};

/* ---- the thread; under the lock ---- */

static void step(struct ky_reading *reading)
{
	/* A recording that continues: which of the two intervals holds makes no difference here. */
	const struct ky_probe_moment moment = {.now_ns = ky_now_ns(CLOCK_MONOTONIC),
					       .resource_ms = __atomic_load_n(&reading->wish_ms,
									      __ATOMIC_RELAXED)};

	reading->due_ns = ky_probes_step(&reading->probe, 1, &moment);
}

static void pass_changes_on(struct ky_reading *reading)
{
	struct ky_child_change changes[16];
	uint32_t count;

	do {
		count = ky_child_states_read(reading->states, &reading->next_change, changes, 16);
		for (uint32_t i = 0; i < count; i++)
			if (changes[i].at_ns >= reading->since_ns)
				ky_process_watch_tell(&reading->watch, &reading->resources.source,
						      changes[i].change, changes[i].detail,
						      changes[i].at_ns);
	} while (count == 16);
}

/* Returns when it is to be looked at again. has_woken: for another reason, so that a look that is
 * due soon takes no wake-up of its own. */
static uint64_t look(struct ky_reading *reading, uint64_t now_ns, bool has_woken)
{
	if (!reading->resources.source.readings)
		return UINT64_MAX;
	if (now_ns + (has_woken ? LOOK_SLACK_NS : 0) < reading->watch.due_ns)
		return reading->watch.due_ns;
	ky_process_watch_look(&reading->watch, &reading->resources.source, &reading->process,
			      now_ns);
	ky_resource_look(&reading->resources.source, now_ns);
	if (reading->states)
		pass_changes_on(reading);
	return reading->watch.due_ns;
}

/* Steps what is due. Returns when the next one is. */
static uint64_t step_all(const struct ky_reading_thread *thread)
{
	uint64_t first_ns = UINT64_MAX;

	for (struct ky_reading *reading = thread->readings; reading; reading = reading->next) {
		bool is_due = reading->due_ns <= ky_now_ns(CLOCK_MONOTONIC);
		uint64_t look_ns;

		if (is_due)
			step(reading);
		look_ns = look(reading, ky_now_ns(CLOCK_MONOTONIC), is_due);
		if (reading->due_ns < first_ns)
			first_ns = reading->due_ns;
		if (look_ns < first_ns)
			first_ns = look_ns;
	}
	return first_ns;
}

static void wait_until(struct ky_reading_thread *thread, uint64_t until_ns)
{
	struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000),
				 .tv_nsec = (long)(until_ns % 1000000000)};

	if (until_ns == UINT64_MAX)
		pthread_cond_wait(&thread->changed, &thread->lock);
	else
		(void)pthread_cond_clockwait(&thread->changed, &thread->lock, CLOCK_MONOTONIC,
					     &until);
}

static void *run(void *ctx)
{
	struct ky_reading_thread *thread = ctx;

	pthread_setname_np(pthread_self(), "kymo-readings");
	pthread_mutex_lock(&thread->lock);
	while (!thread->is_stopping)
		wait_until(thread, thread->is_lent ? UINT64_MAX : step_all(thread));
	pthread_mutex_unlock(&thread->lock);
	return NULL;
}

/* ---- its caller ---- */

static int open_thread(struct ky_reading_thread **out)
{
	struct ky_reading_thread *thread = ky_alloc(sizeof(*thread));
	int err;

	if (!thread)
		return -ENOMEM;
	pthread_mutex_init(&thread->lock, NULL);
	pthread_cond_init(&thread->changed, NULL);
	err = ky_start_thread(&thread->thread, run, thread);
	if (err)
		ky_free(thread);
	else
		*out = thread;
	return err;
}

void ky_reading_add(struct ky_reading_thread **out, struct ky_reading *reading,
		    const struct ky_ring_view *view)
{
	struct ky_reading_thread *thread;

	if (!*out && open_thread(out) != 0)
		return;
	thread = *out;
	ky_proc_reader_open(&reading->process, NULL, NULL, view->header->pid,
			    view->header->pid_namespace);
	reading->resources.process = &reading->process;
	reading->resources.flight_interval_ns = reading->resources.interval_ns;
	reading->probe = ky_probe_resources_init(&reading->resources, view);
	reading->watch.is_told = reading->states != NULL;
	reading->due_ns = 0;
	pthread_mutex_lock(&thread->lock);
	reading->thread = thread;
	reading->next = thread->readings;
	thread->readings = reading;
	pthread_cond_signal(&thread->changed);
	pthread_mutex_unlock(&thread->lock);
}

void ky_reading_set(struct ky_reading *reading, uint32_t wish_ms)
{
	struct ky_reading_thread *thread = reading->thread;

	if (!thread || __atomic_load_n(&reading->wish_ms, __ATOMIC_RELAXED) == wish_ms)
		return;
	pthread_mutex_lock(&thread->lock);
	__atomic_store_n(&reading->wish_ms, wish_ms, __ATOMIC_RELAXED);
	reading->due_ns = 0;
	pthread_cond_signal(&thread->changed);
	pthread_mutex_unlock(&thread->lock);
}

void ky_reading_lend(struct ky_reading_thread *thread, bool is_lent)
{
	if (!thread || thread->is_lent == is_lent)
		return;
	pthread_mutex_lock(&thread->lock);
	thread->is_lent = is_lent;
	if (!is_lent)
		pthread_cond_signal(&thread->changed);
	pthread_mutex_unlock(&thread->lock);
}

uint64_t ky_reading_step(struct ky_reading_thread *thread)
{
	uint64_t due_ns = UINT64_MAX;

	if (!thread || !thread->is_lent)
		return due_ns;
	pthread_mutex_lock(&thread->lock);
	due_ns = step_all(thread);
	pthread_mutex_unlock(&thread->lock);
	return due_ns;
}

static void take_out(struct ky_reading_thread *thread, struct ky_reading *reading)
{
	struct ky_reading **at = &thread->readings;

	pthread_mutex_lock(&thread->lock);
	while (*at && *at != reading)
		at = &(*at)->next;
	if (*at)
		*at = reading->next;
	pthread_mutex_unlock(&thread->lock);
}

void ky_reading_end(struct ky_reading *reading)
{
	if (!reading->thread)
		return;
	take_out(reading->thread, reading);
	reading->thread = NULL;
	if (reading->states)
		pass_changes_on(reading);
	ky_process_watch_end(&reading->watch, &reading->resources.source);
	ky_probe_resources_last(&reading->resources, reading->wish_ms, ky_now_ns(CLOCK_MONOTONIC));
	ky_probes_close(&reading->probe, 1);
	ky_proc_reader_close(&reading->process);
}

void ky_reading_thread_close(struct ky_reading_thread *thread)
{
	if (!thread)
		return;
	while (thread->readings)
		ky_reading_end(thread->readings);
	pthread_mutex_lock(&thread->lock);
	thread->is_stopping = true;
	pthread_cond_signal(&thread->changed);
	pthread_mutex_unlock(&thread->lock);
	pthread_join(thread->thread, NULL);
	pthread_cond_destroy(&thread->changed);
	pthread_mutex_destroy(&thread->lock);
	ky_free(thread);
}
