/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* inside.c - Tokio and the recorder in one program: include/kymo/tokio.h. */
#include <kymo/recorder.h>
#include <kymo/tokio.h>
#include <pthread.h>

#include "hooks.h"
#include "running.h"
#include "runtimes.h"
#include "search.h"

#define TEXT_BYTES 128

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_recording(void)
{
	struct kymo_recorder_status status = {.size = sizeof(status)};

	return kymo_recorder_status(&status) == 0 && status.mode != 0;
}

static int start(const struct ky_tokio_answer *answer)
{
	int result;

	if (!is_recording())
		return ky_tokio_say(answer, KYMO_E_CLOSED, "refused no recorder is open\n");
	ky_tokio_search.is_inside = true;
	result = ky_tokio_running_find(answer);
	if (result < 0)
		return result;
	ky_tokio_search_describe();
	(void)kymo_metadata_set("tokio.inside", "true");
	return ky_tokio_running_begin(answer);
}

int kymo_tokio_start(char *text, size_t text_bytes)
{
	char unread[TEXT_BYTES];
	const struct ky_tokio_answer answer = {text ? text : unread,
					       text ? text_bytes : sizeof(unread)};
	int result;

	pthread_mutex_lock(&lock);
	result = start(&answer);
	pthread_mutex_unlock(&lock);
	return result;
}

int kymo_tokio_stop(void)
{
	char unread[TEXT_BYTES];
	const struct ky_tokio_answer answer = {unread, sizeof(unread)};
	int result;

	pthread_mutex_lock(&lock);
	result = ky_tokio_running_end(&answer);
	pthread_mutex_unlock(&lock);
	return result;
}

int kymo_tokio_runtime_name(const char *name)
{
	uint64_t owner = ky_tokio_current_owner();

	return owner ? ky_tokio_runtime_name(owner, name) : KYMO_E_CLOSED;
}

int kymo_tokio_copy(void)
{
	const struct ky_tokio_thread *self = &ky_tokio_self;
	const struct ky_tokio_table *table = self->depth ? ky_tokio_patched_table(self->current) :
							   NULL;

	return table ? (int)table->copy : KYMO_E_CLOSED;
}

void kymo_tokio_queue_depth(uint32_t depth)
{
	ky_tokio_self.queue_next = (depth < KYMO_QUEUE_UNKNOWN ? depth : KYMO_QUEUE_UNKNOWN - 1) +
				   1;
}

uint64_t kymo_tokio_task(void)
{
	return ky_tokio_current_task();
}
