/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <edit/outgoing_copy.h>

#include <edit/rewrite.h>
#include <edit/symbol_rows.h>
#include <kymo/base.h>
#include <stdio.h>
#include <string.h>

#define LEVEL 1 /* whoever packs it again for a bucket takes its time there */

static int find_names(struct ky_symbol_rows *rows, struct ky_input *input)
{
	const struct ky_trace_symbols_options options = {.is_without_hot = true};
	int result = ky_symbol_rows_open(rows, input, &options);

	if (!result && rows->addresses.count)
		ky_symbol_rows_name(rows);
	return result;
}

static int write_copy(struct ky_input *input, struct ky_redact *redact, struct ky_symbol_rows *rows,
		      int fd)
{
	struct ky_rewrite rewrite = {.input = input,
				     .output = input->arguments[0],
				     .fd = fd,
				     .level = LEVEL,
				     .is_mix = true,
				     .is_stored_order = true,
				     .redact = redact->classes ? redact : NULL};
	int result;

	if (rows->named) {
		rewrite.keep = ky_symbol_rows_keep;
		rewrite.tail = ky_symbol_rows_write;
		rewrite.hook_ctx = rows;
	}
	result = ky_rewrite_prepare(&rewrite);
	return result ? result : ky_rewrite_run(&rewrite);
}

/* Whoever asks names the file. */
static void say(char *why, size_t why_bytes, const char *path, const char *error)
{
	size_t count = strlen(path);

	if (strncmp(error, path, count) == 0 && error[count] == ':')
		error += count + 1 + (error[count + 1] == ' ');
	snprintf(why, why_bytes, "cannot be read: %s", error);
}

int ky_outgoing_copy(const struct ky_outgoing *how, const char *path, int fd, char *why,
		     size_t why_bytes)
{
	char name[1152], *arguments[1] = {name};
	struct ky_input input = {.arguments = arguments, .argument_count = 1};
	struct ky_redact redact;
	struct ky_symbol_rows rows = {.redact = NULL};
	int result;

	snprintf(name, sizeof(name), "%s", path);
	ky_redact_init_key(&redact, how->classes, how->key);
	rows.redact = how->classes ? &redact : NULL;
	result = ky_input_open(&input);
	if (!result && how->is_named)
		result = find_names(&rows, &input);
	if (!result && (how->classes || rows.named)) {
		result = write_copy(&input, &redact, &rows, fd);
		result = result ? result : 1;
	}
	if (result < 0)
		say(why, why_bytes, path, input.error[0] ? input.error : kymo_error_text(result));
	if (how->is_named)
		ky_symbol_rows_release(&rows);
	ky_input_close(&input);
	ky_redact_release(&redact);
	return result;
}
