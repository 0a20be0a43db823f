/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* attached.c - the library's end of the talk with `kymo attach`; include/kymo/attach.h says how. */
#include <kymo/attach.h>
#include <kymo/emit.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "preload.h"
#include "running.h"
#include "search.h"

static uint32_t wait_answer(struct kymo_attach_block *block, uint32_t known)
{
	const struct timespec pause = {(time_t)block->pause[0], (long)block->pause[1]};
	uint32_t answer = known;

	for (uint32_t i = 0; i < block->reads_max && answer == known; i++) {
		answer = __atomic_load_n(&block->answer, __ATOMIC_ACQUIRE);
		if (answer == known)
			nanosleep(&pause, NULL);
	}
	return answer;
}

static void say(struct kymo_attach_block *block, int result, const char *text)
{
	block->result = result;
	snprintf(block->text, sizeof(block->text), "%s\n", text);
}

static int open_recorder(const struct kymo_attach_block *block)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	int result;

	options.service = block->service[0] ? block->service : NULL;
	options.ring_directory = block->ring_directory[0] ? block->ring_directory : NULL;
	/* At once: `kymo attach` waits for the result, and this thread may do everything. */
	options.flags = KYMO_RECORDER_NO_DRAIN | KYMO_RECORDER_EAGER;
	if (block->is_streaming)
		options.flags |= KYMO_RECORDER_STREAM;
	options.gates = block->gates;
	options.sample_hz = block->sample_hz ? block->sample_hz : KYMO_SAMPLE_OFF;
	options.ring_bytes = block->ring_bytes;
	options.session = block->session;
	result = kymo_recorder_open(&ky_preload_recorder, &options);
	if (result == 0) {
		ky_tokio_search_describe();
		(void)kymo_metadata_set("tokio.attached", "true");
	}
	return result;
}

static int start(const struct kymo_attach_block *block, const struct ky_tokio_answer *answer)
{
	int result = ky_tokio_running_find(answer);

	if (result < 0)
		return result;
	result = open_recorder(block);
	if (result < 0) {
		ky_tokio_running_forget();
		return ky_tokio_say(answer, result,
				    "refused the recorder could not be opened: %s\n",
				    kymo_error_text(result));
	}
	result = ky_tokio_running_begin(answer);
	if (result < 0)
		kymo_recorder_close(ky_preload_recorder);
	return result;
}

static int stop(const struct ky_tokio_answer *answer)
{
	int result = ky_tokio_running_end(answer);

	if (result < 0)
		return result;
	/* What polls that are under way record now is counted as dropped in memory that is theirs
	 * alone. */
	result = kymo_recorder_close(ky_preload_recorder);
	ky_preload_recorder = NULL;
	return result;
}

static void act(struct kymo_attach_block *block)
{
	static atomic_flag is_busy = ATOMIC_FLAG_INIT;
	const struct ky_tokio_answer answer = {block->text, sizeof(block->text)};

	if (atomic_flag_test_and_set_explicit(&is_busy, memory_order_acquire)) {
		say(block, KYMO_E_AGAIN, "refused another kymo attach or detach is at work in it");
		return;
	}
	if (block->action == KYMO_ATTACH_START)
		block->result = start(block, &answer);
	else if (block->action == KYMO_ATTACH_STOP)
		block->result = stop(&answer);
	else
		say(block, KYMO_E_VERSION, "refused the action is not known");
	atomic_flag_clear_explicit(&is_busy, memory_order_release);
}

void kymo_attach(struct kymo_attach_block *block)
{
	uint32_t answer = KYMO_ATTACH_NO_ANSWER;

	pthread_setname_np(pthread_self(), "kymo-attach");
	if (block->version != KYMO_ATTACH_VERSION) {
		say(block, KYMO_E_VERSION,
		    "refused the library in it is of another version than this kymo");
	} else {
		__atomic_store_n(&block->state, KYMO_ATTACH_READY, __ATOMIC_RELEASE);
		answer = wait_answer(block, KYMO_ATTACH_NO_ANSWER);
		if (answer != KYMO_ATTACH_GO)
			return;
		act(block);
	}
	__atomic_store_n(&block->state, KYMO_ATTACH_DONE, __ATOMIC_RELEASE);
	(void)wait_answer(block, answer);
}
