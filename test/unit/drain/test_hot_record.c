/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The hot way of frequent records against the careful one: the same ring is drained twice, the
 * second time under a policy that holds nothing back but keeps the drain off the hot way. What the
 * records became must be the same, event by event. */
#include "../../lib/drain_case.h"
#include "../../lib/prng.h"

#define THREADS_MAX 12u
#define TASKS 40u
#define NAMES 3u

struct load {
	struct drain_case c;
	struct test_prng random;
	uint32_t thread_count;
	struct test_writer writers[THREADS_MAX];
	uint32_t depth[THREADS_MAX];
	uint64_t at[THREADS_MAX], task_base;
	uint32_t names[NAMES];
};

static uint32_t below(struct load *load, uint32_t limit)
{
	return test_below(&load->random, limit);
}

/* Now and then several threads write at one moment, or none does for long. */
static uint64_t later(struct load *load, uint32_t i)
{
	uint32_t dice = below(load, 1000);
	uint64_t longest = 0;

	for (uint32_t k = 0; k < load->thread_count; k++)
		if (load->at[k] > longest)
			longest = load->at[k];
	if (dice < 100 && longest > load->at[i])
		return load->at[i] = longest;
	if (dice == 999)
		return load->at[i] += 1200 * MS;
	if (dice > 995)
		return load->at[i] += 17 * MS;
	return load->at[i] += 10 + below(load, 3000);
}

static void emit(struct load *load, uint32_t i, uint32_t type, uint32_t arg, uint64_t a)
{
	test_emit(&load->writers[i], later(load, i), type, arg, 1, a, 0, 0);
}

static void poll_or_end(struct load *load, uint32_t i)
{
	struct test_writer *w = &load->writers[i];
	uint64_t task = load->task_base + below(load, TASKS);
	uint32_t name = below(load, 20) ? load->names[below(load, NAMES)] : 0;

	if (load->depth[i] && below(load, 20)) {
		load->depth[i]--;
		test_poll_end(w, later(load, i),
			      below(load, 30) == 0 ? KYMO_POLL_READY :
			      below(load, 3) == 0  ? KYMO_POLL_SELF_WAKE :
						     0);
		return;
	}
	if (load->depth[i] == 3)
		return;
	load->depth[i]++;
	test_poll(w, later(load, i), task, name);
}

static void one_record(struct load *load, uint32_t i)
{
	uint64_t word = kymo_task_word(load->task_base + below(load, TASKS), 0);
	uint32_t dice = below(load, 100);

	if (dice < 60)
		poll_or_end(load, i);
	else if (dice < 85)
		emit(load, i, KYMO_RECORD_WAKE, below(load, 2) ? KYMO_WAKE_ON_DRIVER : 0, word);
	else if (dice < 89)
		test_emit(&load->writers[i], later(load, i), KYMO_RECORD_PARK,
			  below(load, 4) | below(load, 0x4000) << KYMO_PARK_TIMEOUT_SHIFT, 0, 0, 0,
			  0);
	else if (dice < 93)
		test_emit(&load->writers[i], later(load, i), KYMO_RECORD_UNPARK,
			  below(load, 4) ? below(load, 300) : 0xffffu, 0, 0, 0, 0);
	else if (dice < 96)
		emit(load, i, KYMO_RECORD_SPAWN, 0,
		     kymo_task_word(load->task_base + below(load, TASKS), load->names[0]));
	else if (dice < 97)
		emit(load, i, KYMO_RECORD_PARKED_ON, 0, 0x1000 * below(load, 3));
	else if (dice < 98)
		emit(load, i, KYMO_RECORD_DRIVER_TURN, below(load, 9), 2500);
	else
		emit(load, i, KYMO_RECORD_WAIT, KYMO_WAIT_FUTEX, 2500);
}

static void drain_load(struct load *load, uint64_t seed, const struct ky_retain_policy *policy)
{
	uint32_t steps = 12, records = 4000;
	uint64_t now = T0;

	memset(load, 0, sizeof(*load));
	load->random.state = seed;
	load->thread_count = 1 + below(load, THREADS_MAX);
	load->task_base = seed % 3 ? 3 : 3000000;
	case_open(&load->c, 1024);
	load->c.options.retain = policy;
	case_start(&load->c);
	load->names[0] = test_ring_name(&load->c.ring, "app::a", 0, 0);
	load->names[1] = test_ring_name(&load->c.ring, "app::b", 0, 0);
	load->names[2] = test_ring_name(&load->c.ring, "app::c", 0, 2);
	for (uint32_t i = 0; i < load->thread_count; i++) {
		test_writer_open(&load->writers[i], &load->c.ring, 501 + i, T0);
		if (i % 4 < 3) /* the others are no workers */
			test_worker(&load->writers[i], T0, 100 + i, 0x1000, 0x2000 + i);
		load->at[i] = T0 + i;
	}
	while (steps--) {
		for (uint32_t k = 0; k < records; k++)
			one_record(load, below(load, load->thread_count));
		for (uint32_t i = 0; i < load->thread_count; i++)
			if (load->at[i] > now)
				now = load->at[i];
		if (steps)
			case_step(&load->c, now + below(load, 3) * MS);
		if (steps == 6) /* the next one begins with every task as it is now */
			assert_int_equal(ky_drain_seal(load->c.drain), 0);
		now = load->c.ring.now_ns;
	}
	case_finish(&load->c, now + 10 * MS);
}

/* Of what a record became, and not of what a chunk or the policy adds. */
static bool is_of_a_record(const struct test_event *event)
{
	switch (event->event) {
	case KY_EV_POLL_START:
	case KY_EV_POLL_END:
	case KY_EV_WAKE:
	case KY_EV_WORKER_PARK:
	case KY_EV_WORKER_UNPARK:
	case KY_EV_TASK_FIRST_SEEN:
	case KY_EV_TASK_TERMINATE:
	case KY_EV_NESTED_POLL_START:
	case KY_EV_NESTED_POLL_END:
	case KY_EV_LIVE_TASK:
		return true;
	default:
		return false;
	}
}

static const struct test_event *next_of(const struct test_sink *sink, size_t *at)
{
	while (*at < sink->event_count) {
		const struct test_event *event = &sink->events[(*at)++];

		if (is_of_a_record(event))
			return event;
	}
	return NULL;
}

static void assert_same(const struct test_event *hot, const struct test_event *careful)
{
	assert_int_equal(hot->event, careful->event);
	assert_int_equal(hot->ns, careful->ns);
	for (uint32_t i = 0; i < TEST_FIELDS_MAX; i++) {
		assert_int_equal(hot->text_bytes[i], careful->text_bytes[i]);
		if (hot->text_bytes[i]) /* a pooled one: its number is its chunk's */
			assert_memory_equal(hot->text[i], careful->text[i], hot->text_bytes[i]);
		else
			assert_int_equal(hot->number[i], careful->number[i]);
	}
}

static void assert_chunks_are_bounded(const struct test_sink *sink)
{
	for (size_t i = 0; i < sink->chunk_count; i++) {
		const struct test_chunk *chunk = &sink->chunks[i];

		assert_true(chunk->last_ns - chunk->first_ns < KY_CHUNK_SPAN_MAX_NS);
		assert_in_range(chunk->events, 1, KY_CHUNK_EVENTS_MAX);
		assert_in_range(chunk->bytes, 1, KY_CHUNK_BYTES_MAX);
	}
}

static void hot__records_become_the_events_of_the_general_path(void **state)
{
	static struct load hot, careful;
	struct ky_retain_policy policy = {0};

	(void)state;
	policy.rules[KY_RETAIN_MARK].throttle = 1000000; /* there are none */
	for (uint64_t seed = 1; seed <= 12; seed++) {
		size_t at = 0, careful_at = 0, count = 0;
		struct ky_drain_stats stats, careful_stats;
		const struct test_event *event;

		drain_load(&hot, seed, NULL);
		drain_load(&careful, seed, &policy);
		while ((event = next_of(&hot.c.sink, &at)) != NULL) {
			const struct test_event *other = next_of(&careful.c.sink, &careful_at);

			assert_non_null(other);
			assert_same(event, other);
			count++;
		}
		assert_null(next_of(&careful.c.sink, &careful_at));
		assert_true(count > KY_CHUNK_EVENTS_MAX);
		assert_chunks_are_bounded(&hot.c.sink);
		ky_drain_stats(hot.c.drain, &stats);
		ky_drain_stats(careful.c.drain, &careful_stats);
		assert_int_equal(stats.records_read, careful_stats.records_read);
		assert_int_equal(stats.records_late, careful_stats.records_late);
		assert_int_equal(stats.records_lost, 0);
		assert_int_equal(stats.tasks_alive, careful_stats.tasks_alive);
		case_close(&hot.c);
		case_close(&careful.c);
	}
}

/* Nothing but polls in one step: no other record brings the careful way in. */
static void polls_alone(uint64_t distance_ns, uint32_t count)
{
	struct drain_case c;
	struct test_writer w;
	uint32_t name;

	case_begin(&c, &w, 256);
	name = test_ring_name(&c.ring, "app::a", 0, 0);
	test_worker(&w, T0, 3, 0x1000, 0x2000);
	for (uint32_t i = 0; i < count; i++) {
		test_poll(&w, T0 + (2 * i + 1) * distance_ns, 7, name);
		test_poll_end(&w, T0 + (2 * i + 2) * distance_ns, 0);
	}
	case_finish(&c, T0 + (2 * count + 3) * distance_ns);
	assert_int_equal(COUNT(&c, POLL_END), count);
	assert_true(c.sink.chunk_count > 2);
	assert_chunks_are_bounded(&c.sink);
	case_close(&c);
}

static void hot__records_alone_fill_no_chunk_beyond_its_bounds(void **state)
{
	(void)state;
	polls_alone(1000, 20000);
	polls_alone(1 * MS, 3000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hot__records_become_the_events_of_the_general_path),
		cmocka_unit_test(hot__records_alone_fill_no_chunk_beyond_its_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
