/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/json_write.h>
#include <cli/cli.h>

#include <doctor/doctor.h>
#include <base/out_text.h>
#include <cli/shared_options.h>
#include <elf/run_target.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 2048u

struct doctor_arguments {
	const char *what;
	bool is_json;
};

static const char *const state_names[] = {"ok", "limited", "none"};

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct doctor_arguments *arguments = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &arguments->is_json;
		return 0;
	case ARGP_KEY_ARG:
		if (arguments->what)
			ky_option_error("one PID or PROGRAM at a time: '%s' and '%s'",
					arguments->what, text);
		arguments->what = text;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* A name of digits alone is a process. Returns an exit code; trouble has been said. */
static int check(struct ky_doctor *doctor, const char *what)
{
	char path[PATH_BYTES];
	unsigned long pid;
	char *end;
	int result;

	ky_doctor_machine(doctor);
	if (!what) {
		ky_doctor_cgroup(doctor, "/proc/self");
		return KY_EXIT_OK;
	}
	pid = strtoul(what, &end, 10);
	if (*what && !*end && pid <= INT32_MAX) {
		result = ky_doctor_process(doctor, (uint32_t)pid);
		if (result == -ESRCH)
			ky_cli_error("there is no process %lu", pid);
		return result == -ESRCH ? KY_EXIT_TROUBLE : KY_EXIT_OK;
	}
	if (ky_run_target_resolve(what, path, sizeof(path)) || access(path, F_OK) != 0) {
		ky_cli_error("%s: there is no such program", what);
		return KY_EXIT_TROUBLE;
	}
	ky_doctor_cgroup(doctor, "/proc/self"); /* it would be started there */
	ky_doctor_program(doctor, path);
	return KY_EXIT_OK;
}

static void put_json(struct ky_buf *out, const struct ky_doctor *doctor)
{
	ky_json_open(out, NULL, "{");
	ky_json_open(out, "checks", "[");
	for (uint32_t i = 0; i < doctor->count; i++) {
		const struct ky_doctor_check *check = &doctor->checks[i];

		ky_json_open(out, NULL, "{");
		ky_json_text(out, "name", check->name);
		ky_json_text(out, "state", state_names[check->state]);
		ky_json_text(out, "value", check->value);
		ky_json_text(out, "effect", check->effect);
		ky_json_text(out, "command", check->fix);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
	ky_json_close(out, "}");
	ky_out_text(out, "\n");
}

static void put_text(struct ky_buf *out, const struct ky_doctor *doctor, bool is_coloured)
{
	struct ky_table table;
	uint32_t limited = 0;

	ky_table_begin(&table, "lll", "|Check|Found");
	for (uint32_t i = 0; i < doctor->count; i++) {
		const struct ky_doctor_check *check = &doctor->checks[i];

		ky_table_cell(&table, state_names[check->state]);
		ky_table_cell(&table, check->name);
		ky_table_cell(&table, check->value);
		limited += check->state != KY_DOCTOR_OK;
	}
	ky_table_end(&table, out, 0, is_coloured);
	ky_out_text(out, "\n");
	for (uint32_t i = 0; i < doctor->count; i++) {
		const struct ky_doctor_check *check = &doctor->checks[i];

		if (check->state == KY_DOCTOR_OK)
			continue;
		ky_out_format(out, "%s: ", check->name);
		ky_out_safe(out, check->effect, strlen(check->effect));
		ky_out_text(out, "\n");
		if (!check->fix[0])
			continue;
		ky_out_text(out, "    ");
		ky_out_safe(out, check->fix, strlen(check->fix));
		ky_out_text(out, "\n");
	}
	if (!limited)
		ky_out_text(out, "Nothing is in the way.\n");
}

int ky_cmd_doctor(int argc, char **argv)
{
	static const struct argp_child children[] = {
		{&ky_json_argp, 0, 0, 0}, {&ky_common_argp, 0, 0, 0}, {0}};
	static const struct argp argp = {
		NULL,
		parse,
		"[PID|PROGRAM]",
		"Says what this machine, and a program or a process, allow kymo to see, what "
		"follows, and the command that improves it. Nothing is changed and nothing is "
		"started. Exit status 1: something is limited.",
		children,
		0,
		0};
	struct doctor_arguments arguments = {0};
	static struct ky_doctor doctor;
	struct ky_buf out;
	uint32_t i;
	int code;

	code = ky_option_parse(&argp, argc, argv, 0, &arguments);
	if (code)
		return code;
	code = check(&doctor, arguments.what);
	if (code)
		return code;
	for (i = 0; i < doctor.count; i++)
		if (doctor.checks[i].state != KY_DOCTOR_OK)
			code = KY_EXIT_TROUBLE;
	ky_buf_init(&out, 0);
	if (arguments.is_json)
		put_json(&out, &doctor);
	else
		put_text(&out, &doctor, ky_out_is_coloured(STDOUT_FILENO));
	if (ky_cli_print(&out))
		code = KY_EXIT_TROUBLE;
	ky_buf_release(&out);
	return code;
}
