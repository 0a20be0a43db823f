/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What is said of the samples of a set of rings, where perf_event is another one: it refuses what
 * what the test sets. */
#include "../../lib/cmocka_all.h"

#include <agent/cpu_sampler.h>
#include <base/now.h>
#include <errno.h>
#include <probe/perf_walk.h>
#include <string.h>
#include <wire/ring_image.h>

#define OFF UINT32_MAX

struct ky_perf {
	uint32_t rate_hz;
	bool is_paused;
	uint64_t lost, lost_at_end;
};

#define COST_HZ 1000u /* of the events that a switch's cost is tried with */

static struct ky_perf the_perf, cost_perf;
static uint32_t open_count, refused_hz[2], sample_count;
static const struct ky_perf *notified_perf; /* that the caller was notified of */
static uint32_t fds_left;
static uint64_t switches_per_s, counted_per_s, put_period_ns;
static uint32_t left_hz, leave_count; /* to the ring's process */

/* ---- perf_event ---- */

int ky_perf_test(struct ky_perf_options *options)
{
	(void)options;
	return 0;
}

int ky_perf_open(struct ky_perf **out, const struct ky_perf_options *options, pid_t pid)
{
	(void)pid;
	*out = NULL;
	for (int i = 0; i < 2; i++)
		if (options->rate_hz == refused_hz[i])
			return -EMFILE;
	if (options->rate_hz == COST_HZ) {
		cost_perf = (struct ky_perf){.rate_hz = COST_HZ};
		*out = &cost_perf;
		return 0;
	}
	assert_int_equal(open_count++, 0);
	the_perf = (struct ky_perf){.rate_hz = options->rate_hz};
	*out = &the_perf;
	return 0;
}

int ky_perf_add_all(struct ky_perf **perf, const struct ky_perf_options *options, pid_t pid)
{
	return *perf ? 0 : ky_perf_open(perf, options, pid);
}

int ky_perf_pause(struct ky_perf *perf, bool is_paused)
{
	perf->is_paused = is_paused;
	return 0;
}

uint32_t ky_perf_read(struct ky_perf *perf, ky_perf_sample_fn fn, void *ctx)
{
	const struct ky_perf_sample sample = {.pid = 7, .tid = 7, .ns = 100, .period_ns = 1000};

	(void)perf;
	if (sample_count)
		fn(ctx, &sample);
	return sample_count;
}

void ky_perf_count_lost(struct ky_perf *perf)
{
	assert_true(perf->is_paused);
	perf->lost = perf->lost_at_end;
}

void ky_perf_about(const struct ky_perf *perf, struct ky_perf_about *out)
{
	*out = (struct ky_perf_about){.ring_bytes = 1 << 20,
				      .record_bytes = 1 << 15,
				      .cpu_count = 2,
				      .lost_count = perf->lost};
}

uint32_t ky_perf_fds(const struct ky_perf *perf, int *out, uint32_t max)
{
	assert_ptr_equal(perf, &the_perf);
	for (uint32_t i = 0; i < max; i++)
		out[i] = 100 + (int)i;
	return max;
}

void ky_perf_close(struct ky_perf *perf)
{
	if (perf && perf != &cost_perf)
		open_count--;
}

void ky_perf_put(const struct ky_sample_ring *ring, const struct ky_unwind_view *view,
		 const struct ky_perf_sample *sample)
{
	(void)ring;
	(void)view;
	put_period_ns = sample->period_ns;
}

/* To be sampled costs a switch 2 us. */
uint64_t ky_perf_time_sleeps(void)
{
	return cost_perf.is_paused ? 1000 : 9000;
}

/* ---- a caller, and its ring ---- */

static uint64_t rate_of_switches(void *ctx)
{
	assert_non_null(ctx);
	return switches_per_s;
}

static uint64_t counted_switches(void *ctx)
{
	assert_non_null(ctx);
	return counted_per_s;
}

static uint64_t cpu_ns;

static uint64_t used_cpu(void *ctx)
{
	assert_non_null(ctx);
	return cpu_ns;
}

static void leave(void *ctx, struct ky_sampled_ring *ring, uint32_t rate_hz)
{
	assert_non_null(ctx);
	assert_int_equal(ring->pid, 7);
	left_hz = rate_hz;
	leave_count++;
}

static uint32_t left(void *ctx)
{
	assert_non_null(ctx);
	return fds_left;
}

static void keep_open(void *ctx, const struct ky_perf *perf)
{
	assert_non_null(ctx);
	notified_perf = perf;
}

struct case_ {
	struct ky_cpu_sampler sampler;
	struct ky_sampled_rings rings;
	struct ky_sample_class_head head;
	struct ky_ring_header image;
	struct ky_sampled_ring ring;
};

static struct case_ *make_case(void)
{
	static struct case_ the_case;
	struct case_ *c = &the_case;

	memset(c, 0, sizeof(*c));
	open_count = 0;
	refused_hz[0] = refused_hz[1] = 0;
	switches_per_s = counted_per_s = 0;
	left_hz = leave_count = 0;
	sample_count = 1;
	c->ring = (struct ky_sampled_ring){.pid = 7,
					   .image = (const uint8_t *)&c->image,
					   .image_bytes = sizeof(c->image),
					   .cpu = {.head = &c->head, .cell_count = 1}};
	return c;
}

/* Many processes, externally: the events are there before the ring comes. */
static struct case_ *open_case(void)
{
	struct case_ *c = make_case();
	const struct ky_cpu_sampler_options options = {.rings = &c->rings,
						       .how = {.rate_hz = 99},
						       .leave = leave,
						       .counted_switches_per_s = counted_switches,
						       .switches_per_s = rate_of_switches,
						       .ctx = c};

	ky_cpu_sampler_init(&c->sampler, &options);
	assert_int_equal(ky_cpu_sampler_test(&c->sampler), 0);
	assert_int_equal(ky_cpu_sampler_start(&c->sampler, 7), 0);
	assert_true(ky_sampled_rings_add(&c->rings, &c->ring));
	ky_cpu_sampler_describe(&c->sampler, &c->ring);
	(void)ky_cpu_sampler_step(&c->sampler);
	return c;
}

/* One process, by itself: its ring asks for the events. */
static struct case_ *open_own_case(void)
{
	struct case_ *c = make_case();
	const struct ky_cpu_sampler_options options = {.rings = &c->rings,
						       .opens_by_itself = true,
						       .is_refusal_final = true,
						       .switches_per_s = rate_of_switches,
						       .fds_left = left,
						       .has_opened = keep_open,
						       .ctx = c};

	fds_left = 10;
	ky_cpu_sampler_init(&c->sampler, &options);
	assert_true(ky_sampled_rings_add(&c->rings, &c->ring));
	c->rings.last = &c->ring;
	return c;
}

static void close_case(struct case_ *c)
{
	ky_sampled_rings_remove(&c->rings, &c->ring);
	ky_cpu_sampler_close(&c->sampler);
	assert_int_equal(open_count, 0);
	assert_null(notified_perf);
}

static void want(struct case_ *c, uint32_t rate_hz)
{
	c->ring.wanted_hz = rate_hz;
	(void)ky_cpu_sampler_step(&c->sampler);
	(void)ky_cpu_sampler_step(&c->sampler);
}

static uint32_t refusal_of(const struct case_ *c)
{
	return atomic_load(&c->head.refusals[KY_SOURCE_PERF]);
}

/* As if so much time had passed since the last step, and so much CPU time. */
static uint64_t step_later(struct case_ *c, uint64_t past_ns, uint64_t used_ns)
{
	c->sampler.measured_ns -= past_ns;
	cpu_ns += used_ns;
	return ky_cpu_sampler_step(&c->sampler) - ky_now_ns(CLOCK_MONOTONIC);
}

static void processes__that_hardly_run_are_waited_for(void **state)
{
	struct case_ *c = open_case();
	uint64_t second_ns = UINT64_C(1000000000);
	int fds[4];

	(void)state;
	assert_in_range(step_later(c, second_ns, 0), 0, second_ns / 4); /* nobody waits */
	assert_int_equal(ky_cpu_sampler_fds(&c->sampler, fds, 4), 0);
	c->sampler.options.cpu_ns = used_cpu;
	(void)step_later(c, 0, 1);
	assert_in_range(step_later(c, second_ns, second_ns / 1000), second_ns / 2, second_ns);
	assert_int_equal(ky_cpu_sampler_fds(&c->sampler, fds, 4), 2);
	assert_int_equal(fds[1], 101);
	assert_in_range(step_later(c, second_ns, second_ns / 10), 0, second_ns / 4);
	assert_int_equal(ky_cpu_sampler_fds(&c->sampler, fds, 4), 0);
	(void)step_later(c, second_ns, 0);
	assert_int_equal(ky_cpu_sampler_fds(&c->sampler, fds, 1), 0); /* too many */
	assert_in_range(step_later(c, second_ns, 0), 0, second_ns / 4);
	close_case(c);
}

static void rate__wanted_is_set_and_reported(void **state)
{
	struct case_ *c = open_case();

	(void)state;
	want(c, 500);
	assert_int_equal(the_perf.rate_hz, 500);
	assert_int_equal(atomic_load(&c->head.rate_hz), 500);
	want(c, OFF);
	assert_int_equal(atomic_load(&c->head.rate_hz), 0);
	assert_true(the_perf.is_paused);
	want(c, 500);
	assert_int_equal(atomic_load(&c->head.rate_hz), 500);
	assert_false(the_perf.is_paused);
	close_case(c);
}

static void rate__refused_is_not_reported_as_running(void **state)
{
	struct case_ *c = open_case();

	(void)state;
	refused_hz[0] = 500;
	want(c, 500);
	/* The events stay as they were, and the ring has the reason. */
	assert_int_equal(open_count, 1);
	assert_int_equal(the_perf.rate_hz, 99);
	assert_int_equal(atomic_load(&c->head.rate_hz), 99);
	assert_int_equal(refusal_of(c), EMFILE);
	want(c, 250);
	assert_int_equal(atomic_load(&c->head.rate_hz), 250);
	assert_int_equal(refusal_of(c), 0);
	close_case(c);
}

static void rate__is_zero_while_all_events_are_refused(void **state)
{
	struct case_ *c = open_case();

	(void)state;
	refused_hz[0] = 500;
	refused_hz[1] = 99;
	want(c, 500);
	assert_int_equal(open_count, 0);
	assert_int_equal(atomic_load(&c->head.rate_hz), 0);
	assert_int_equal(refusal_of(c), EMFILE);
	/* Not tried again each time, but when it was switched off. */
	refused_hz[0] = 0;
	want(c, 500);
	assert_int_equal(open_count, 0);
	want(c, OFF);
	want(c, 500);
	assert_int_equal(open_count, 1);
	assert_int_equal(atomic_load(&c->head.rate_hz), 500);
	assert_int_equal(refusal_of(c), 0);
	close_case(c);
}

static void lost__samples_are_counted_before_the_events_are_closed(void **state)
{
	struct case_ *c = open_case();

	(void)state;
	the_perf.lost_at_end = 5;
	want(c, 500);
	assert_int_equal(atomic_load(&c->head.lost_count), 5);
	/* Of the new events on its own account. */
	the_perf.lost_at_end = 3;
	want(c, 250);
	assert_int_equal(atomic_load(&c->head.lost_count), 8);
	close_case(c);
}

static void rate__many_switches_are_sampled_in_windows(void **state)
{
	struct case_ *c = open_case();
	uint64_t now_ns;

	(void)state;
	assert_int_equal(put_period_ns, 1000);
	switches_per_s = 10000000;
	while (!the_perf.is_paused)
		(void)ky_cpu_sampler_step(&c->sampler);
	assert_true(put_period_ns > 10000);
	assert_in_range(atomic_load(&c->head.share_ppm), 1, 999999);
	now_ns = ky_now_ns(CLOCK_MONOTONIC);
	assert_true(ky_cpu_sampler_step(&c->sampler) < now_ns + UINT64_C(3000000000));
	while (the_perf.is_paused)
		(void)ky_cpu_sampler_step(&c->sampler);
	/* A pause that is asked for ends the windows. */
	want(c, OFF);
	assert_true(the_perf.is_paused);
	want(c, 0);
	assert_false(the_perf.is_paused);
	assert_int_equal(put_period_ns, 1000);
	assert_int_equal(atomic_load(&c->head.share_ppm), 0);
	close_case(c);
}

static void own__ring_opens_the_events_and_notifies_the_host(void **state)
{
	struct case_ *c = open_own_case();

	(void)state;
	want(c, OFF);
	assert_int_equal(open_count, 0);
	want(c, 99);
	assert_ptr_equal(notified_perf, &the_perf);
	assert_int_equal(c->sampler.how.fds_max, 10);
	assert_int_equal(atomic_load(&c->head.rate_hz), 99);
	assert_true(atomic_load(&c->head.source) & 1u << KY_SOURCE_PERF);
	want(c, 500);
	assert_int_equal(the_perf.rate_hz, 500);
	close_case(c);
}

static void own__refusal_is_final(void **state)
{
	struct case_ *c = open_own_case();

	(void)state;
	want(c, 99);
	refused_hz[0] = 500;
	want(c, 500);
	assert_int_equal(open_count, 0);
	assert_int_equal(c->sampler.refusal, -EMFILE);
	assert_int_equal(refusal_of(c), EMFILE);
	want(c, 250);
	assert_int_equal(open_count, 0);
	assert_int_equal(ky_cpu_sampler_step(&c->sampler), UINT64_MAX);
	close_case(c);
	c = open_own_case();
	fds_left = 0;
	want(c, 99);
	assert_int_equal(refusal_of(c), EMFILE);
	assert_int_equal(atomic_load(&c->head.source), 0);
	close_case(c);
}

/* What is lost before the first sample belongs to no ring among many, and to a ring that is alone.
 */
static void lost__samples_before_the_first_one(void **state)
{
	struct case_ *c = open_own_case();

	(void)state;
	sample_count = 0;
	want(c, 99);
	the_perf.lost = 4;
	ky_cpu_sampler_fetch(&c->sampler);
	assert_int_equal(atomic_load(&c->head.lost_count), 4);
	close_case(c);
	c = open_case();
	c->rings.last = NULL;
	sample_count = 0;
	the_perf.lost = 4;
	ky_cpu_sampler_fetch(&c->sampler);
	assert_int_equal(atomic_load(&c->head.lost_count), 0);
	close_case(c);
}

static void between__reads_once_it_is_due(void **state)
{
	struct case_ *c = open_case();

	(void)state;
	put_period_ns = 0;
	c->sampler.due_ns = UINT64_MAX;
	ky_cpu_sampler_between(&c->sampler);
	assert_int_equal(put_period_ns, 0);
	c->sampler.due_ns = 0;
	ky_cpu_sampler_between(&c->sampler);
	assert_int_equal(put_period_ns, 1000);
	assert_in_range(c->sampler.due_ns, 1, UINT64_MAX - 1);
	close_case(c);
}

/* So many steps, at each of which the choice is judged. */
static void judge(struct case_ *c, uint32_t steps)
{
	for (uint32_t i = 0; i < steps; i++) {
		c->sampler.judged_ns = 0;
		(void)ky_cpu_sampler_step(&c->sampler);
	}
}

/* The process has its timers now, or cannot have them. */
static void answer(struct case_ *c, uint32_t refusal)
{
	if (refusal)
		atomic_store(&c->head.refusals[KY_SOURCE_TIMER], refusal);
	else
		atomic_store(&c->head.now, KY_SOURCE_TIMER);
	(void)ky_cpu_sampler_step(&c->sampler);
}

static struct case_ *open_left_case(void)
{
	struct case_ *c = open_case();

	counted_per_s = 20000;
	judge(c, 3);
	answer(c, 0);
	return c;
}

static void choice__of_frequent_switches_is_the_process_and_no_event(void **state)
{
	struct case_ *c = open_case();

	(void)state;
	assert_int_equal(atomic_load(&c->head.now), KY_SOURCE_PERF);
	judge(c, 20);
	assert_int_equal(leave_count, 0);
	assert_int_equal(atomic_load(&c->head.switch_ns), 0); /* nothing was tried for it */
	counted_per_s = 20000;
	judge(c, 2);
	assert_int_equal(leave_count, 0);
	judge(c, 1);
	assert_int_equal(left_hz, 99);
	/* Until it has begun, the events stay. */
	put_period_ns = 0;
	judge(c, 5);
	assert_int_equal(open_count, 1);
	assert_int_equal(put_period_ns, 1000);
	put_period_ns = 0;
	answer(c, 0);
	assert_int_equal(open_count, 0);
	assert_int_equal(put_period_ns, 0); /* what both saw is counted once */
	assert_int_equal(ky_cpu_sampler_step(&c->sampler), UINT64_MAX);
	/* It is said, and why. */
	assert_int_equal(atomic_load(&c->head.now), KY_SOURCE_TIMER);
	assert_int_equal(atomic_load(&c->head.switches_per_s), 20000);
	assert_int_equal(atomic_load(&c->head.switch_ns), 2000);
	close_case(c);
}

/* Without the events no rate of them is to be set: the timers follow the settings. */
static void choice__of_timers_leaves_the_settings_to_them(void **state)
{
	struct case_ *c = open_left_case();

	(void)state;
	atomic_store(&c->head.rate_hz, 77);
	want(c, 500);
	want(c, OFF);
	assert_int_equal(open_count, 0);
	assert_int_equal(atomic_load(&c->head.rate_hz), 77);
	close_case(c);
}

static void choice__changes_back_where_switches_are_few(void **state)
{
	struct case_ *c = open_left_case();

	(void)state;
	counted_per_s = 200; /* below the line, and not by much */
	judge(c, 10);
	assert_int_equal(open_count, 0);
	counted_per_s = 10;
	judge(c, 3);
	assert_int_equal(open_count, 1);
	assert_false(the_perf.is_paused);
	assert_int_equal(left_hz, 0);
	assert_int_equal(atomic_load(&c->head.now), KY_SOURCE_PERF);
	assert_int_equal(atomic_load(&c->head.rate_hz), 99);
	/* Not to and fro. */
	counted_per_s = 20000;
	judge(c, 10);
	assert_int_equal(open_count, 1);
	c->sampler.settled_ns = 0;
	judge(c, 3);
	assert_int_equal(left_hz, 99);
	close_case(c);
}

/* A process that has a handler for the signal, or may make no timers. */
static void choice__that_a_process_refuses_is_final(void **state)
{
	struct case_ *c = open_case();

	(void)state;
	counted_per_s = 20000;
	judge(c, 3);
	answer(c, EBUSY);
	assert_int_equal(left_hz, 0);
	assert_int_equal(open_count, 1);
	c->sampler.settled_ns = 0;
	judge(c, 10);
	assert_int_equal(leave_count, 2);
	assert_int_equal(open_count, 1);
	close_case(c);
}

/* It may have no timers yet: the events are there for it. */
static void choice__ends_where_another_process_comes(void **state)
{
	struct case_ *c = open_left_case();
	static struct ky_sample_class_head head;
	struct ky_sampled_ring other = {.pid = 7, .cpu = {.head = &head, .cell_count = 1}};

	(void)state;
	assert_true(ky_sampled_rings_add(&c->rings, &other));
	(void)ky_cpu_sampler_step(&c->sampler);
	assert_int_equal(open_count, 1);
	assert_int_equal(left_hz, 0);
	ky_sampled_rings_remove(&c->rings, &other);
	close_case(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(processes__that_hardly_run_are_waited_for),
		cmocka_unit_test(rate__wanted_is_set_and_reported),
		cmocka_unit_test(rate__refused_is_not_reported_as_running),
		cmocka_unit_test(rate__is_zero_while_all_events_are_refused),
		cmocka_unit_test(lost__samples_are_counted_before_the_events_are_closed),
		cmocka_unit_test(rate__many_switches_are_sampled_in_windows),
		cmocka_unit_test(own__ring_opens_the_events_and_notifies_the_host),
		cmocka_unit_test(own__refusal_is_final),
		cmocka_unit_test(lost__samples_before_the_first_one),
		cmocka_unit_test(between__reads_once_it_is_due),
		cmocka_unit_test(choice__of_frequent_switches_is_the_process_and_no_event),
		cmocka_unit_test(choice__of_timers_leaves_the_settings_to_them),
		cmocka_unit_test(choice__changes_back_where_switches_are_few),
		cmocka_unit_test(choice__that_a_process_refuses_is_final),
		cmocka_unit_test(choice__ends_where_another_process_comes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
