/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <send/aws_profile.h>

#include <base/alloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 4608
#define PATH_BYTES 512

static char *trim(char *text)
{
	size_t count;

	text += strspn(text, " \t");
	count = strlen(text);
	while (count && strchr(" \t\r\n", text[count - 1]))
		text[--count] = '\0';
	return text;
}

/* "[name]" or "[profile name]" */
static bool is_section(char *line, const char *profile)
{
	char *end = strchr(line, ']');

	if (!end)
		return false;
	*end = '\0';
	line = trim(line + 1);
	if (strncmp(line, "profile", 7) == 0 && (line[7] == ' ' || line[7] == '\t'))
		line = trim(line + 8);
	return strcmp(line, profile) == 0;
}

static void take_line(struct ky_aws_profile *profile, char *line)
{
	static const char *const unread[] = {"credential_source", "sso_session", "sso_start_url"};
	const struct {
		const char *name;
		char *out;
		size_t capacity;
	} known[] = {
		{"aws_access_key_id", profile->access_key, sizeof(profile->access_key)},
		{"aws_secret_access_key", profile->secret_key, sizeof(profile->secret_key)},
		{"aws_session_token", profile->token, sizeof(profile->token)},
		{"region", profile->region, sizeof(profile->region)},
		{"endpoint_url", profile->endpoint, sizeof(profile->endpoint)},
		{"role_arn", profile->role, sizeof(profile->role)},
		{"credential_process", profile->process, sizeof(profile->process)},
		{"source_profile", profile->source, sizeof(profile->source)},
		{"external_id", profile->external_id, sizeof(profile->external_id)},
		{"role_session_name", profile->role_session, sizeof(profile->role_session)},
		{"web_identity_token_file", profile->web_token_file,
		 sizeof(profile->web_token_file)},
	};
	char *equals = strchr(line, '=');
	const char *name, *value;

	if (!equals)
		return;
	*equals = '\0';
	name = trim(line);
	value = trim(equals + 1);
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (strcmp(name, known[i].name) == 0 && strlen(value) < known[i].capacity)
			memcpy(known[i].out, value, strlen(value) + 1);
	}
	for (size_t i = 0; i < sizeof(unread) / sizeof(unread[0]); i++) {
		if (strcmp(name, unread[i]) == 0)
			profile->unread = unread[i];
	}
}

static void read_file(struct ky_aws_profile *profile, const char *name, const char *variable,
		      const char *below_home)
{
	const char *path = getenv(variable), *home = getenv("HOME");
	char found[PATH_BYTES], *line;
	bool is_ours = false;
	FILE *file;

	if (!path || !path[0]) {
		if (!home ||
		    snprintf(found, sizeof(found), "%s/%s", home, below_home) >= (int)sizeof(found))
			return;
		path = found;
	}
	file = fopen(path, "re");
	line = file ? ky_alloc(LINE_BYTES) : NULL;
	while (line && fgets(line, LINE_BYTES, file)) {
		if (line[0] == '[')
			is_ours = is_section(line, name);
		else if (is_ours && line[0] != '#' && line[0] != ';' && line[0] != ' ' &&
			 line[0] != '\t')
			take_line(profile, line);
	}
	if (line)
		explicit_bzero(line, LINE_BYTES);
	ky_free(line);
	if (file)
		(void)fclose(file);
}

void ky_aws_profile_read(struct ky_aws_profile *profile, const char *name)
{
	*profile = (struct ky_aws_profile){.unread = NULL};
	read_file(profile, name, "AWS_CONFIG_FILE", ".aws/config");
	read_file(profile, name, "AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials");
}
