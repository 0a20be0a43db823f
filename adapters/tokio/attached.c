/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* attached.c - the library's end of the talk with `kymo attach`; include/kymo/attach.h says how. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "preload.h"

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

static void act(struct kymo_attach_block *block)
{
	static atomic_flag is_busy = ATOMIC_FLAG_INIT;

	if (atomic_flag_test_and_set_explicit(&is_busy, memory_order_acquire)) {
		say(block, KYMO_E_AGAIN, "refused another kymo attach or detach is at work in it");
		return;
	}
	if (block->action == KYMO_ATTACH_START)
		block->result = ky_preload_start(block);
	else if (block->action == KYMO_ATTACH_STOP)
		block->result = ky_preload_stop(block);
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
