/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <cli/profile.h>
#include <errno.h>
#include <kymo/emit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int parse(struct ky_profile *profile, const char *text, char *why)
{
	why[0] = '\0';
	return ky_profile_parse(profile, "my.toml", text, strlen(text), why);
}

static bool has_setting(const struct ky_profile *profile, const char *setting)
{
	for (size_t i = 0; i < profile->setting_count; i++)
		if (strcmp(profile->settings[i], setting) == 0)
			return true;
	return false;
}

static void profile__reads_every_key(void **state)
{
	static const char text[] = "description = \"mine\"\n"
				   "triggers = [\"poll>100ms cooldown=5m\", \"rss>512M for 60s\"]\n"
				   "[ring]\n"
				   "bytes = \"64M\"\n"
				   "[events]\n"
				   "poll = { threshold = \"1ms\", throttle = \"1000/s\" }\n"
				   "wake.threshold = \"500us\" # and a comment\n"
				   "park.throttle = 20\n"
				   "blocking = { threshold = \"0.01s\" }\n"
				   "offcpu = { stacks = false }\n"
				   "waker_clone.enabled = true\n"
				   "span = { threshold = \"20ms\", throttle = \"50/s\" }\n"
				   "spawn.enabled = false\n";
	char why[KY_PROFILE_WHY_BYTES];
	static struct ky_profile profile;

	(void)state;
	assert_int_equal(parse(&profile, text, why), 0);
	assert_int_equal(profile.ring_bytes, 64u << 20);
	assert_int_equal(profile.retain.rules[KY_RETAIN_POLL].threshold_ns, 1000000);
	assert_int_equal(profile.retain.rules[KY_RETAIN_POLL].throttle, 1000);
	assert_int_equal(profile.retain.rules[KY_RETAIN_WAKE].threshold_ns, 500000);
	assert_int_equal(profile.retain.rules[KY_RETAIN_PARK].throttle, 20);
	assert_int_equal(profile.retain.rules[KY_RETAIN_BLOCKING].threshold_ns, 10000000);
	assert_int_equal(profile.retain.rules[KY_RETAIN_SPAN].threshold_ns, 20000000);
	assert_int_equal(profile.retain.rules[KY_RETAIN_SPAN].throttle, 50);
	assert_int_equal(profile.gates_set, KYMO_GATE_WAKER_CLONE);
	assert_int_equal(profile.gates_clear, KYMO_GATE_SPAWN | KYMO_GATE_OFF_CPU_STACK);
	assert_int_equal(profile.rule_count, 2);
	assert_int_equal(profile.rules[0].kind, KY_RULE_POLL);
	assert_int_equal(profile.rules[1].kind, KY_RULE_RSS);
	assert_int_equal(profile.setting_count, 10);
	assert_true(has_setting(&profile, "poll.threshold=1ms"));
	assert_true(has_setting(&profile, "park.throttle=20"));
	assert_true(has_setting(&profile, "spawn=off"));
}

static void profile__allocations_are_asked_for_in_two_ways(void **state)
{
	char why[KY_PROFILE_WHY_BYTES];
	static struct ky_profile profile;

	(void)state;
	assert_int_equal(parse(&profile, "[events]\nalloc.enabled = true\n", why), 0);
	assert_int_equal(profile.gates_set, KYMO_GATE_ALLOC);
	assert_int_equal(profile.alloc_bytes, 512u << 10);
	assert_int_equal(parse(&profile, "[sampling]\nalloc_bytes = \"64K\"\n", why), 0);
	assert_int_equal(profile.gates_set, KYMO_GATE_ALLOC);
	assert_int_equal(profile.alloc_bytes, 64u << 10);
	assert_true(has_setting(&profile, "alloc=on"));
	assert_true(has_setting(&profile, "alloc.bytes=64K"));
	assert_int_equal(parse(&profile, "[sampling]\nalloc_bytes = \"off\"\n", why), 0);
	assert_int_equal(profile.gates_clear, KYMO_GATE_ALLOC);
	assert_int_equal(profile.alloc_bytes, 0);
}

static void profile__says_file_line_key_and_what_is_allowed(void **state)
{
	static const struct {
		const char *text, *sentence;
	} wrong[] = {
		{"[events.poll]\nenabled = true\ntreshold = \"1ms\"\n",
		 "my.toml:3: events.poll.treshold: there is no such key (did you mean "
		 "'threshold'?); allowed: enabled, threshold, throttle"},
		{"[events.spawn]\nthreshold = \"1ms\"\n",
		 "my.toml:2: events.spawn.threshold: there is no such key; allowed: enabled"},
		{"[events.polls]\nenabled = true\n",
		 "allowed: poll, wake, park, spawn, driver, blocking, waker_clone, mark, custom"},
		{"\n\n[rings]\nbytes = 5\n",
		 "my.toml:4: rings.bytes: there is no such key (did you mean 'ring.bytes'?); "
		 "allowed: description, ring.bytes, sampling.cpu_hz, sampling.alloc_bytes, "
		 "resources.interval, events, triggers"},
		{"[sampling]\nalloc_bytes = \"512\"\n",
		 "my.toml:2: sampling.alloc_bytes: expected a size from \"1K\" to \"1G\", or "
		 "\"off\", not 512"},
		{"[resources]\ninterval = \"10ms\"\n",
		 "my.toml:2: resources.interval: expected a time from \"1s\" to \"1h\", or "
		 "\"off\", not 10ms"},
		{"[sampling]\ncpu_hz = 0\n",
		 "my.toml:2: sampling.cpu_hz: expected samples a second, 1 to 1000, or \"off\", "
		 "not 0"},
		{"[events]\npoll.threshold = 5\n",
		 "my.toml:2: events.poll.threshold: expected a time in quotes, as \"1ms\", or "
		 "\"off\", not 5"},
		{"[events]\npoll.threshold = \"fast\"\n",
		 "my.toml:2: events.poll.threshold: expected a time, as \"1ms\", or \"off\", not "
		 "\"fast\""},
		{"[events]\npoll.throttle = 0\n",
		 "my.toml:2: events.poll.throttle: expected events a second, as \"1000/s\", or "
		 "\"off\", not 0"},
		{"[events]\npoll.enabled = \"yes\"\n",
		 "my.toml:2: events.poll.enabled: expected true or false, not yes"},
		{"ring.bytes = \"7\"\n",
		 "my.toml:1: ring.bytes: expected a size from \"128K\" to \"4G\", not 7"},
	};
	char why[KY_PROFILE_WHY_BYTES];
	static struct ky_profile profile;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(parse(&profile, wrong[i].text, why), -EINVAL);
		if (i == 2) /* the nearest of the kinds is offered, too */
			assert_non_null(strstr(why, wrong[i].sentence));
		else
			assert_string_equal(why, wrong[i].sentence);
	}
}

static void profile__quotes_the_rule_that_is_wrong(void **state)
{
	char why[KY_PROFILE_WHY_BYTES];
	static struct ky_profile profile;

	(void)state;
	assert_int_equal(parse(&profile, "triggers = [\n\"poll>1ms\",\n\"pol>1ms\"]\n", why),
			 -EINVAL);
	assert_non_null(strstr(why, "my.toml:3: triggers[1]: "));
	assert_non_null(strstr(why, "pol"));
	assert_int_equal(parse(&profile, "triggers = [5]\n", why), -EINVAL);
	assert_non_null(strstr(why, "expected a rule in quotes"));
}

static void profile__reports_where_it_is_no_toml(void **state)
{
	static const char *const wrong[] = {"[events\n", "a = \n", "\n\nb = 1\nb = 2\n",
					    "a = \"\xff\"\n", "x = 1979-13-01\n"};
	static const int lines[] = {1, 1, 4, 1, 1};
	char why[KY_PROFILE_WHY_BYTES], expected[64];
	static struct ky_profile profile;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(parse(&profile, wrong[i], why), -EINVAL);
		(void)snprintf(expected, sizeof(expected), "my.toml:%d: no TOML: ", lines[i]);
		assert_non_null(strstr(why, expected));
	}
}

static void profile__takes_an_empty_document_as_no_settings(void **state)
{
	static const char *const empty[] = {"", "# only a comment\n", "[events.poll]\n[ring]\n",
					    "triggers = []\n"};
	static struct ky_profile profile;
	char why[KY_PROFILE_WHY_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(empty) / sizeof(empty[0]); i++) {
		assert_int_equal(parse(&profile, empty[i], why), 0);
		assert_int_equal(profile.setting_count, 0);
		assert_int_equal(profile.rule_count, 0);
	}
}

/* Whatever the parser may do with it, it ends and says something. */
static void profile__survives_bytes_that_are_no_profile(void **state)
{
	char why[KY_PROFILE_WHY_BYTES], text[65];
	static struct ky_profile profile;
	uint32_t random = 1;

	(void)state;
	for (uint32_t round = 0; round < 2000; round++) {
		for (size_t i = 0; i < 64; i++) {
			random = random * 1664525u + 1013904223u;
			text[i] = "[]{}=.\"'\n #a1-t\\,:_\x01"[random >> 24 & 15];
		}
		why[0] = '\0';
		if (ky_profile_parse(&profile, "x", text, 64, why) != 0)
			assert_true(why[0] != '\0');
	}
}

static void profile__three_come_with_the_program(void **state)
{
	static const char *const names[] = {"default", "profile", "everything"};
	char why[KY_PROFILE_WHY_BYTES] = "";
	static struct ky_profile profile;

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(ky_profile_load(&profile, names[i], why), 0);
		assert_string_equal(why, "");
		assert_true(profile.setting_count > 5);
		assert_string_equal(profile.name, names[i]);
		assert_int_equal(profile.retain.rules[KY_RETAIN_POLL].threshold_ns,
				 i == 1 ? 1000000 : 0);
	}
	assert_int_equal(ky_profile_load(&profile, "fastest", why), -ENOENT);
	assert_non_null(strstr(why, "default, everything, profile"));
	assert_int_equal(ky_profile_load(&profile, "/dev/null", why), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(profile__reads_every_key),
		cmocka_unit_test(profile__allocations_are_asked_for_in_two_ways),
		cmocka_unit_test(profile__says_file_line_key_and_what_is_allowed),
		cmocka_unit_test(profile__quotes_the_rule_that_is_wrong),
		cmocka_unit_test(profile__reports_where_it_is_no_toml),
		cmocka_unit_test(profile__takes_an_empty_document_as_no_settings),
		cmocka_unit_test(profile__survives_bytes_that_are_no_profile),
		cmocka_unit_test(profile__three_come_with_the_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
