/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/profile_cells.h>

#include <analyze/short_name.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define NAME_COLUMNS 64u

const char *ky_profile_short_name(char *cell, const char *name)
{
	char text[KY_SHORT_NAME_BYTES];

	ky_short_name(text, *name ? name : "(unnamed)", NAME_COLUMNS);
	(void)snprintf(cell, KY_PROFILE_CELL_BYTES, "%.*s", (int)KY_PROFILE_CELL_BYTES - 1, text);
	return cell;
}

void ky_profile_name_cell(struct ky_table *table, const char *name)
{
	char cell[KY_PROFILE_CELL_BYTES];

	ky_table_cell(table, ky_profile_short_name(cell, name));
}

const char *ky_profile_place(char *cell, const struct ky_code_line *line)
{
	const char *at = line->file + strlen(line->file);
	uint32_t parts = 0;

	while (at > line->file && (at[-1] != '/' || ++parts < 3))
		at--;
	if (!*at)
		cell[0] = '\0';
	else
		(void)snprintf(cell, KY_PROFILE_CELL_BYTES, "%.160s:%u", at, line->line);
	return cell;
}

void ky_profile_where_cells(struct ky_table *table, const struct ky_stack_profile *profile,
			    uint32_t stack)
{
	const struct ky_code_line *line = ky_code_own_line(&profile->code, stack);
	char cell[KY_PROFILE_CELL_BYTES];

	ky_profile_name_cell(table, line ? line->name : "(no stack)");
	ky_table_cell(table, line ? ky_profile_place(cell, line) : "");
}

void ky_profile_leaf_cell(struct ky_table *table, const struct ky_stack_profile *profile,
			  uint32_t stack)
{
	const struct ky_code_line *line = ky_code_leaf_line(&profile->code, stack);

	if (line == ky_code_own_line(&profile->code, stack))
		line = NULL;
	ky_profile_name_cell(table, line ? line->name : "-");
}

const char *ky_profile_samples(char *cell, uint64_t count)
{
	char number[KY_OUT_CELL_BYTES];

	if (count == 1)
		(void)snprintf(cell, KY_PROFILE_CELL_BYTES, "one sample");
	else
		(void)snprintf(cell, KY_PROFILE_CELL_BYTES, "%s samples",
			       ky_out_count(number, count));
	return cell;
}

void ky_profile_state_cell(struct ky_table *table, const struct ky_off_cpu_parts *of, double all)
{
	const double ns[] = {of->blocked, of->runnable, all - of->blocked - of->runnable};
	static const char *const words[] = {"blocked", "runnable", "blocked incl. run queue"};
	char text[KY_PROFILE_CELL_BYTES] = "", share[KY_OUT_CELL_BYTES];
	size_t at = 0;

	for (uint32_t i = 0; i < 3; i++) {
		if (all <= 0.0 || ns[i] < all / 100.0 || at >= sizeof(text))
			continue;
		if (ns[i] > all * 0.99)
			at += (size_t)snprintf(text + at, sizeof(text) - at, "%s", words[i]);
		else
			at += (size_t)snprintf(
				text + at, sizeof(text) - at, "%s%s %s", at ? ", " : "", words[i],
				ky_out_permille(share, (uint32_t)lround(ns[i] * 1000.0 / all)));
	}
	ky_table_cell(table, text);
}
