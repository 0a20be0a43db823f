/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Bytes as the text of trigger rules.
 * Promises: a rule that is taken is written as text that parses to the same rule and is written the
 *           same again; a refusal is one line of printable text and takes nothing; every value has
 *           a text that fits. */
#include "fuzz_target.h"

#include <errno.h>
#include <watch/rule.h>
#include <string.h>

static void check_rule(const struct ky_rule *rule)
{
	struct ky_rule again[1];
	char text[512], second[512], value[64];
	size_t count = 0, bytes = ky_rule_format(rule, text, sizeof(text));

	memset(again, 0, sizeof(again));
	FUZZ_CHECK(bytes == strlen(text) && bytes < sizeof(text) - 1);
	FUZZ_CHECK(ky_rules_parse(again, &count, text, NULL, 0) == 0 && count == 1);
	FUZZ_CHECK(again->kind == rule->kind && again->threshold == rule->threshold);
	FUZZ_CHECK(again->duration_ns == rule->duration_ns && again->after_ns == rule->after_ns);
	FUZZ_CHECK(again->cooldown_ns == rule->cooldown_ns && again->last_ns == rule->last_ns);
	FUZZ_CHECK(strcmp(again->counter, rule->counter) == 0);
	FUZZ_CHECK(strcmp(again->name, rule->name) == 0);
	ky_rule_format(again, second, sizeof(second));
	FUZZ_CHECK(strcmp(text, second) == 0);
	bytes = ky_rule_value_text(rule, rule->threshold, value, sizeof(value));
	FUZZ_CHECK(bytes && bytes == strlen(value) && bytes < sizeof(value) - 1);
}

static void check_refusal(const char *text)
{
	size_t bytes = strlen(text);

	FUZZ_CHECK(bytes);
	for (size_t i = 0; i < bytes; i++)
		FUZZ_CHECK(text[i] >= ' ' && text[i] <= '~');
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	static struct ky_rule rules[KY_RULES_MAX];
	char *text = malloc(count + 1), errbuf[256];
	size_t made = 0;
	int err;

	FUZZ_CHECK(text);
	if (count)
		memcpy(text, bytes, count);
	text[count] = 0;
	err = ky_rules_parse(rules, &made, text, errbuf, sizeof(errbuf));
	FUZZ_CHECK(err == 0 || err == -EINVAL);
	FUZZ_CHECK(made <= KY_RULES_MAX && (err == 0 || made == 0));
	for (size_t i = 0; i < made; i++)
		check_rule(&rules[i]);
	if (err)
		check_refusal(errbuf);
	free(text);
	return 0;
}
