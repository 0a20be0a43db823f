/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Rules as text: what is understood, what is refused with which sentence, and that a rule survives
 * being written and read. */
#include "../../lib/cmocka_all.h"
#include "../../lib/prng.h"

#include <errno.h>
#include <watch/rule.h>
#include <stdio.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define S (1000 * MS)

static struct ky_rule rules[KY_RULES_MAX];
static char errbuf[300], text[400];

static size_t parse(const char *from)
{
	size_t count = 0;

	if (ky_rules_parse(rules, &count, from, errbuf, sizeof(errbuf)) != 0)
		fail_msg("refused: %s", errbuf);
	assert_string_equal(errbuf, "");
	return count;
}

static void refused(const char *from, const char *sentence)
{
	size_t count = 1;

	assert_int_equal(ky_rules_parse(rules, &count, from, errbuf, sizeof(errbuf)), -EINVAL);
	assert_string_equal(errbuf, sentence);
	assert_int_equal(count, 1);
	assert_int_equal(ky_rules_parse(rules, &count, from, NULL, 0), -EINVAL);
}

static void parse__every_kind_has_its_unit(void **state)
{
	static const struct {
		const char *from;
		enum ky_rule_kind kind;
		uint64_t threshold, duration_ns;
		const char *unit;
	} cases[] = {
		{"poll>100ms", KY_RULE_POLL, 100 * MS, 0, "ns"},
		{"wake > 1.5s", KY_RULE_WAKE, 1500 * MS, 0, "ns"},
		{"queue>1000 for 5s", KY_RULE_QUEUE, 1000, 5 * S, "tasks"},
		{"stall>2s", KY_RULE_STALL, 2 * S, 0, "ns"},
		{"runnable>50ms", KY_RULE_RUNNABLE, 50 * MS, S, "ns"},
		{"cpu>90% for 10s", KY_RULE_CPU, 90, 10 * S, "percent"},
		{"throttled>0%", KY_RULE_THROTTLED, 0, 0, "percent"},
		{"rss>512M", KY_RULE_RSS, 512u << 20, 60 * S, "bytes"},
		{"rss>0.5G for 1m", KY_RULE_RSS, 512u << 20, 60 * S, "bytes"},
		{"tasks>20000", KY_RULE_TASKS, 20000, 0, "tasks"},
		{"counter:orders.failed>7", KY_RULE_COUNTER, 7, 0, ""},
		{"span>10us", KY_RULE_SPAN, 10000, 0, "ns"},
		{"errors>10/s for 1h", KY_RULE_ERRORS, 10, 3600 * S, "errors/s"},
		{"tasks>18446744073709551615", KY_RULE_TASKS, UINT64_MAX, 0, "tasks"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_int_equal(parse(cases[i].from), 1);
		assert_int_equal(rules->kind, cases[i].kind);
		assert_int_equal(rules->threshold, cases[i].threshold);
		assert_int_equal(rules->duration_ns, cases[i].duration_ns);
		assert_string_equal(ky_rule_unit(rules), cases[i].unit);
		assert_int_equal(rules->cooldown_ns, 60 * S);
		assert_int_equal(rules->after_ns, 0);
		assert_int_equal(rules->last_ns, 0);
	}
}

static void parse__pairs_come_in_any_order(void **state)
{
	(void)state;
	parse("poll>1s name=\"slow polls\" last=30s after=5s cooldown=10m");
	assert_string_equal(rules->name, "slow polls");
	assert_int_equal(rules->last_ns, 30 * S);
	assert_int_equal(rules->after_ns, 5 * S);
	assert_int_equal(rules->cooldown_ns, 600 * S);
	parse("poll>1s cooldown=0s last=all");
	assert_int_equal(rules->cooldown_ns, 0);
	assert_int_equal(rules->last_ns, 0);
}

static void parse__several_rules_and_comments(void **state)
{
	(void)state;
	assert_int_equal(parse(" poll>1s; cpu>90%\n\n# nothing; here\n"
			       "counter:\"jobs; waiting\">5 # why\r\n;; span>1ms;"),
			 4);
	assert_int_equal(rules[1].kind, KY_RULE_CPU);
	assert_string_equal(rules[2].counter, "jobs; waiting");
	assert_string_equal(rules[2].name, "counter:\"jobs; waiting\">5");
	assert_int_equal(rules[3].kind, KY_RULE_SPAN);
	assert_int_equal(parse(" \n;# \n"), 0);
}

static void parse__appends_up_to_the_limit(void **state)
{
	size_t count = 0;

	(void)state;
	for (uint32_t i = 0; i < KY_RULES_MAX; i++)
		assert_int_equal(ky_rules_parse(rules, &count, "poll>1s", NULL, 0), 0);
	assert_int_equal(count, KY_RULES_MAX);
	assert_int_equal(ky_rules_parse(rules, &count, "span>1s", errbuf, sizeof(errbuf)), -EINVAL);
	assert_string_equal(errbuf, "trigger rule: \"span\" is one rule too many: 32 are the most");
}

static void parse__names_the_wrong_word(void **state)
{
	(void)state;
	refused("pol>1s", "trigger rule: \"pol\" is nothing to watch; there are poll, wake, queue, "
			  "stall, runnable, cpu, throttled, rss, tasks, counter:NAME, span, "
			  "errors");
	refused("poll>100", "trigger rule: \"100\" is not a time with its unit: 100ms, 1.5s, 10m");
	refused("poll>=1s", "trigger rule: \">=\" stands where \">\" should: poll>VALUE");
	refused("poll 1s", "trigger rule: \"\" stands where \">\" should: poll>VALUE");
	refused("poll>0ms", "trigger rule: \"0ms\" is always exceeded");
	refused("poll>1s for 2s", "trigger rule: \"for\" has no place here: the value of poll is a "
				  "time already");
	refused("cpu>90", "trigger rule: \"90\" is not percent: 90%");
	refused("cpu>90.5%", "trigger rule: \"90.5%\" is no whole number of its smallest unit");
	refused("queue>1k", "trigger rule: \"1k\" is not a number");
	refused("rss>1Z", "trigger rule: \"1Z\" is not bytes: 512M, 2G");
	refused("rss>1M for 0s", "trigger rule: \"0s\" is too short for rss");
	refused("errors>10", "trigger rule: \"10\" is not a number a second: 10/s");
	refused("tasks>18446744073709551616",
		"trigger rule: \"18446744073709551616\" is too large");
	refused("tasks>99999999999999999999999999999999999999999999999",
		"trigger rule: \"9999999999999999999999999999999999999999...\" is too large");
	refused("poll>9000h", "trigger rule: \"9000h\" is too large");
	refused("counter>5", "trigger rule: \"counter\" lacks the name: counter:NAME");
	refused("counter:>5", "trigger rule: \"\" stands where a name should");
	refused("tasks:x>5", "trigger rule: \"tasks:x\" takes no name");
	refused("poll>1s name=\"x", "trigger rule: \"x\" lacks its closing quote");
	refused("poll>1s name=\xff", "trigger rule: \"?\" is not UTF-8");
	refused("poll>1s name=a name=b", "trigger rule: \"name\" stands twice in one rule");
	refused("poll>1s colour=red", "trigger rule: \"colour\" is not understood; after the value "
				      "come for TIME, cooldown=, after=, last=, name=");
	refused("poll>1s name=123456789012345678901234567890123456789012345678",
		"trigger rule: \"1234567890123456789012345678901234567890...\" is a name of more "
		"than 47 bytes");
}

static void format__is_the_shortest_text(void **state)
{
	static const char *const same[] = {
		"poll>100ms",
		"queue>1000 for 5s cooldown=10m",
		"cpu>90% for 10s",
		"rss>512M for 61s",
		"errors>10/s",
		"counter:\"jobs waiting\">500 name=\"too many jobs\"",
		"span>1500us after=5s last=30s",
		"throttled>0%",
		"poll>1s cooldown=0ns",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(same) / sizeof(*same); i++) {
		parse(same[i]);
		assert_int_equal(ky_rule_format(rules, text, sizeof(text)), strlen(same[i]));
		assert_string_equal(text, same[i]);
	}
	parse("rss>536870912 for 60s cooldown=60000ms last=0s");
	ky_rule_format(rules, text, sizeof(text));
	assert_string_equal(text, "rss>512M");
	assert_string_equal(rules->name, "rss>512M");
	assert_int_equal(ky_rule_format(rules, text, 5), 4);
	assert_string_equal(text, "rss>");
	assert_int_equal(ky_rule_format(rules, text, 0), 0);
}

static void random_text(struct test_prng *prng, char *out)
{
	static const char *const pieces[] = {"a", "Z",    "0", " ",        ";",
					     "#", "=",    ">", "\xc3\xa9", "\xe2\x82\xac",
					     ".", "name", "'", "%"};
	uint32_t wanted = 1 + test_below(prng, KY_RULE_NAME_BYTES - 1);

	out[0] = 0;
	for (size_t used = 0; used < wanted;) {
		const char *piece = pieces[test_below(prng, sizeof(pieces) / sizeof(*pieces))];

		if (used + strlen(piece) >= KY_RULE_NAME_BYTES)
			break;
		memcpy(out + used, piece, strlen(piece) + 1);
		used += strlen(piece);
	}
}

static uint64_t random_time(struct test_prng *prng)
{
	return test_random_length(prng) % (366u * 24 * 3600 * S);
}

/* Through the text and back, for rules of every kind with every field at random. */
static void format__parses_to_the_same_rule(void **state)
{
	struct test_prng prng = {4};

	(void)state;
	for (int round = 0; round < 20000; round++) {
		struct ky_rule rule;
		bool is_time;

		parse("poll>1s");
		rule = *rules;
		rule.kind = (enum ky_rule_kind)(1 + test_below(&prng, KY_RULE_ERRORS));
		is_time = strcmp(ky_rule_unit(&rule), "ns") == 0;
		rule.threshold = is_time ? 1 + random_time(&prng) : test_random_length(&prng);
		rule.cooldown_ns = random_time(&prng);
		rule.after_ns = test_below(&prng, 2) ? random_time(&prng) : 0;
		rule.last_ns = test_below(&prng, 2) ? random_time(&prng) : 0;
		if (!is_time || rule.kind == KY_RULE_RUNNABLE)
			rule.duration_ns = 1 + random_time(&prng);
		if (rule.kind == KY_RULE_COUNTER)
			random_text(&prng, rule.counter);
		memset(rule.name, 0, sizeof(rule.name));
		random_text(&prng, rule.name);
		ky_rule_format(&rule, text, sizeof(text));
		assert_int_equal(parse(text), 1);
		assert_memory_equal(rules, &rule, offsetof(struct ky_rule, counter));
		assert_string_equal(rules->counter, rule.counter);
		assert_string_equal(rules->name, rule.name);
	}
}

static void value__reads_well(void **state)
{
	static const struct {
		const char *rule;
		uint64_t value;
		const char *text;
	} cases[] = {
		{"poll>1s", 152 * MS, "152 ms"},
		{"poll>1s", 1520 * MS, "1.52 s"},
		{"poll>1s", 152400 * 1000, "152 ms"},
		{"poll>1s", 15240 * 1000, "15.2 ms"},
		{"wake>1s", 999, "999 ns"},
		{"wake>1s", 1500, "1.50 us"},
		{"stall>1s", 3 * S, "3 s"},
		{"span>1s", 125 * S, "2 min 5 s"},
		{"tasks>1", 1204, "1,204 tasks"},
		{"queue>1", 1, "1 task"},
		{"cpu>1%", 94, "94 %"},
		{"rss>1", 512u << 20, "512 MiB"},
		{"rss>1", 1000, "1000 B"},
		{"rss>1", 1536, "1.50 KiB"},
		{"errors>1/s", 12, "12 errors/s"},
		{"counter:x>1", UINT64_MAX, "18,446,744,073,709,551,615"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		parse(cases[i].rule);
		ky_rule_value_text(rules, cases[i].value, text, sizeof(text));
		assert_string_equal(text, cases[i].text);
	}
	assert_int_equal(ky_rule_value_text(rules, 1000, text, 3), 2);
	assert_string_equal(text, "1,");
}

static void events__are_needed_only_where_the_ring_lacks_the_value(void **state)
{
	(void)state;
	parse("poll>1s; stall>1s; runnable>1s; cpu>1%; throttled>1%; rss>1; counter:x>1; "
	      "errors>1/s");
	for (int i = 0; i < 8; i++)
		assert_false(ky_rule_needs_events(&rules[i]));
	parse("wake>1s; queue>1; tasks>1; span>1s");
	for (int i = 0; i < 4; i++)
		assert_true(ky_rule_needs_events(&rules[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parse__every_kind_has_its_unit),
		cmocka_unit_test(parse__pairs_come_in_any_order),
		cmocka_unit_test(parse__several_rules_and_comments),
		cmocka_unit_test(parse__appends_up_to_the_limit),
		cmocka_unit_test(parse__names_the_wrong_word),
		cmocka_unit_test(format__is_the_shortest_text),
		cmocka_unit_test(format__parses_to_the_same_rule),
		cmocka_unit_test(value__reads_well),
		cmocka_unit_test(events__are_needed_only_where_the_ring_lacks_the_value),
	};

	return cmocka_run_group_tests_name("rule", tests, NULL, NULL);
}
