/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/frames_text.h>

#include <base/json_write.h>
#include <base/out_text.h>
#include <string.h>

#define INLINES_MAX 8u
#define FRAMES_MAX 40u

static void safe(struct ky_buf *out, const char *text)
{
	ky_out_safe(out, text, strlen(text));
}

void ky_code_text(struct ky_buf *out, struct ky_symbol_table *symbols, uint64_t pc,
		  uint64_t time_ns)
{
	const struct ky_symbol_frame *frames;
	uint32_t count = ky_symbol_table_find(symbols, pc, time_ns, &frames);

	for (uint32_t i = 0; i < count && i < INLINES_MAX; i++) {
		ky_out_text(out, i ? ", inlined in " : "");
		safe(out, frames[i].name);
		if (!frames[i].file[0])
			continue;
		ky_out_text(out, " (");
		safe(out, frames[i].file);
		if (frames[i].line)
			ky_out_format(out, ":%u", frames[i].line);
		ky_out_text(out, ")");
	}
}

void ky_frames_text(struct ky_buf *out, struct ky_symbol_table *symbols, const uint64_t *frames,
		    uint32_t count, uint64_t time_ns, bool is_whole, uint32_t indent)
{
	for (uint32_t i = 0; i < count && i < FRAMES_MAX; i++) {
		ky_out_format(out, "%*s%s ", (int)indent, "", i ? "from" : "in");
		ky_code_text(out, symbols, frames[i], time_ns);
		ky_out_text(out, "\n");
	}
	if (count > FRAMES_MAX)
		ky_out_format(out, "%*sfrom %u functions more\n", (int)indent, "",
			      count - FRAMES_MAX);
	else if (count > 1 && !is_whole)
		ky_out_format(out, "%*sfrom callers further up, which are not known\n", (int)indent,
			      "");
}

void ky_frames_json(struct ky_buf *out, struct ky_symbol_table *symbols, const uint64_t *frames,
		    uint32_t count, uint64_t time_ns)
{
	const struct ky_symbol_frame *names;

	ky_json_open(out, "stack", "[");
	for (uint32_t i = 0; i < count; i++) {
		uint32_t name_count = ky_symbol_table_find(symbols, frames[i], time_ns, &names);

		for (uint32_t k = 0; k < name_count; k++) {
			ky_json_open(out, NULL, "{");
			ky_json_text(out, "function", names[k].name);
			if (names[k].file[0]) {
				ky_json_text(out, "file", names[k].file);
				ky_json_number(out, "line", names[k].line);
			}
			ky_json_close(out, "}");
		}
	}
	ky_json_close(out, "]");
}
