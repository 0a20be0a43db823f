/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <base/testpoint.h>
#include <ring/ring_settings.h>
#include <ring/ring_view.h>
#include <errno.h>
#include <kymo/emit.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct ky_ring_control control;
static struct ky_open_ring ring;
static struct ky_setting_changes changes;
static char why[KY_FOUND_WHY_BYTES];

static int reset(void **state)
{
	(void)state;
	memset(&control, 0, sizeof(control));
	memset(&changes, 0, sizeof(changes));
	atomic_store(&control.gates, KYMO_GATES_DEFAULT);
	ring.control = &control;
	return 0;
}

static void set(const char *text)
{
	assert_int_equal(ky_settings_parse(&changes, text, why), 0);
}

static void refuse(const char *text, const char *part)
{
	size_t before = changes.count;

	assert_int_equal(ky_settings_parse(&changes, text, why), -EINVAL);
	assert_int_equal(changes.count, before);
	assert_non_null(strstr(why, part));
}

static uint64_t before(const char *name)
{
	size_t i;

	for (i = 0; i < changes.count; i++)
		if (strcmp(ky_setting_name(changes.changes[i].setting), name) == 0)
			return changes.changes[i].before;
	fail_msg("%s was not set", name);
	return 0;
}

static void ring_settings__several_are_written_in_one_generation(void **state)
{
	struct ky_ring_settings *words = &control.settings;

	(void)state;
	set("wake=off");
	set("waker-clone=on");
	set("poll.threshold=1.5ms");
	set("wake.threshold=200us");
	set("blocking.threshold=1s");
	set("span.threshold=2s");
	set("wake.throttle=1000/s");
	set("custom.throttle=7");
	set("mode=flight");
	assert_int_equal(ky_settings_apply(&ring, &changes), 0);
	assert_int_equal(atomic_load(&control.gates),
			 (KYMO_GATES_DEFAULT | KYMO_GATE_WAKER_CLONE) & ~(uint32_t)KYMO_GATE_WAKE);
	assert_int_equal(atomic_load(&words->poll_threshold_ns), 1500000);
	assert_int_equal(atomic_load(&words->wake_threshold_ns), 200000);
	assert_int_equal(atomic_load(&words->blocking_threshold_ns), 1000000000);
	assert_int_equal(atomic_load(&words->span_threshold_ns), 2000000000);
	assert_int_equal(atomic_load(&words->throttle[KY_RETAIN_WAKE]), 1000);
	assert_int_equal(atomic_load(&words->throttle[KY_RETAIN_CUSTOM]), 7);
	assert_int_equal(atomic_load(&words->mode), KY_RING_MODE_FLIGHT);
	assert_int_equal(atomic_load(&words->generation), 2);
	assert_int_equal(atomic_load(&control.bell), 1);
	assert_int_equal(before("wake"), 1);
	assert_int_equal(before("waker_clone"), 0);
	assert_int_equal(before("mode"), KY_RING_MODE_AS_OPENED);
}

static void ring_settings__gates_alone_leave_the_settings_alone(void **state)
{
	(void)state;
	set("poll=off");
	assert_int_equal(ky_settings_apply(&ring, &changes), 0);
	assert_int_equal(atomic_load(&control.gates), KYMO_GATES_DEFAULT & ~1u);
	assert_int_equal(atomic_load(&control.settings.generation), 0);
	assert_int_equal(atomic_load(&control.bell), 0);
}

static void ring_settings__off_and_default_are_different_words(void **state)
{
	char text[KY_SETTING_TEXT_BYTES];

	(void)state;
	set("poll.threshold=off");
	set("wake.threshold=default");
	set("poll.throttle=off");
	set("wake.throttle=default");
	assert_int_equal(ky_settings_apply(&ring, &changes), 0);
	assert_int_equal(atomic_load(&control.settings.poll_threshold_ns), 1);
	assert_int_equal(atomic_load(&control.settings.wake_threshold_ns), 0);
	assert_int_equal(atomic_load(&control.settings.throttle[KY_RETAIN_POLL]), UINT32_MAX);
	assert_int_equal(atomic_load(&control.settings.throttle[KY_RETAIN_WAKE]), 0);
	assert_string_equal(ky_setting_text(text, changes.changes[0].setting, 1), "off");
	assert_string_equal(ky_setting_text(text, changes.changes[0].setting, 0), "default");
	assert_string_equal(ky_setting_text(text, changes.changes[0].setting, 1500000), "1.5ms");
	assert_string_equal(ky_setting_text(text, changes.changes[2].setting, UINT32_MAX), "off");
	assert_string_equal(ky_setting_text(text, changes.changes[2].setting, 1000), "1000/s");
}

static void ring_settings__sampling_is_a_rate_or_off(void **state)
{
	char text[KY_SETTING_TEXT_BYTES];

	(void)state;
	set("sampling=off");
	assert_int_equal(ky_settings_apply(&ring, &changes), 0);
	assert_int_equal(atomic_load(&control.settings.sample_hz), UINT32_MAX);
	changes.count = 0;
	set("sampling=99");
	assert_int_equal(ky_settings_apply(&ring, &changes), 0);
	assert_int_equal(atomic_load(&control.settings.sample_hz), 99);
	assert_int_equal(changes.changes[0].before, UINT32_MAX);
	assert_string_equal(ky_setting_text(text, changes.changes[0].setting, UINT32_MAX), "off");
	assert_string_equal(ky_setting_text(text, changes.changes[0].setting, 99), "99");
	changes.count = 0;
	set("sampling=default");
	assert_int_equal(ky_settings_apply(&ring, &changes), 0);
	assert_int_equal(atomic_load(&control.settings.sample_hz), 0);
}

static void ring_settings__allocations_are_a_gate_and_a_size(void **state)
{
	char text[KY_SETTING_TEXT_BYTES];

	(void)state;
	set("alloc=on");
	set("alloc.bytes=64K");
	assert_int_equal(ky_settings_apply(&ring, &changes), 0);
	assert_int_equal(atomic_load(&control.gates), KYMO_GATES_DEFAULT | KYMO_GATE_ALLOC);
	assert_int_equal(atomic_load(&control.settings.alloc_bytes), 64u << 10);
	assert_string_equal(ky_setting_text(text, changes.changes[1].setting, 64u << 10), "64K");
	assert_string_equal(ky_setting_text(text, changes.changes[1].setting, 0), "default");
	changes.count = 0;
	set("alloc.bytes=default");
	assert_int_equal(ky_settings_apply(&ring, &changes), 0);
	assert_int_equal(atomic_load(&control.settings.alloc_bytes), 0);
	assert_int_equal(changes.changes[0].before, 64u << 10);
}

static void ring_settings__resources_are_an_interval_or_off(void **state)
{
	char text[KY_SETTING_TEXT_BYTES];

	(void)state;
	set("resources=off");
	assert_int_equal(ky_settings_apply(&ring, &changes), 0);
	assert_int_equal(atomic_load(&control.settings.resource_ms), UINT32_MAX);
	changes.count = 0;
	set("resources=5s");
	assert_int_equal(ky_settings_apply(&ring, &changes), 0);
	assert_int_equal(atomic_load(&control.settings.resource_ms), 5000);
	assert_string_equal(ky_setting_text(text, changes.changes[0].setting, UINT32_MAX), "off");
	assert_string_equal(ky_setting_text(text, changes.changes[0].setting, 5000), "5s");
	changes.count = 0;
	set("resources=default");
	assert_int_equal(ky_settings_apply(&ring, &changes), 0);
	assert_int_equal(atomic_load(&control.settings.resource_ms), 0);
	changes.count = 0;
	refuse("resources=10ms", "a time from 1s to 1h");
}

static void ring_settings__texts_are_what_the_syntax_takes(void **state)
{
	static const char *const texts[] = {
		"poll=off",
		"recording=off",
		"mode=stream",
		"poll.threshold=1h",
		"wake.threshold=90s",
		"span.threshold=1.000000001s",
		"wake.throttle=1000/s",
		"sampling=199",
		"alloc.bytes=3M",
		"resources=1h",
		"park.throttle=off",
		"blocking.threshold=1234567ns",
	};
	char text[KY_SETTING_TEXT_BYTES], again[KY_SETTING_TEXT_BYTES + 64];
	size_t count = sizeof(texts) / sizeof(texts[0]);
	struct ky_setting_changes other = {.count = 0};

	(void)state;
	for (size_t i = 0; i < count; i++)
		set(texts[i]);
	for (size_t i = 0; i < count; i++) {
		const struct ky_setting_change *one = &changes.changes[i];

		(void)snprintf(again, sizeof(again), "%s=%s", ky_setting_name(one->setting),
			       ky_setting_text(text, one->setting, one->value));
		assert_int_equal(ky_settings_parse(&other, again, why), 0);
		assert_true(other.changes[i].value == one->value);
	}
}

static void ring_settings__mistakes_are_reported_with_the_right_form(void **state)
{
	(void)state;
	refuse("wake", "KEY=VALUE");
	refuse("wke=off", "did you mean 'wake'");
	refuse("wke=off", "blocking.throttle");
	refuse("=off", "there is no setting ''");
	refuse("wake=of", "on or off");
	refuse("wake=", "on or off");
	refuse("poll.threshold=fast", "1ms");
	refuse("poll.threshold=-1ms", "1ms");
	refuse("poll.threshold=@5", "1ms");
	refuse("wake.throttle=-1", "1000/s");
	refuse("wake.throttle=0", "1000/s");
	refuse("wake.throttle=4294967295", "1000/s");
	refuse("wake.throttle=10/m", "1000/s");
	refuse("mode=both", "stream, flight or default");
	refuse("sampling=0", "samples a second, 1 to 1000, or off or default");
	refuse("sampling=1001", "1 to 1000");
	refuse("sampling=on", "1 to 1000");
	refuse("alloc=64K", "on or off");
	refuse("alloc.bytes=off", "a size from 1K to 1G, or default");
	refuse("alloc.bytes=2G", "a size from 1K to 1G");
	set("wake=off");
	refuse("wake=on", "twice");
}

static void ring_settings__reading_has_all_settings(void **state)
{
	(void)state;
	atomic_store(&control.settings.throttle[KY_RETAIN_PARK], 5);
	ky_settings_read(&control, &changes);
	assert_int_equal(changes.count, 33);
	assert_int_equal(before("recording"), 0); /* it continues */
	assert_int_equal(before("resources"), 0);
	assert_int_equal(before("sampling"), 0);
	assert_int_equal(before("park.throttle"), 5);
	assert_int_equal(before("poll"), 1);
	assert_int_equal(before("waker_clone"), 0);
}

static void ring_settings__writer_that_died_in_the_middle_is_succeeded(void **state)
{
	(void)state;
	atomic_store(&control.settings.generation, 7);
	set("mode=stream");
	assert_int_equal(ky_settings_apply(&ring, &changes), 0);
	assert_int_equal(atomic_load(&control.settings.generation), 10);
	assert_int_equal(atomic_load(&control.settings.mode), KY_RING_MODE_STREAM);
}

/* Steps in at the so many-th value that is written. */
static int intrude_at;
static void (*intrude)(void);

void ky_testpoint(const char *name)
{
	if (strcmp(name, "settings.writing") == 0 && intrude_at > 0 && --intrude_at == 0)
		intrude();
}

static void assert_thresholds(uint64_t poll_ns, uint64_t wake_ns)
{
	assert_int_equal(atomic_load(&control.settings.poll_threshold_ns), poll_ns);
	assert_int_equal(atomic_load(&control.settings.wake_threshold_ns), wake_ns);
}

#define S UINT64_C(1000000000)

/* It finds what the one before left whole, and has written nothing of its own into it. */
static void see_the_successor(void)
{
	assert_int_equal(atomic_load(&control.settings.generation) % 2, 1);
	assert_thresholds(3 * S, 4 * S);
}

static void succeed(void)
{
	struct ky_setting_changes other = {.count = 0};

	assert_int_equal(ky_settings_parse(&other, "poll.threshold=3s", why), 0);
	assert_int_equal(ky_settings_parse(&other, "wake.threshold=4s", why), 0);
	assert_int_equal(ky_settings_apply(&ring, &other), 0);
	assert_thresholds(3 * S, 4 * S);
	assert_int_equal(atomic_load(&control.settings.generation) % 2, 0);
	intrude = see_the_successor;
	intrude_at = 1;
}

/* Stopped in the middle, taken for dead, and continued. */
static void ring_settings__writer_that_was_succeeded_begins_anew(void **state)
{
	struct ky_ring_view view = {.control = &control};
	struct ky_ring_wish wish = {.generation = 0};

	(void)state;
	set("poll.threshold=1s");
	set("wake.threshold=2s");
	intrude = succeed;
	intrude_at = 2;
	assert_int_equal(ky_settings_apply(&ring, &changes), 0);
	assert_int_equal(intrude_at, 0);
	assert_thresholds(1 * S, 2 * S);
	assert_int_equal(before("poll.threshold"), 0);
	assert_true(ky_ring_view_settings(&view, &wish));
	assert_int_equal(wish.poll_threshold_ns, 1 * S);
	ky_settings_read(&control, &changes);
	assert_false(changes.is_unfinished);
}

static void read_half(void)
{
	ky_settings_read(&control, &changes);
	assert_true(changes.is_unfinished);
}

static void ring_settings__half_written_settings_are_reported(void **state)
{
	struct ky_setting_changes other = {.count = 0};

	(void)state;
	assert_int_equal(ky_settings_parse(&other, "mode=stream", why), 0);
	intrude = read_half;
	intrude_at = 1;
	assert_int_equal(ky_settings_apply(&ring, &other), 0);
	assert_int_equal(intrude_at, 0);
}

#define ROUNDS 2000

/* Both values are the same number, or a reader took half a state for a whole one. */
static void *write_pairs(void *ctx)
{
	struct ky_setting_changes mine = {.count = 0};
	char text[KY_FOUND_WHY_BYTES];
	uint64_t i;

	assert_int_equal(ky_settings_parse(&mine, "poll.threshold=1s", text), 0);
	assert_int_equal(ky_settings_parse(&mine, "wake.threshold=1s", text), 0);
	for (i = 0; i < ROUNDS; i++) {
		mine.changes[0].value = mine.changes[1].value = *(const uint64_t *)ctx + i;
		(void)ky_settings_apply(&ring, &mine);
	}
	return NULL;
}

static void ring_settings__readers_never_see_two_writers_mixed(void **state)
{
	static const uint64_t bases[2] = {1000000, 2000000};
	struct ky_ring_view view = {.control = &control};
	struct ky_ring_wish wish = {.generation = 0};
	pthread_t writers[2];
	uint32_t seen = 0;
	int i;

	(void)state;
	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&writers[i], NULL, write_pairs,
						(void *)(uintptr_t)&bases[i]),
				 0);
	while (atomic_load(&control.settings.generation) < 4 * ROUNDS)
		if (ky_ring_view_settings(&view, &wish)) {
			assert_int_equal(wish.poll_threshold_ns, wish.wake_threshold_ns);
			seen++;
		}
	for (i = 0; i < 2; i++)
		pthread_join(writers[i], NULL);
	/* More where the machine stopped one of them for so long that it was succeeded. */
	assert_true(atomic_load(&control.settings.generation) >= 4 * ROUNDS);
	assert_int_equal(atomic_load(&control.settings.generation) % 2, 0);
	assert_true(ky_ring_view_settings(&view, &wish) || seen > 0);
	assert_int_equal(wish.poll_threshold_ns, wish.wake_threshold_ns);
}

/* Closed gates are no sign: recording stops and continues with them as they are. */
static void ring_settings__recording_stops_with_any_gates(void **state)
{
	struct ky_ring_settings *words = &control.settings;

	(void)state;
	atomic_store(&control.gates, 0);
	atomic_store(&words->sample_hz, 99);
	set("recording=off");
	assert_int_equal(ky_settings_apply(&ring, &changes), 0);
	assert_int_equal(before("recording"), 0);
	assert_int_equal(ky_settings_sample_hz(words), KY_SETTING_OFF);
	changes.count = 0;
	set("poll=on");
	set("recording=off");
	assert_int_equal(ky_settings_apply(&ring, &changes), 0);
	assert_int_equal(before("recording"), 1);
	assert_int_equal(atomic_load(&control.gates), 0);
	changes.count = 0;
	set("poll=off");
	assert_int_equal(ky_settings_apply(&ring, &changes), 0);
	assert_int_equal(ky_settings_sample_hz(words), KY_SETTING_OFF);
	changes.count = 0;
	set("wake=on");
	set("recording=on");
	assert_int_equal(ky_settings_apply(&ring, &changes), 0);
	assert_int_equal(atomic_load(&control.gates), KYMO_GATE_WAKE);
	assert_int_equal(ky_settings_sample_hz(words), 99);
}

#define TEST(name) cmocka_unit_test_setup(name, reset)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ring_settings__several_are_written_in_one_generation),
		TEST(ring_settings__gates_alone_leave_the_settings_alone),
		TEST(ring_settings__off_and_default_are_different_words),
		TEST(ring_settings__sampling_is_a_rate_or_off),
		TEST(ring_settings__allocations_are_a_gate_and_a_size),
		TEST(ring_settings__resources_are_an_interval_or_off),
		TEST(ring_settings__texts_are_what_the_syntax_takes),
		TEST(ring_settings__mistakes_are_reported_with_the_right_form),
		TEST(ring_settings__reading_has_all_settings),
		TEST(ring_settings__writer_that_died_in_the_middle_is_succeeded),
		TEST(ring_settings__recording_stops_with_any_gates),
		TEST(ring_settings__writer_that_was_succeeded_begins_anew),
		TEST(ring_settings__half_written_settings_are_reported),
		TEST(ring_settings__readers_never_see_two_writers_mixed),
	};

	return cmocka_run_group_tests_name("ring_settings", tests, NULL, NULL);
}
