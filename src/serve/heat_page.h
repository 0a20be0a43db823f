/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* heat_page.h - the traces of a list over time: a row for each process, whose cells say how late
 * its worst poll was and how many events a second came; a click opens what lies there.
 *
 * Times are those of traces that know their wall clock; the others are in the list alone.
 * Memory:  a row for each process.
 * Errors:  out->failed.     Threads: any; the list is held still by the caller.
 */
#ifndef KY_SERVE_HEAT_PAGE_H
#define KY_SERVE_HEAT_PAGE_H

#include <serve/trace_list.h>

#define KY_HEAT_ROWS_MAX 64u /* the worst ones */
#define KY_HEAT_COLUMNS 60u
#define KY_HEAT_IDS_MAX 64u /* that one address names */
#define KY_HEATS 6u

struct ky_heat_view {
	const struct ky_listed *const *traces; /* that are shown, read, with a time */
	size_t count;
	const char *pick;    /* ids of the processes chosen, with commas between; NULL: none */
	const char *address; /* of the list, to which &pick=.. or ?pick=.. is added */
};

void ky_heat_page(struct ky_buf *out, const struct ky_heat_view *view);

/* 0: below 100 us; each step is ten times as long; 5: a second and more. */
uint32_t ky_heat_of(uint64_t ns);

#endif
