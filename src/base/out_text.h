/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* out_text.h - text for people: aligned tables, units, times, colour. Everything goes into a
 * ky_buf, so that it can be tested and printed in one go.
 * Errors:  buf->failed, read once by ky_cli_print().     Threads: owner.
 */
#ifndef KY_BASE_OUT_TEXT_H
#define KY_BASE_OUT_TEXT_H

#include <base/buf.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KY_OUT_CELL_BYTES 48u
#define KY_OUT_COLUMNS_MAX 100u

enum ky_out_colour {
	KY_OUT_COLOUR_AUTO, /* on a terminal that knows colours, unless NO_COLOR is set */
	KY_OUT_COLOUR_ALWAYS,
	KY_OUT_COLOUR_NEVER
};
/* Of everything that is printed from now on. */
void ky_out_set_colour(uint32_t when); /* enum ky_out_colour */
bool ky_out_is_coloured(int fd);

/* Columns of the terminal; 0: it is none, or does not say. */
uint32_t ky_out_columns(int fd);

/* From now on the last column of a table continues below itself rather than beyond so many columns;
 * 0, as at the start: lines are as long as their text. */
void ky_out_fold(uint32_t columns);

__attribute__((format(printf, 2, 3))) void ky_out_format(struct ky_buf *out, const char *format,
							 ...);
__attribute__((format(printf, 2, 0))) void ky_out_format_list(struct ky_buf *out,
							      const char *format, va_list args);
void ky_out_text(struct ky_buf *out, const char *text);

/* Text from a trace or of a file's name: control bytes become \xNN, so that none can talk to the
 * terminal, and one line stays one. */
void ky_out_safe(struct ky_buf *out, const char *text, size_t text_bytes);

/* Bold where is_coloured. */
void ky_out_heading(struct ky_buf *out, bool is_coloured, const char *text);

/* Each fills `cell` (KY_OUT_CELL_BYTES) and returns it. */
const char *ky_out_count(char *cell, uint64_t count);       /* 572,815 */
const char *ky_out_bytes(char *cell, uint64_t bytes);       /* 4.20 MB: three digits, rounded */
const char *ky_out_duration(char *cell, uint64_t ns);       /* 1.23 ms: three digits, rounded */
const char *ky_out_permille(char *cell, uint64_t permille); /* 12.3 % */
const char *ky_out_seconds(char *cell, uint64_t ns);        /* 13.906504321 */
const char *ky_out_utc(char *cell, uint64_t unix_ns);       /* 2026-05-18 12:30:00.123456 */
const char *ky_out_moment(char *cell, uint64_t unix_ns);    /* 2026-05-18T12:30:00.123456789 */

/* A table: columns are as wide as their widest cell. align: one character a column, 'l' or 'r'. */
struct ky_table {
	struct ky_buf cells; /* NUL-terminated cells, row after row */
	const char *align;
	uint32_t column_count;
	uint64_t cell_count;
	uint32_t widths[KY_OUT_COLUMNS_MAX];
};
/* heads: the first row, separated by '|'. */
void ky_table_begin(struct ky_table *table, const char *align, const char *heads);
void ky_table_cell(struct ky_table *table, const char *text); /* made safe as ky_out_safe does */
__attribute__((format(printf, 2, 3))) void ky_table_format(struct ky_table *table,
							   const char *format, ...);
void ky_table_count(struct ky_table *table, uint64_t count);
void ky_table_duration(struct ky_table *table, uint64_t ns);
/* A line below the row that is complete; it widens no column. */
void ky_table_note(struct ky_table *table, const char *text);
/* Appends the table with `indent` spaces before each row; the first row is a heading. Releases it.
 */
void ky_table_end(struct ky_table *table, struct ky_buf *out, uint32_t indent, bool is_coloured);

#endif
