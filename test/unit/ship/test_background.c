/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The thread between drain and store. The sink waits at a gate of the test, so that what is in the
 * queue at each moment is known. */
#include "../../lib/alloc_fail.h"
#include "../../lib/cmocka_all.h"

#include <errno.h>
#include <pthread.h>
#include <ship/background.h>
#include <string.h>

#define SEEN_MAX 64

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint32_t allowed; /* chunks that may pass */
	uint32_t entered;
	uint8_t seen[SEEN_MAX];
	uint32_t seen_count;
	uint64_t refuse; /* bit n: chunk n is refused */
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static struct ky_background *background;

static int sink(void *ctx, const struct ky_chunk *chunk)
{
	uint8_t name = chunk->bytes[0];
	int err;

	(void)ctx;
	pthread_mutex_lock(&gate.lock);
	gate.entered++;
	pthread_cond_broadcast(&gate.changed);
	while (gate.entered > gate.allowed)
		pthread_cond_wait(&gate.changed, &gate.lock);
	err = gate.refuse >> name & 1 ? -ENOSPC : 0;
	if (!err && gate.seen_count < SEEN_MAX)
		gate.seen[gate.seen_count++] = name;
	pthread_mutex_unlock(&gate.lock);
	return err;
}

static void allow(uint32_t count)
{
	pthread_mutex_lock(&gate.lock);
	gate.allowed = count;
	pthread_cond_broadcast(&gate.changed);
	pthread_mutex_unlock(&gate.lock);
}

static void await_entered(uint32_t count)
{
	pthread_mutex_lock(&gate.lock);
	while (gate.entered < count)
		pthread_cond_wait(&gate.changed, &gate.lock);
	pthread_mutex_unlock(&gate.lock);
}

static int claim_index(uint8_t name, bool is_start)
{
	uint8_t bytes[100] = {name};
	struct ky_chunk chunk = {.bytes = bytes,
				 .byte_count = sizeof(bytes),
				 .event_count = 10,
				 .record_count = 8,
				 .reported_loss_count = 1,
				 .first_ns = name * 1000u,
				 .last_ns = name * 1000u + 999,
				 .is_segment_start = is_start};

	return ky_background_chunk(background, &chunk);
}

static int open_background(void **state)
{
	(void)state;
	gate.allowed = UINT32_MAX;
	gate.entered = gate.seen_count = 0;
	gate.refuse = 0;
	return ky_background_open(&background, sink, NULL, 1000);
}

static int close_background(void **state)
{
	(void)state;
	allow(UINT32_MAX);
	ky_background_close(background);
	return 0;
}

static void check_seen(const char *names)
{
	ky_background_wait(background);
	assert_int_equal(gate.seen_count, strlen(names));
	for (uint32_t i = 0; i < gate.seen_count; i++)
		assert_int_equal('a' + gate.seen[i], names[i]);
}

static void background__chunks_arrive_in_order(void **state)
{
	(void)state;
	for (uint8_t i = 0; i < 26; i++)
		assert_int_equal(claim_index(i, i == 0), 0);
	check_seen("abcdefghijklmnopqrstuvwxyz");
}

static void background__caller_continues_while_the_sink_works(void **state)
{
	(void)state;
	allow(0);
	assert_int_equal(claim_index(0, true), 0);
	await_entered(1);
	assert_int_equal(claim_index(1, false), 0);
	assert_int_equal(claim_index(2, false), 0);
	assert_int_equal(gate.seen_count, 0);
	allow(UINT32_MAX);
	check_seen("abc");
}

static void *hand_the_eleventh(void *result)
{
	*(int *)result = claim_index(10, false);
	return NULL;
}

static void background__full_queue_makes_the_caller_wait(void **state)
{
	pthread_t other;
	int result = 1;

	(void)state;
	allow(0);
	for (uint8_t i = 0; i < 10; i++)
		assert_int_equal(claim_index(i, i == 0), 0);
	assert_int_equal(pthread_create(&other, NULL, hand_the_eleventh, &result), 0);
	allow(UINT32_MAX);
	assert_int_equal(pthread_join(other, NULL), 0);
	assert_int_equal(result, 0);
	check_seen("abcdefghijk");
}

static void background__close_delivers_what_waits(void **state)
{
	(void)state;
	allow(0);
	for (uint8_t i = 0; i < 5; i++)
		assert_int_equal(claim_index(i, i == 0), 0);
	allow(UINT32_MAX);
	ky_background_close(background);
	assert_int_equal(gate.seen_count, 5);
	assert_int_equal(ky_background_open(&background, sink, NULL, 1000), 0);
}

static void background__refused_chunk_takes_the_rest_of_its_segment(void **state)
{
	struct ky_chunk_loss loss;
	int error = 0;

	(void)state;
	allow(0);
	gate.refuse = 1u << 1;
	assert_int_equal(claim_index(0, true), 0);
	assert_int_equal(claim_index(1, false), 0);
	assert_int_equal(claim_index(2, false), 0);
	assert_int_equal(claim_index(3, true), 0);
	assert_int_equal(claim_index(4, false), 0);
	allow(UINT32_MAX);
	check_seen("ade");
	assert_true(ky_background_take_loss(background, &loss, &error));
	assert_int_equal(error, -ENOSPC);
	assert_int_equal(loss.chunk_count, 2);
	assert_int_equal(loss.event_count, 20);
	assert_int_equal(loss.record_count, 16);
	assert_int_equal(loss.reported_count, 2);
	assert_int_equal(loss.first_ns, 1000);
	assert_int_equal(loss.last_ns, 2999);
	assert_false(ky_background_take_loss(background, &loss, &error));
}

static void background__refusal_is_returned_until_the_caller_begins_anew(void **state)
{
	struct ky_chunk_loss loss;
	int error = 0;

	(void)state;
	gate.refuse = 1u << 0;
	assert_int_equal(claim_index(0, true), 0);
	ky_background_wait(background);
	assert_int_equal(claim_index(1, false), -ENOSPC);
	assert_int_equal(claim_index(2, false), -ENOSPC);
	assert_int_equal(claim_index(3, true), 0);
	assert_int_equal(claim_index(4, false), 0);
	check_seen("de");
	/* What was reported to the caller is its own to count. */
	assert_true(ky_background_take_loss(background, &loss, &error));
	assert_int_equal(loss.chunk_count, 1);
}

static void background__failed_allocations_are_reported(void **state)
{
	struct ky_background *other;

	(void)state;
	test_alloc_fail_at(0);
	assert_int_equal(ky_background_open(&other, sink, NULL, 1000), -ENOMEM);
	assert_null(other);
	test_alloc_fail_at(0);
	assert_int_equal(claim_index(0, true), -ENOMEM);
	test_alloc_normal();
	assert_int_equal(claim_index(1, true), 0);
	check_seen("b");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_background, close_background)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(background__chunks_arrive_in_order),
		TEST(background__caller_continues_while_the_sink_works),
		TEST(background__full_queue_makes_the_caller_wait),
		TEST(background__close_delivers_what_waits),
		TEST(background__refused_chunk_takes_the_rest_of_its_segment),
		TEST(background__refusal_is_returned_until_the_caller_begins_anew),
		TEST(background__failed_allocations_are_reported),
	};

	return cmocka_run_group_tests_name("background", tests, NULL, NULL);
}
