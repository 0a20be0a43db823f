/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/out_text.h>

#include <base/utf8.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static uint32_t colour = KY_OUT_COLOUR_AUTO;

void ky_out_set_colour(uint32_t when)
{
	colour = when;
}

bool ky_out_is_coloured(int fd)
{
	const char *no_color = getenv("NO_COLOR");
	const char *term = getenv("TERM");

	if (colour != KY_OUT_COLOUR_AUTO)
		return colour == KY_OUT_COLOUR_ALWAYS;
	return isatty(fd) && !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
}

/* Tables stand in many places, all of them on standard output: set once, by main(). */
static uint32_t columns_max;

#define FOLDED_MIN 20u

void ky_out_fold(uint32_t columns)
{
	columns_max = columns;
}

uint32_t ky_out_columns(int fd)
{
	const char *wish = getenv("COLUMNS");
	struct winsize size = {0};
	long columns;

	if (!isatty(fd))
		return 0;
	if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col)
		return size.ws_col;
	columns = wish ? strtol(wish, NULL, 10) : 0; /* a serial line does not know */
	return columns > 0 && columns < UINT16_MAX ? (uint32_t)columns : 0;
}

void ky_out_text(struct ky_buf *out, const char *text)
{
	(void)ky_buf_append(out, text, strlen(text));
}

void ky_out_format_list(struct ky_buf *out, const char *format, va_list args)
{
	char text[512];
	va_list again;
	int count;

	va_copy(again, args);
	count = vsnprintf(text, sizeof(text), format, args);
	if (count >= 0 && (size_t)count < sizeof(text)) {
		(void)ky_buf_append(out, text, (size_t)count);
	} else if (count >= 0 && ky_buf_reserve(out, (size_t)count + 1) == 0) {
		(void)vsnprintf((char *)out->bytes + out->used, (size_t)count + 1, format, again);
		out->used += (size_t)count;
	}
	va_end(again);
}

void ky_out_format(struct ky_buf *out, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	ky_out_format_list(out, format, args);
	va_end(args);
}

void ky_out_safe(struct ky_buf *out, const char *text, size_t text_bytes)
{
	const uint8_t *at = (const uint8_t *)text, *plain = at, *end;

	if (!text_bytes)
		return;
	for (end = at + text_bytes; at < end;) {
		size_t length = ky_utf8_sequence(at, (size_t)(end - at));
		/* C1 controls (U+0080..9f) move a terminal as escape sequences do. */
		bool is_control = at[0] < 0x20 || at[0] == 0x7f ||
				  (length == 2 && at[0] == 0xc2 && at[1] < 0xa0);

		if (length && !is_control) {
			at += length;
			continue;
		}
		(void)ky_buf_append(out, plain, (size_t)(at - plain));
		length = length ? length : 1;
		for (size_t i = 0; i < length; i++)
			ky_out_format(out, "\\x%02x", at[i]);
		at += length;
		plain = at;
	}
	(void)ky_buf_append(out, plain, (size_t)(end - plain));
}

void ky_out_heading(struct ky_buf *out, bool is_coloured, const char *text)
{
	ky_out_format(out, "%s%s%s\n", is_coloured ? "\033[1m" : "", text,
		      is_coloured ? "\033[0m" : "");
}

const char *ky_out_count(char *cell, uint64_t count)
{
	char digits[24];
	int used = snprintf(digits, sizeof(digits), "%" PRIu64, count);
	int at = 0;

	for (int i = 0; i < used; i++) {
		if (i && (used - i) % 3 == 0)
			cell[at++] = ',';
		cell[at++] = digits[i];
	}
	cell[at] = '\0';
	return cell;
}

static uint64_t rounded(uint64_t value, uint64_t unit)
{
	return value / unit + (value % unit >= unit - unit / 2);
}

/* Three significant digits of value / unit, by integers alone. Returns false when they round up to
 * 1000 of the unit: the next one says it shorter. */
static bool scaled(char *cell, uint64_t value, uint64_t unit, const char *name)
{
	uint64_t whole = value / unit, digits;
	uint64_t step = whole < 10 ? unit / 100 : whole < 100 ? unit / 10 : unit;

	if (unit == 1) {
		(void)snprintf(cell, KY_OUT_CELL_BYTES, "%" PRIu64 " %s", value, name);
		return true;
	}
	digits = rounded(value, step);
	if (digits == 1000 && step < unit) { /* 9.996 is 10.0 */
		step *= 10;
		digits = 100;
	}
	if (step == unit)
		(void)snprintf(cell, KY_OUT_CELL_BYTES, "%" PRIu64 " %s", digits, name);
	else if (step == unit / 10)
		(void)snprintf(cell, KY_OUT_CELL_BYTES, "%" PRIu64 ".%" PRIu64 " %s", digits / 10,
			       digits % 10, name);
	else
		(void)snprintf(cell, KY_OUT_CELL_BYTES, "%" PRIu64 ".%02" PRIu64 " %s",
			       digits / 100, digits % 100, name);
	return digits != 1000;
}

const char *ky_out_bytes(char *cell, uint64_t bytes)
{
	static const char *const names[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
	uint64_t unit = 1;
	size_t i = 0;

	while (i + 1 < sizeof(names) / sizeof(names[0]) &&
	       (bytes / unit >= 1000 || !scaled(cell, bytes, unit, names[i]))) {
		unit *= 1000;
		i++;
	}
	(void)scaled(cell, bytes, unit, names[i]);
	return cell;
}

const char *ky_out_duration(char *cell, uint64_t ns)
{
	static const uint64_t second = UINT64_C(1000000000);
	uint64_t seconds = rounded(ns, second), minutes = rounded(ns, 60 * second);

	if (ns < 1000 && scaled(cell, ns, 1, "ns"))
		return cell;
	if (ns < 1000000 && scaled(cell, ns, 1000, "us"))
		return cell;
	if (ns < second && scaled(cell, ns, 1000000, "ms"))
		return cell;
	if (seconds < 120)
		(void)scaled(cell, ns, second, "s");
	else if (seconds < 7200)
		(void)snprintf(cell, KY_OUT_CELL_BYTES, "%" PRIu64 "m %02" PRIu64 "s", seconds / 60,
			       seconds % 60);
	else
		(void)snprintf(cell, KY_OUT_CELL_BYTES, "%" PRIu64 "h %02" PRIu64 "m", minutes / 60,
			       minutes % 60);
	return cell;
}

const char *ky_out_permille(char *cell, uint64_t permille)
{
	(void)snprintf(cell, KY_OUT_CELL_BYTES, "%" PRIu64 ".%" PRIu64 " %%", permille / 10,
		       permille % 10);
	return cell;
}

const char *ky_out_seconds(char *cell, uint64_t ns)
{
	(void)snprintf(cell, KY_OUT_CELL_BYTES, "%" PRIu64 ".%09" PRIu64, ns / 1000000000,
		       ns % 1000000000);
	return cell;
}

const char *ky_out_utc(char *cell, uint64_t unix_ns)
{
	time_t seconds = (time_t)(unix_ns / 1000000000);
	struct tm parts;
	size_t used;

	cell[0] = '\0';
	if (!gmtime_r(&seconds, &parts))
		return cell;
	used = strftime(cell, KY_OUT_CELL_BYTES, "%Y-%m-%d %H:%M:%S", &parts);
	(void)snprintf(cell + used, KY_OUT_CELL_BYTES - used, ".%06" PRIu64,
		       unix_ns % 1000000000 / 1000);
	return cell;
}

const char *ky_out_moment(char *cell, uint64_t unix_ns)
{
	size_t used = strlen(ky_out_utc(cell, unix_ns));

	(void)snprintf(cell + used, KY_OUT_CELL_BYTES - used, "%03u", (unsigned)(unix_ns % 1000));
	cell[strcspn(cell, " ")] = 'T';
	return cell;
}

/* Columns that one line of text takes on a terminal. */
static uint32_t width_of(const char *text, size_t text_bytes)
{
	uint32_t width = 0;

	for (size_t i = 0; i < text_bytes; i++)
		width += ((uint8_t)text[i] & 0xc0) != 0x80;
	return width;
}

void ky_table_cell(struct ky_table *table, const char *text)
{
	size_t start = table->cells.used;
	uint32_t column = (uint32_t)(table->cell_count++ % table->column_count);
	uint32_t width;

	if (ky_buf_reserve(&table->cells, strlen(text) + 1))
		return;
	ky_out_safe(&table->cells, text, strlen(text));
	width = width_of((const char *)table->cells.bytes + start, table->cells.used - start);
	(void)ky_buf_append(&table->cells, "", 1);
	if (width > table->widths[column])
		table->widths[column] = width;
}

void ky_table_format(struct ky_table *table, const char *format, ...)
{
	struct ky_buf text;
	va_list args;

	ky_buf_init(&text, 0);
	va_start(args, format);
	ky_out_format_list(&text, format, args);
	va_end(args);
	if (ky_buf_append(&text, "", 1))
		table->cells.failed = text.failed;
	else
		ky_table_cell(table, (const char *)text.bytes);
	ky_buf_release(&text);
}

void ky_table_count(struct ky_table *table, uint64_t count)
{
	char cell[KY_OUT_CELL_BYTES];

	ky_table_cell(table, ky_out_count(cell, count));
}

void ky_table_duration(struct ky_table *table, uint64_t ns)
{
	char cell[KY_OUT_CELL_BYTES];

	ky_table_cell(table, ky_out_duration(cell, ns));
}

void ky_table_begin(struct ky_table *table, const char *align, const char *heads)
{
	memset(table, 0, sizeof(*table));
	ky_buf_init(&table->cells, 0);
	table->align = align;
	table->column_count = (uint32_t)strlen(align);
	for (uint32_t i = 0; i < table->column_count; i++) {
		size_t bytes = strcspn(heads, "|");

		ky_table_format(table, "%.*s", (int)bytes, heads);
		heads += bytes + (heads[bytes] == '|');
	}
}

#define NOTE '\n' /* begins one; in what is made safe there is none */
#define NOTE_INDENT 4u

void ky_table_note(struct ky_table *table, const char *text)
{
	(void)ky_buf_append(&table->cells, "\n", 1);
	ky_out_safe(&table->cells, text, strlen(text));
	(void)ky_buf_append(&table->cells, "", 1);
}

static void pad(struct ky_buf *out, uint32_t count)
{
	while (count-- > 0)
		ky_out_text(out, " ");
}

/* Returns what is after the notes at a place. */
static const char *print_notes(const struct ky_table *table, struct ky_buf *out, const char *at,
			       uint32_t indent)
{
	const char *end = (const char *)table->cells.bytes + table->cells.used;

	while (at < end && *at == NOTE) {
		pad(out, indent + NOTE_INDENT);
		ky_out_text(out, at + 1);
		ky_out_text(out, "\n");
		at += strlen(at) + 1;
	}
	return at;
}

/* Where a text has to break so that the first line takes no more columns: after its last space if
 * there is one, else anywhere. Its length where it need not. */
static size_t first_line(const char *text, size_t bytes, uint32_t columns)
{
	size_t at = 0, front = strspn(text, " "), space = 0;

	for (uint32_t used = 0; at < bytes; used++) {
		if (text[at] == ' ' && at > front)
			space = at + 1;
		if (used == columns)
			return space ? space : at;
		for (at++; at < bytes && ((uint8_t)text[at] & 0xc0) == 0x80;)
			at++;
	}
	return bytes;
}

/* Continues below itself where the terminal's line ends, unless that would leave it a mere
 * strip. */
static void print_folded(struct ky_buf *out, const char *text, size_t bytes, uint32_t column)
{
	uint32_t room = columns_max > column + FOLDED_MIN ? columns_max - column : UINT32_MAX;

	for (size_t length; (length = first_line(text, bytes, room)) < bytes;) {
		size_t shown = text[length - 1] == ' ' ? length - 1 : length;

		(void)ky_buf_append(out, text, shown);
		ky_out_text(out, "\n");
		pad(out, column);
		text += length;
		bytes -= length;
	}
	(void)ky_buf_append(out, text, bytes);
}

static uint32_t start_of_last(const struct ky_table *table, uint32_t indent)
{
	uint32_t column = indent;

	for (uint32_t i = 0; i + 1 < table->column_count; i++)
		column += table->widths[i] + 2;
	return column;
}

/* Padding is owed until the next text, so that no line ends in spaces. */
static void print_table(const struct ky_table *table, struct ky_buf *out, uint32_t indent,
			bool is_coloured)
{
	const char *at = (const char *)table->cells.bytes;
	uint32_t owed = 0;

	if (table->cells.failed) {
		out->failed = table->cells.failed;
		return;
	}
	for (uint64_t i = 0; i < table->cell_count; i++) {
		uint32_t column = (uint32_t)(i % table->column_count);
		bool is_heading = i < table->column_count;
		size_t bytes = strlen(at);
		uint32_t space = table->widths[column] - width_of(at, bytes);
		bool is_right = table->align[column] == 'r';

		if (column == 0) {
			owed = indent;
			ky_out_text(out, is_heading && is_coloured ? "\033[2m" : "");
		}
		owed += is_right ? space : 0;
		if (bytes) {
			pad(out, owed);
			if (column + 1 == table->column_count && !is_right)
				print_folded(out, at, bytes, start_of_last(table, indent));
			else
				(void)ky_buf_append(out, at, bytes);
			owed = 0;
		}
		owed += (is_right ? 0 : space) + 2;
		at += bytes + 1;
		if (column + 1 < table->column_count)
			continue;
		ky_out_text(out, is_heading && is_coloured ? "\033[0m\n" : "\n");
		at = print_notes(table, out, at, indent);
	}
}

void ky_table_end(struct ky_table *table, struct ky_buf *out, uint32_t indent, bool is_coloured)
{
	print_table(table, out, indent, is_coloured);
	ky_buf_release(&table->cells);
}
