/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What `kymo run` says of its samples, where perf_event is another one: it refuses what it is told
 * to. */
#include "../../lib/cmocka_all.h"

#include <agent/probe_samples.h>
#include <errno.h>
#include <probe/perf_source.h>
#include <probe/perf_walk.h>
#include <probe/switch_windows.h>
#include <string.h>

#define OFF UINT32_MAX

struct ky_perf {
	uint32_t rate_hz;
	bool is_paused;
	uint64_t lost, lost_at_end;
};

static struct ky_perf the_perf;
static uint32_t open_count, refused_hz[2];
static uint64_t switches_per_s, put_period_ns;

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
	fn(ctx, &sample);
	return 1;
}

void ky_perf_count_lost(struct ky_perf *perf)
{
	assert_true(perf->is_paused);
	perf->lost = perf->lost_at_end;
}

void ky_perf_about(const struct ky_perf *perf, struct ky_perf_about *out)
{
	*out = (struct ky_perf_about){
		.ring_bytes = 1 << 20, .record_bytes = 1 << 15, .lost_count = perf->lost};
}

void ky_perf_close(struct ky_perf *perf)
{
	if (perf)
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
	return the_perf.is_paused ? 1000 : 9000;
}

/* ---- switches: not wanted ---- */

int ky_switch_windows_open(struct ky_switch_windows **out, const struct ky_perf_options *how,
			   bool can_rest)
{
	(void)can_rest;
	assert_true(how->is_switches);
	*out = NULL;
	return 0;
}

void ky_switch_windows_add_wakes(struct ky_switch_windows *switches, ky_switch_pid_fn pid)
{
	(void)pid;
	assert_null(switches);
}

void ky_switch_windows_close(struct ky_switch_windows *switches)
{
	assert_null(switches);
}

void ky_switch_windows_start(struct ky_switch_windows *switches, pid_t pid)
{
	(void)pid;
	assert_null(switches);
}

void ky_switch_windows_attach(struct ky_switch_windows *switches, pid_t pid)
{
	(void)pid;
	assert_null(switches);
}

void ky_switch_windows_describe(const struct ky_switch_windows *switches,
				struct ky_sample_class_head *head)
{
	(void)head;
	assert_null(switches);
}

uint64_t ky_switch_windows_step(struct ky_switch_windows *switches,
				const struct ky_switch_places *places)
{
	(void)places;
	assert_null(switches);
	return UINT64_MAX;
}

void ky_switch_windows_fetch(struct ky_switch_windows *switches,
			     const struct ky_switch_places *places)
{
	(void)ky_switch_windows_step(switches, places);
}

void ky_switch_windows_tell_gap(const struct ky_switch_windows *switches,
				const struct ky_switch_places *places)
{
	(void)places;
	assert_null(switches);
}

uint64_t ky_switch_windows_rate(const struct ky_switch_windows *switches)
{
	assert_null(switches);
	return switches_per_s;
}

/* ---- a ring ---- */

struct case_ {
	struct ky_sampling_options options;
	struct ky_run_sampler *sampler;
	struct ky_sample_class_head head;
	struct ky_ring_header image;
	uint8_t area[64];
	struct ky_run_sampled sampled;
};

static struct case_ *open_case(void)
{
	static struct case_ the_case;
	struct case_ *c = &the_case;
	struct ky_run_gate gate;

	memset(c, 0, sizeof(*c));
	open_count = 0;
	refused_hz[0] = refused_hz[1] = 0;
	switches_per_s = 0;
	c->options.hz = 99;
	c->options.is_without_switches = true;
	assert_int_equal(ky_run_sampler_open(&c->sampler, &c->options), 0);
	gate = ky_run_sampler_gate(c->sampler, NULL);
	assert_true(gate.parent(gate.ctx, 7));
	c->sampled = (struct ky_run_sampled){
		.pid = 7, .image = (const uint8_t *)&c->image, .image_bytes = sizeof(c->image)};
	/* Without a file it gets no area; this one is ours. */
	ky_run_sampler_add(c->sampler, &c->sampled, -1);
	c->sampled.area = c->area;
	c->sampled.area_bytes = sizeof(c->area);
	c->sampled.cpu = (struct ky_sample_ring){.head = &c->head, .slot_count = 1};
	(void)ky_run_sampler_step(c->sampler);
	return c;
}

static void close_case(struct case_ *c)
{
	c->sampled.area = NULL;
	ky_run_sampler_remove(c->sampler, &c->sampled);
	ky_run_sampler_close(c->sampler);
	assert_int_equal(open_count, 0);
}

static void want(struct case_ *c, uint32_t rate_hz)
{
	c->sampled.wanted_hz = rate_hz;
	(void)ky_run_sampler_step(c->sampler);
	(void)ky_run_sampler_step(c->sampler);
}

static uint32_t refusal_of(const struct case_ *c)
{
	return atomic_load(&c->head.refusals[KY_SOURCE_PERF]);
}

static void rate__that_is_wanted_is_the_events_and_told(void **state)
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

static void rate__that_is_refused_is_not_told_as_if_it_ran(void **state)
{
	struct case_ *c = open_case();

	(void)state;
	refused_hz[0] = 500;
	want(c, 500);
	/* It goes on as it was, and says why. */
	assert_int_equal(open_count, 1);
	assert_int_equal(the_perf.rate_hz, 99);
	assert_int_equal(atomic_load(&c->head.rate_hz), 99);
	assert_int_equal(refusal_of(c), EMFILE);
	want(c, 250);
	assert_int_equal(atomic_load(&c->head.rate_hz), 250);
	assert_int_equal(refusal_of(c), 0);
	close_case(c);
}

static void rate__of_events_that_are_all_refused_is_none_until_they_come(void **state)
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

	(void)state;
	assert_int_equal(put_period_ns, 1000);
	switches_per_s = 10000000;
	while (!the_perf.is_paused)
		(void)ky_run_sampler_step(c->sampler);
	assert_true(put_period_ns > 10000);
	assert_in_range(atomic_load(&c->head.share_ppm), 1, 999999);
	assert_true(ky_run_sampler_step(c->sampler) < UINT64_C(2000000000));
	while (the_perf.is_paused)
		(void)ky_run_sampler_step(c->sampler);
	/* A pause that is asked for ends the windows. */
	want(c, OFF);
	assert_true(the_perf.is_paused);
	want(c, 0);
	assert_false(the_perf.is_paused);
	assert_int_equal(put_period_ns, 1000);
	assert_int_equal(atomic_load(&c->head.share_ppm), 0);
	close_case(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rate__that_is_wanted_is_the_events_and_told),
		cmocka_unit_test(rate__that_is_refused_is_not_told_as_if_it_ran),
		cmocka_unit_test(rate__of_events_that_are_all_refused_is_none_until_they_come),
		cmocka_unit_test(lost__samples_are_counted_before_the_events_are_closed),
		cmocka_unit_test(rate__many_switches_are_sampled_in_windows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
