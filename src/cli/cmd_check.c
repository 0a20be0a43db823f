/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <cli/cli.h>

#include <base/alloc.h>
#include <base/json_write.h>
#include <base/out_text.h>
#include <cli/check_rules.h>
#include <cli/query_run.h>
#include <cli/shared_options.h>
#include <errno.h>
#include <query/query_view.h>
#include <ship/out_file.h>
#include <string.h>
#include <unistd.h>

enum {
	KEY_JUNIT = KY_OPTION_KEY_OWN
};

enum check_result {
	RESULT_HELD,
	RESULT_BROKEN,
	RESULT_MISSING, /* there is no value, and that breaks the rule */
	RESULT_SKIPPED, /* ... and may be so */
	RESULTS
};

static const char *const result_keys[RESULTS] = {"held", "broken", "missing", "skipped"};

struct check_arguments {
	struct ky_query_run run;
	const char *rules_file, *junit;
	struct ky_check_rules rules;
	struct ky_buf xml; /* of all processes */
	uint32_t counts[RESULTS];
};

/* What one rule found. */
struct check_answer {
	uint32_t result;
	double value;
	bool is_whole;
	int64_t whole;
	char text[KY_OUT_CELL_BYTES]; /* the value */
};

static const struct argp_option options[] = {
	{"junit", KEY_JUNIT, "FILE", 0, "Write the results to FILE as JUnit XML, and replace it",
	 0},
	{0},
};

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct check_arguments *arguments = state->input;
	struct ky_input *input = &arguments->run.input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = input;
		state->child_inputs[1] = &arguments->run.names;
		state->child_inputs[2] = &arguments->run.is_json;
		return 0;
	case ARGP_KEY_ARGS:
		arguments->rules_file = state->argv[state->next];
		input->arguments = state->argv + state->next + 1;
		input->argument_count = (size_t)(state->argc - state->next - 1);
		if (!input->argument_count)
			ky_option_error("name a trace file after the rules '%s'",
					arguments->rules_file);
		return 0;
	case ARGP_KEY_NO_ARGS:
		ky_option_error("name a file of rules and a trace file");
		return 0;
	case KEY_JUNIT:
		arguments->junit = text;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* ---- one rule ---- */

/* The rule's file and line before what SQL says of it. */
static int say_wrong(const struct check_arguments *arguments, const struct ky_check_rule *rule,
		     const struct ky_query *query)
{
	ky_cli_error("%s:%u: '%s': %s", arguments->rules_file, rule->line, rule->name,
		     ky_query_error(query)[0] ? ky_query_error(query) : "out of memory");
	return KY_EXIT_TROUBLE;
}

static uint32_t unit_of(const struct ky_check_rule *rule)
{
	return rule->max.is_given ? rule->max.unit : rule->min.unit;
}

static void put_value(struct check_answer *answer, uint32_t unit)
{
	const uint64_t value = answer->value > 0 && answer->value < 9e18 ? (uint64_t)answer->value :
									   0;

	if (unit == KY_CHECK_NS && answer->value >= 0)
		(void)ky_out_duration(answer->text, value);
	else if (unit == KY_CHECK_BYTES && answer->value >= 0)
		(void)ky_out_bytes(answer->text, value);
	else if (answer->is_whole)
		(void)snprintf(answer->text, sizeof(answer->text), "%lld",
			       (long long)answer->whole);
	else
		(void)snprintf(answer->text, sizeof(answer->text), "%.6g", answer->value);
}

static void judge(const struct ky_check_rule *rule, const struct ky_query_cell *cell,
		  struct check_answer *answer)
{
	if (cell->type == KY_CELL_NULL) {
		answer->result = rule->may_be_missing ? RESULT_SKIPPED : RESULT_MISSING;
		(void)snprintf(answer->text, sizeof(answer->text), "-");
		return;
	}
	answer->is_whole = cell->type == KY_CELL_NUMBER;
	answer->whole = cell->number;
	answer->value = answer->is_whole ? (double)cell->number : cell->real;
	answer->result = RESULT_HELD;
	if ((rule->max.is_given && answer->value > rule->max.value) ||
	    (rule->min.is_given && answer->value < rule->min.value))
		answer->result = RESULT_BROKEN;
	put_value(answer, unit_of(rule));
}

static int ask(struct check_arguments *arguments, const struct ky_check_rule *rule,
	       struct check_answer *answer)
{
	struct ky_query *query = arguments->run.query;
	struct ky_query_cell cell;
	int result = ky_view_prepare_value(query, rule->view, rule->where[0] ? rule->where : NULL,
					   rule->value);

	memset(answer, 0, sizeof(*answer));
	if (!result)
		result = ky_query_next(query);
	if (result < 0)
		return say_wrong(arguments, rule, query);
	memset(&cell, 0, sizeof(cell));
	if (result == 1)
		ky_query_cell(query, 0, &cell);
	if (cell.type == KY_CELL_TEXT) {
		ky_cli_error("%s:%u: '%s': value is text, and has to be a number",
			     arguments->rules_file, rule->line, rule->name);
		return KY_EXIT_TROUBLE;
	}
	judge(rule, &cell, answer);
	if (result == 1 && ky_query_next(query) != 0) {
		ky_cli_error("%s:%u: '%s': value has several rows; take one number of them, such "
			     "as max(%s)",
			     arguments->rules_file, rule->line, rule->name, rule->value);
		return KY_EXIT_TROUBLE;
	}
	arguments->counts[answer->result]++;
	return KY_EXIT_OK;
}

/* "at most 10ms", "5 to 10". */
static void put_allowed(struct ky_buf *out, const struct ky_check_rule *rule)
{
	if (rule->min.is_given && rule->max.is_given)
		ky_out_format(out, "%s to %s", rule->min.text, rule->max.text);
	else if (rule->max.is_given)
		ky_out_format(out, "at most %s", rule->max.text);
	else
		ky_out_format(out, "at least %s", rule->min.text);
}

/* ---- text, JSON, JUnit ---- */

static void text_row(struct ky_table *table, const struct ky_check_rule *rule,
		     const struct check_answer *answer)
{
	struct ky_buf allowed;

	ky_buf_init(&allowed, 0);
	put_allowed(&allowed, rule);
	(void)ky_buf_append(&allowed, "", 1);
	ky_table_cell(table, answer->result == RESULT_HELD ? "ok" : result_keys[answer->result]);
	ky_table_cell(table, answer->text);
	ky_table_cell(table, allowed.failed ? "" : (const char *)allowed.bytes);
	ky_table_cell(table, rule->name);
	ky_buf_release(&allowed);
}

static void json_bound(struct ky_buf *out, const char *key, const struct ky_check_bound *bound)
{
	ky_json_key(out, key);
	if (bound->is_given)
		ky_out_format(out, "%.15g", bound->value);
	else
		ky_out_text(out, "null");
}

static void json_row(struct ky_buf *out, const struct ky_check_rule *rule,
		     const struct check_answer *answer)
{
	ky_json_open(out, NULL, "{");
	ky_json_text(out, "name", rule->name);
	ky_json_text(out, "result", result_keys[answer->result]);
	ky_json_text(out, "view", rule->view);
	ky_json_text(out, "where", rule->where);
	ky_json_text(out, "value_of", rule->value);
	ky_json_key(out, "value");
	if (answer->result == RESULT_MISSING || answer->result == RESULT_SKIPPED)
		ky_out_text(out, "null");
	else if (answer->is_whole)
		ky_out_format(out, "%lld", (long long)answer->whole);
	else
		ky_out_format(out, "%.15g", answer->value);
	json_bound(out, "min", &rule->min);
	json_bound(out, "max", &rule->max);
	ky_json_close(out, "}");
}

/* XML 1.0 has no place for control bytes, nor for what is not UTF-8: they become \xNN. */
static void xml_text(struct ky_buf *out, const char *text)
{
	struct ky_buf safe;

	ky_buf_init(&safe, 0);
	ky_out_safe(&safe, text, strlen(text));
	for (size_t i = 0; !safe.failed && i < safe.used; i++) {
		const char byte = (char)safe.bytes[i];

		if (byte == '&')
			ky_out_text(out, "&amp;");
		else if (byte == '<')
			ky_out_text(out, "&lt;");
		else if (byte == '>')
			ky_out_text(out, "&gt;");
		else if (byte == '"')
			ky_out_text(out, "&quot;");
		else
			(void)ky_buf_append(out, &byte, 1);
	}
	if (safe.failed)
		out->failed = safe.failed;
	ky_buf_release(&safe);
}

static void xml_row(struct ky_buf *out, const char *service, const struct ky_check_rule *rule,
		    const struct check_answer *answer)
{
	struct ky_buf why;

	ky_out_text(out, "    <testcase classname=\"");
	xml_text(out, service);
	ky_out_text(out, "\" name=\"");
	xml_text(out, rule->name);
	if (answer->result == RESULT_HELD) {
		ky_out_text(out, "\"/>\n");
		return;
	}
	ky_out_format(out, "\"><%s message=\"",
		      answer->result == RESULT_SKIPPED ? "skipped" : "failure");
	ky_buf_init(&why, 0);
	if (answer->result == RESULT_BROKEN)
		ky_out_format(&why, "%s is %s, ", rule->value, answer->text);
	else
		ky_out_format(&why, "%s of %s has no value in this trace, ", rule->value,
			      rule->view);
	put_allowed(&why, rule);
	ky_out_text(&why, " is allowed");
	(void)ky_buf_append(&why, "", 1);
	xml_text(out, why.failed ? "" : (const char *)why.bytes);
	ky_buf_release(&why);
	ky_out_text(out, "\"/></testcase>\n");
}

static void xml_begin(struct check_arguments *arguments, const char *service,
		      const struct check_answer *answers)
{
	uint32_t counts[RESULTS] = {0};

	for (uint32_t i = 0; i < arguments->rules.count; i++)
		counts[answers[i].result]++;
	ky_out_text(&arguments->xml, "  <testsuite name=\"kymo check ");
	xml_text(&arguments->xml, service);
	ky_out_format(&arguments->xml,
		      "\" tests=\"%u\" failures=\"%u\" errors=\"0\" skipped=\"%u\">\n",
		      arguments->rules.count, counts[RESULT_BROKEN] + counts[RESULT_MISSING],
		      counts[RESULT_SKIPPED]);
}

static int print_text(const struct check_arguments *arguments, const struct check_answer *answers)
{
	uint32_t held = 0, skipped = 0;
	struct ky_table table;
	struct ky_buf out;
	int result;

	ky_buf_init(&out, 0);
	ky_table_begin(&table, "lrll", "Result|Value|Allowed|Rule");
	for (uint32_t i = 0; i < arguments->rules.count; i++) {
		text_row(&table, &arguments->rules.rules[i], &answers[i]);
		held += answers[i].result == RESULT_HELD;
		skipped += answers[i].result == RESULT_SKIPPED;
	}
	ky_table_end(&table, &out, 0, ky_out_is_coloured(STDOUT_FILENO));
	ky_out_format(&out, "\n%u of %u rules hold", held, arguments->rules.count);
	if (skipped)
		ky_out_format(&out, ", %u skipped", skipped);
	ky_out_text(&out, "\n");
	if (arguments->run.trace->lost_records)
		ky_out_text(&out, "Records are missing from this trace (kymo view losses): what "
				  "holds may not, had they been here.\n");
	result = ky_cli_print(&out);
	ky_buf_release(&out);
	return result ? KY_EXIT_TROUBLE : KY_EXIT_OK;
}

static int print_json(const struct check_arguments *arguments, const struct check_answer *answers)
{
	struct ky_buf out;
	int result;

	ky_buf_init(&out, 0);
	ky_json_open(&out, NULL, "{");
	ky_json_open(&out, "rules", "[");
	for (uint32_t i = 0; i < arguments->rules.count; i++)
		json_row(&out, &arguments->rules.rules[i], &answers[i]);
	ky_json_close(&out, "]");
	ky_json_number(&out, "lost_records", arguments->run.trace->lost_records);
	ky_json_close(&out, "}");
	ky_out_text(&out, "\n");
	result = ky_cli_print(&out);
	ky_buf_release(&out);
	return result ? KY_EXIT_TROUBLE : KY_EXIT_OK;
}

static int answer_all(struct check_arguments *arguments, struct check_answer *answers)
{
	const char *service = ky_trace_metadata(arguments->run.trace, "service");
	int code = KY_EXIT_OK;

	for (uint32_t i = 0; i < arguments->rules.count && !code; i++)
		code = ask(arguments, &arguments->rules.rules[i], &answers[i]);
	if (code)
		return code;
	xml_begin(arguments, service ? service : "trace", answers);
	for (uint32_t i = 0; i < arguments->rules.count; i++)
		xml_row(&arguments->xml, service ? service : "trace", &arguments->rules.rules[i],
			&answers[i]);
	ky_out_text(&arguments->xml, "  </testsuite>\n");
	return arguments->run.is_json ? print_json(arguments, answers) :
					print_text(arguments, answers);
}

static int check(struct ky_query_run *run, void *ctx)
{
	struct check_arguments *arguments = ctx;
	struct check_answer *answers = ky_alloc(arguments->rules.count * sizeof(*answers));
	int code;

	(void)run;
	if (!answers) {
		ky_cli_error("out of memory");
		return KY_EXIT_TROUBLE;
	}
	code = answer_all(arguments, answers);
	ky_free(answers);
	return code;
}

/* ---- the whole ---- */

static int write_junit(struct check_arguments *arguments)
{
	static const char begin[] = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n";
	static const char end[] = "</testsuites>\n";
	struct ky_out_file file;
	int result;

	if (!arguments->junit)
		return KY_EXIT_OK;
	result = arguments->xml.failed ? arguments->xml.failed :
					 ky_out_file_open(&file, arguments->junit, true);
	if (!result) {
		result = ky_out_file_write(&file, (const uint8_t *)begin, sizeof(begin) - 1);
		if (!result)
			result = ky_out_file_write(&file, arguments->xml.bytes,
						   arguments->xml.used);
		if (!result)
			result = ky_out_file_write(&file, (const uint8_t *)end, sizeof(end) - 1);
		if (!result)
			result = ky_out_file_commit(&file);
		else
			ky_out_file_abort(&file);
	}
	if (result)
		ky_cli_error("--junit %s: %s", arguments->junit, strerrordesc_np(-result));
	return result ? KY_EXIT_TROUBLE : KY_EXIT_OK;
}

int ky_cmd_check(int argc, char **argv)
{
	static const struct argp_child children[] = {{&ky_input_argp, 0, 0, 0},
						     {&ky_debug_dir_argp, 0, 0, 0},
						     {&ky_json_argp, 0, 0, 0},
						     {&ky_common_argp, 0, 0, 0},
						     {0}};
	static const struct argp argp = {
		options,
		parse,
		"RULES FILE|DIRECTORY...",
		"Checks a trace against the thresholds of RULES, a TOML file: each is a number of "
		"SQL over one table of `kymo view`, and what it may be. Exits with 1 where a rule "
		"does not hold.",
		children,
		0,
		0};
	struct check_arguments arguments = {.run = {.each = check, .input.has_words_before = true}};
	char why[KY_CHECK_WHY_BYTES];
	int code = ky_option_parse(&argp, argc, argv, 0, &arguments);

	arguments.run.ctx = &arguments;
	ky_buf_init(&arguments.xml, 0);
	if (!code && ky_check_rules_load(&arguments.rules, arguments.rules_file, why)) {
		ky_cli_error("%s", why);
		code = KY_EXIT_TROUBLE;
	}
	if (!code) {
		if (arguments.run.is_json)
			arguments.run.format = KY_ROWS_JSON;
		code = ky_query_run(&arguments.run);
		if (write_junit(&arguments))
			code = KY_EXIT_TROUBLE;
	}
	if (!code && arguments.counts[RESULT_BROKEN] + arguments.counts[RESULT_MISSING])
		code = KY_EXIT_TROUBLE;
	ky_buf_release(&arguments.xml);
	ky_check_rules_release(&arguments.rules);
	return code;
}
