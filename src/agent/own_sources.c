/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <agent/own_sources.h>

#include <errno.h>
#include <kymo/recorder.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct source {
	struct kymo_event_source about;
	char name[KYMO_SOURCE_NAME_BYTES_MAX + 1];
	uint64_t due_ns; /* UINT64_MAX: never */
	int number;      /* 0: the place is free */
	bool is_open;    /* open() has returned */
	bool is_removed; /* by its own callback, which still runs */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t returned = PTHREAD_COND_INITIALIZER;
static struct source sources[KYMO_SOURCES_MAX];
static const struct source *running; /* whose callback runs */
static pthread_t runner;             /* on this thread */
static int last_number;

static bool runs_here(const struct source *source)
{
	return running == source && pthread_equal(runner, pthread_self());
}

/* A free place, taken; NULL: there is none. */
static struct source *take_place(const struct kymo_event_source *source)
{
	struct source *place = NULL;

	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < KYMO_SOURCES_MAX && !place; i++)
		if (!sources[i].number)
			place = &sources[i];
	if (place) {
		*place = (struct source){.about = *source, .due_ns = KYMO_SOURCE_NEVER};
		(void)snprintf(place->name, sizeof(place->name), "%s", source->name);
		last_number = last_number == INT32_MAX ? 1 : last_number + 1;
		place->number = last_number;
	}
	pthread_mutex_unlock(&lock);
	return place;
}

/* After open(). Returns its number, or the error. */
static int finish_opening(struct source *place, int err)
{
	int number;

	pthread_mutex_lock(&lock);
	number = err ? err : place->number;
	place->is_open = err == 0;
	place->due_ns = place->about.sample ? 0 : KYMO_SOURCE_NEVER;
	if (err)
		*place = (struct source){.number = 0};
	pthread_mutex_unlock(&lock);
	return number;
}

int ky_own_sources_add(const struct kymo_event_source *source)
{
	size_t bytes = source && source->name ? strlen(source->name) : 0;
	char key[KYMO_SOURCE_NAME_BYTES_MAX + 16];
	struct source *place;
	int number;

	if (!source || source->size != sizeof(*source) || !bytes ||
	    bytes > KYMO_SOURCE_NAME_BYTES_MAX)
		return -EINVAL;
	place = take_place(source);
	if (!place)
		return KYMO_E_LIMIT;
	number = finish_opening(place, source->open ? source->open(source->ctx) : 0);
	if (number > 0) {
		(void)snprintf(key, sizeof(key), "source.%s", source->name);
		(void)kymo_metadata_set(key, "on");
	}
	return number;
}

/* The lock is held, and given up while close() runs. */
static void end(struct source *source)
{
	const struct kymo_event_source about = source->about;

	*source = (struct source){.number = 0};
	pthread_mutex_unlock(&lock);
	if (about.close)
		about.close(about.ctx);
	pthread_mutex_lock(&lock);
}

/* The same, once no other thread is in it. */
static void wait_and_end(struct source *source, int number)
{
	while (running == source && source->number == number)
		pthread_cond_wait(&returned, &lock);
	if (source->number == number)
		end(source);
}

int ky_own_sources_remove(int number)
{
	int err = -ENOENT;

	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < KYMO_SOURCES_MAX && number > 0; i++) {
		if (sources[i].number != number || !sources[i].is_open || sources[i].is_removed)
			continue;
		err = 0;
		if (runs_here(&sources[i]))
			sources[i].is_removed = true;
		else
			wait_and_end(&sources[i], number);
		break;
	}
	pthread_mutex_unlock(&lock);
	return err;
}

/* The lock is held, and given up meanwhile. */
static void run(struct source *source, uint64_t now_ns)
{
	uint64_t after_ns;

	running = source;
	runner = pthread_self();
	pthread_mutex_unlock(&lock);
	after_ns = source->about.sample(source->about.ctx, now_ns);
	pthread_mutex_lock(&lock);
	running = NULL;
	if (after_ns < KYMO_SOURCE_INTERVAL_NS_MIN)
		after_ns = KYMO_SOURCE_INTERVAL_NS_MIN;
	source->due_ns = after_ns < KYMO_SOURCE_NEVER - now_ns ? now_ns + after_ns :
								 KYMO_SOURCE_NEVER;
	if (source->is_removed)
		end(source);
	pthread_cond_broadcast(&returned);
}

uint64_t ky_own_sources_step(uint64_t now_ns)
{
	uint64_t next_ns = UINT64_MAX;

	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < KYMO_SOURCES_MAX; i++) {
		struct source *source = &sources[i];

		/* A callback that drains comes back to here: it calls none of them again. */
		if (source->number && source->is_open && !running && source->due_ns <= now_ns)
			run(source, now_ns);
		if (source->number && source->due_ns < next_ns)
			next_ns = source->due_ns;
	}
	pthread_mutex_unlock(&lock);
	return next_ns;
}

void ky_own_sources_end(void)
{
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < KYMO_SOURCES_MAX; i++)
		if (sources[i].number && sources[i].is_open)
			wait_and_end(&sources[i], sources[i].number);
	pthread_mutex_unlock(&lock);
}

void ky_own_sources_forget(void)
{
	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	returned = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
	memset(sources, 0, sizeof(sources));
	running = NULL;
}
