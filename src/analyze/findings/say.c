/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/findings/say.h>

#include <analyze/short_name.h>
#include <base/text.h>
#include <string.h>

#define NAME_COLUMNS 64u

void ky_say_count(struct ky_buf *out, uint64_t count)
{
	char digits[32];
	size_t at = sizeof(digits);

	digits[--at] = '\0';
	for (unsigned written = 0; written == 0 || count; written++, count /= 10) {
		if (written && written % 3 == 0)
			digits[--at] = ',';
		digits[--at] = (char)('0' + count % 10);
	}
	ky_text(out, digits + at);
}

/* value / 10^decimals. */
static void say_decimal(struct ky_buf *out, uint64_t value, unsigned decimals)
{
	char digits[8] = "";
	uint64_t scale = 1;
	unsigned i;

	for (i = 0; i < decimals; i++)
		scale *= 10;
	ky_text_u64(out, value / scale);
	if (!decimals)
		return;
	digits[0] = '.';
	for (i = 1; i <= decimals; i++) {
		scale /= 10;
		digits[i] = (char)('0' + value / scale % 10);
	}
	ky_text(out, digits);
}

/* In the largest of these units, each a thousand of the one before, with three digits. */
static void say_scaled(struct ky_buf *out, uint64_t value, const char *const units[4])
{
	uint64_t unit = 1, step;
	unsigned which = 0, decimals = 0;

	while (which < 3 && value / unit >= 1000) {
		unit *= 1000;
		which++;
	}
	for (step = unit; step > 1 && value / unit < 100 && decimals < 2; step /= 10) {
		if (decimals == 1 && value / unit >= 10)
			break;
		decimals++;
	}
	say_decimal(out, value / step + (value % step >= step - step / 2), decimals);
	ky_text(out, units[which]);
}

void ky_say_ns(struct ky_buf *out, uint64_t ns)
{
	static const char *const units[4] = {" ns", " us", " ms", " s"};

	say_scaled(out, ns, units);
}

void ky_say_bytes(struct ky_buf *out, uint64_t bytes)
{
	static const char *const units[4] = {" B", " kB", " MB", " GB"};

	say_scaled(out, bytes, units);
}

void ky_say_ahead(struct ky_buf *out, uint64_t ns)
{
	uint64_t seconds = ns / 1000000000, minutes = seconds / 60, hours = minutes / 60;

	ky_say_count(out, hours > 1 ? hours : minutes > 1 ? minutes : seconds);
	ky_text(out, hours > 1 ? " h" : minutes > 1 ? " min" : " s");
}

void ky_say_ppm(struct ky_buf *out, uint32_t ppm)
{
	say_decimal(out, (ppm + 500) / 1000, 1);
	ky_text(out, " %");
}

void ky_say_many(struct ky_buf *out, uint64_t count, const char *one, const char *many)
{
	ky_say_count(out, count);
	ky_text(out, " ");
	ky_text(out, count == 1 ? one : many);
}

/* Bytes of the name without what it is a closure or a coroutine of: symbols say {{closure}}, debug
 * information {closure#0}, {async_fn#0}, {async_block#1}. */
static size_t without_closures(const char *name)
{
	static const char *const kinds[] = {"{closure", "closure#", "async_"};
	size_t bytes = strlen(name), at;
	bool is_closure = true;

	while (is_closure && bytes && name[bytes - 1] == '}') {
		at = bytes;
		while (at > 2 && memcmp(name + at - 3, "::{", 3) != 0)
			at--;
		is_closure = false;
		for (size_t i = 0; at > 3 && i < sizeof(kinds) / sizeof(*kinds); i++)
			is_closure |= strncmp(name + at, kinds[i], strlen(kinds[i])) == 0;
		if (is_closure)
			bytes = at - 3;
	}
	return bytes;
}

static void say_name(struct ky_buf *out, const char *name)
{
	char cell[KY_SHORT_NAME_BYTES];

	name = ky_short_name(cell, name, NAME_COLUMNS);
	(void)ky_buf_append(out, name, without_closures(name));
}

void ky_say_kind(struct ky_buf *out, const struct ky_trace *trace, uint32_t name)
{
	if (name == KY_NONE)
		ky_text(out, "an unnamed task");
	else
		say_name(out, ky_trace_name(trace, name));
}

void ky_say_function(struct ky_buf *out, const struct ky_code_line *line)
{
	say_name(out, line->name);
}

void ky_say_line(struct ky_buf *out, const struct ky_code_line *line)
{
	if (!line || !line->file || !*line->file)
		return;
	ky_text(out, " at ");
	ky_text(out, line->file);
	if (line->line) {
		ky_text(out, ":");
		ky_text_u64(out, line->line);
	}
}
