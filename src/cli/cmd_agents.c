/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/out_text.h>
#include <cli/cli.h>
#include <cli/shared_options.h>
#include <cli/skills.h>
#include <errno.h>
#include <limits.h>
#include <ship/out_file.h>
#include <string.h>
#include <sys/stat.h>

#define PREFIX "kymo-"

struct agents_arguments {
	const char *what, *name;
	bool may_replace;
};

static const struct argp_option options[] = {
	{"force", 'f', 0, 0, "Replace FILE when it exists", 0},
	{0},
};

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct agents_arguments *arguments = state->input;

	switch (key) {
	case 'f':
		arguments->may_replace = true;
		return 0;
	case ARGP_KEY_ARG:
		if (!arguments->what)
			arguments->what = text;
		else if (!arguments->name)
			arguments->name = text;
		else
			ky_option_error("one directory or one name, not also '%s'", text);
		return 0;
	case ARGP_KEY_END:
		if (arguments->what && strcmp(arguments->what, "skills") != 0 &&
		    strcmp(arguments->what, "skill") != 0)
			ky_option_error("kymo agents takes skills [DIR] or skill NAME, not '%s'",
					arguments->what);
		if (arguments->what && !arguments->name && strcmp(arguments->what, "skill") == 0)
			ky_option_error("say which: kymo agents skills lists their names");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int print_list(void)
{
	struct ky_buf out;
	int result;

	ky_buf_init(&out, 0);
	for (size_t i = 0; i < ky_skill_count; i++)
		ky_out_format(&out, "%-12s %s\n", ky_skills[i].name, ky_skills[i].what);
	result = ky_cli_print(&out);
	ky_buf_release(&out);
	return result ? KY_EXIT_TROUBLE : KY_EXIT_OK;
}

static int print_one(const char *name)
{
	const char *own = strncmp(name, PREFIX, strlen(PREFIX)) == 0 ? name + strlen(PREFIX) : name;
	struct ky_buf out;
	int result;

	for (size_t i = 0; i < ky_skill_count; i++) {
		if (strcmp(ky_skills[i].name, own) != 0)
			continue;
		ky_buf_init(&out, 0);
		ky_out_text(&out, ky_skills[i].text);
		result = ky_cli_print(&out);
		ky_buf_release(&out);
		return result ? KY_EXIT_TROUBLE : KY_EXIT_OK;
	}
	ky_cli_error("there is no skill '%s'; kymo agents skills lists them", name);
	return KY_EXIT_TROUBLE;
}

static int make_directory(const char *path)
{
	return mkdir(path, 0777) && errno != EEXIST ? -errno : 0;
}

/* DIR/kymo-NAME/SKILL.md */
static int write_skill(const char *directory, const struct ky_skill *skill, bool may_replace)
{
	struct ky_out_file file = {.fd = -1};
	static char path[PATH_MAX];
	int result;

	if ((size_t)snprintf(path, sizeof(path), "%s/" PREFIX "%s/SKILL.md", directory,
			     skill->name) >= sizeof(path)) {
		ky_cli_error("%s: the name is too long", directory);
		return KY_EXIT_TROUBLE;
	}
	path[strlen(path) - strlen("/SKILL.md")] = '\0';
	result = make_directory(path);
	path[strlen(path)] = '/';
	if (!result)
		result = ky_out_file_open(&file, path, may_replace);
	if (!result) {
		result = ky_out_file_write(&file, (const uint8_t *)skill->text,
					   strlen(skill->text));
		if (!result)
			result = ky_out_file_commit(&file);
		ky_out_file_abort(&file);
	}
	if (result == -EEXIST)
		ky_cli_error("%s: exists; replace it with --force", path);
	else if (result)
		ky_cli_error("%s: %s", path, strerror(-result));
	return result ? KY_EXIT_TROUBLE : KY_EXIT_OK;
}

static int write_all(const char *directory, bool may_replace)
{
	int result = make_directory(directory), code = KY_EXIT_OK;

	if (result) {
		ky_cli_error("%s: %s", directory, strerror(-result));
		return KY_EXIT_TROUBLE;
	}
	for (size_t i = 0; i < ky_skill_count && !code; i++)
		code = write_skill(directory, &ky_skills[i], may_replace);
	if (!code && !ky_cli_is_quiet())
		(void)printf("%s: %zu skills\n", directory, ky_skill_count);
	return code;
}

int ky_cmd_agents(int argc, char **argv)
{
	static const struct argp_child children[] = {{&ky_common_argp, 0, 0, 0}, {0}};
	static const struct argp argp = {
		options,
		parse,
		"skills [DIR] | skill NAME",
		"Texts for an assistant, each on one kind of question and how kymo answers it: "
		"which commands, which keys of their JSON, what they mean. `skills` lists them, or "
		"writes each as DIR/kymo-NAME/SKILL.md; `skill` prints one.",
		children,
		0,
		0};
	struct agents_arguments arguments = {0};
	int code = ky_option_parse(&argp, argc, argv, 0, &arguments);

	if (code)
		return code;
	if (!arguments.name)
		return print_list();
	return strcmp(arguments.what, "skill") == 0 ?
		       print_one(arguments.name) :
		       write_all(arguments.name, arguments.may_replace);
}
