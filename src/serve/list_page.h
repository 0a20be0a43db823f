/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* list_page.h - the list of traces as a page and as JSON.
 *
 * The page needs no script. Texts of traces and names of files are untrusted: they are written as
 * text alone.
 * Errors:  buf->failed.     Threads: any; the list is held still by the caller.
 */
#ifndef KY_SERVE_LIST_PAGE_H
#define KY_SERVE_LIST_PAGE_H

#include <serve/trace_list.h>

struct ky_list_view {
	const struct ky_listed *entries;
	size_t count, waiting_count;
	bool is_cut;
	const char *sort;      /* a column's key, with '-' descending; NULL: as the files are */
	const char *live_name; /* of the process that is shown live; NULL: none */
	const char *service, *host; /* only these; NULL: all */
	const char *pick; /* ids of processes chosen to be opened together, with commas; NULL */
};

/* style.css of the page. */
extern const char ky_list_style[];

void ky_list_page(struct ky_buf *out, const struct ky_list_view *view);
void ky_list_json(struct ky_buf *out, const struct ky_list_view *view);
/* One of them, with what `kymo info --json` prints under "info". */
void ky_listed_json(struct ky_buf *out, const struct ky_listed *one, bool has_info);

#endif
