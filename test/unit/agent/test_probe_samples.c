/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What is said of the samples of a set of rings, where perf_event is another one: it refuses what
 * it is told to. */
#include "../../lib/cmocka_all.h"

#include <agent/probe_samples.h>
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

static struct ky_perf the_perf;
static uint32_t open_count, refused_hz[2], sample_count;
static const struct ky_perf *told_perf; /* as it was told to the host */
static uint32_t fds_left;
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

/* ---- a host, and its ring ---- */

static uint64_t rate_of_switches(void *ctx)
{
	assert_non_null(ctx);
	return switches_per_s;
}

static uint32_t left(void *ctx)
{
	assert_non_null(ctx);
	return fds_left;
}

static void keep_open(void *ctx, const struct ky_perf *perf)
{
	assert_non_null(ctx);
	told_perf = perf;
}

struct case_ {
	struct ky_probe_samples probe;
	struct ky_probed_rings rings;
	struct ky_sample_class_head head;
	struct ky_ring_header image;
	struct ky_probed_ring ring;
};

static struct case_ *make_case(void)
{
	static struct case_ the_case;
	struct case_ *c = &the_case;

	memset(c, 0, sizeof(*c));
	open_count = 0;
	refused_hz[0] = refused_hz[1] = 0;
	switches_per_s = 0;
	sample_count = 1;
	c->ring = (struct ky_probed_ring){.pid = 7,
					  .image = (const uint8_t *)&c->image,
					  .image_bytes = sizeof(c->image),
					  .cpu = {.head = &c->head, .slot_count = 1}};
	return c;
}

/* Many processes, from outside: the events are there before the ring comes. */
static struct case_ *open_case(void)
{
	struct case_ *c = make_case();
	const struct ky_probe_samples_options options = {.rings = &c->rings,
							 .how = {.rate_hz = 99},
							 .switches_per_s = rate_of_switches,
							 .ctx = c};

	ky_probe_samples_init(&c->probe, &options);
	assert_int_equal(ky_probe_samples_test(&c->probe), 0);
	assert_int_equal(ky_probe_samples_start(&c->probe, 7), 0);
	assert_true(ky_probed_rings_add(&c->rings, &c->ring));
	ky_probe_samples_describe(&c->probe, &c->ring);
	(void)ky_probe_samples_step(&c->probe);
	return c;
}

/* One process, by itself: its ring asks for the events. */
static struct case_ *open_own_case(void)
{
	struct case_ *c = make_case();
	const struct ky_probe_samples_options options = {.rings = &c->rings,
							 .opens_by_itself = true,
							 .is_refusal_final = true,
							 .switches_per_s = rate_of_switches,
							 .fds_left = left,
							 .has_opened = keep_open,
							 .ctx = c};

	fds_left = 10;
	ky_probe_samples_init(&c->probe, &options);
	assert_true(ky_probed_rings_add(&c->rings, &c->ring));
	c->rings.last = &c->ring;
	return c;
}

static void close_case(struct case_ *c)
{
	ky_probed_rings_remove(&c->rings, &c->ring);
	ky_probe_samples_close(&c->probe);
	assert_int_equal(open_count, 0);
	assert_null(told_perf);
}

static void want(struct case_ *c, uint32_t rate_hz)
{
	c->ring.wanted_hz = rate_hz;
	(void)ky_probe_samples_step(&c->probe);
	(void)ky_probe_samples_step(&c->probe);
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
	uint64_t now_ns;

	(void)state;
	assert_int_equal(put_period_ns, 1000);
	switches_per_s = 10000000;
	while (!the_perf.is_paused)
		(void)ky_probe_samples_step(&c->probe);
	assert_true(put_period_ns > 10000);
	assert_in_range(atomic_load(&c->head.share_ppm), 1, 999999);
	now_ns = ky_now_ns(CLOCK_MONOTONIC);
	assert_true(ky_probe_samples_step(&c->probe) < now_ns + UINT64_C(3000000000));
	while (the_perf.is_paused)
		(void)ky_probe_samples_step(&c->probe);
	/* A pause that is asked for ends the windows. */
	want(c, OFF);
	assert_true(the_perf.is_paused);
	want(c, 0);
	assert_false(the_perf.is_paused);
	assert_int_equal(put_period_ns, 1000);
	assert_int_equal(atomic_load(&c->head.share_ppm), 0);
	close_case(c);
}

static void own__ring_opens_the_events_and_the_host_is_told(void **state)
{
	struct case_ *c = open_own_case();

	(void)state;
	want(c, OFF);
	assert_int_equal(open_count, 0);
	want(c, 99);
	assert_ptr_equal(told_perf, &the_perf);
	assert_int_equal(c->probe.how.fds_max, 10);
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
	assert_int_equal(c->probe.refusal, -EMFILE);
	assert_int_equal(refusal_of(c), EMFILE);
	want(c, 250);
	assert_int_equal(open_count, 0);
	assert_int_equal(ky_probe_samples_step(&c->probe), UINT64_MAX);
	close_case(c);
	c = open_own_case();
	fds_left = 0;
	want(c, 99);
	assert_int_equal(refusal_of(c), EMFILE);
	assert_int_equal(atomic_load(&c->head.source), 0);
	close_case(c);
}

/* What is lost before the first sample is nobody's among many rings, and the ring's that is alone.
 */
static void lost__samples_before_the_first_one(void **state)
{
	struct case_ *c = open_own_case();

	(void)state;
	sample_count = 0;
	want(c, 99);
	the_perf.lost = 4;
	ky_probe_samples_fetch(&c->probe);
	assert_int_equal(atomic_load(&c->head.lost_count), 4);
	close_case(c);
	c = open_case();
	c->rings.last = NULL;
	sample_count = 0;
	the_perf.lost = 4;
	ky_probe_samples_fetch(&c->probe);
	assert_int_equal(atomic_load(&c->head.lost_count), 0);
	close_case(c);
}

static void between__reads_once_it_is_due(void **state)
{
	struct case_ *c = open_case();

	(void)state;
	put_period_ns = 0;
	c->probe.due_ns = UINT64_MAX;
	ky_probe_samples_between(&c->probe);
	assert_int_equal(put_period_ns, 0);
	c->probe.due_ns = 0;
	ky_probe_samples_between(&c->probe);
	assert_int_equal(put_period_ns, 1000);
	assert_in_range(c->probe.due_ns, 1, UINT64_MAX - 1);
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
		cmocka_unit_test(own__ring_opens_the_events_and_the_host_is_told),
		cmocka_unit_test(own__refusal_is_final),
		cmocka_unit_test(lost__samples_before_the_first_one),
		cmocka_unit_test(between__reads_once_it_is_due),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
