/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <serve/list_page.h>

#include <base/alloc.h>
#include <base/json_write.h>
#include <base/out_text.h>
#include <errno.h>
#include <inttypes.h>
#include <serve/heat_page.h>
#include <serve/html_text.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RELOAD_WAITING_S 2
#define RELOAD_S 10

const char ky_list_style[] =
	":root{color-scheme:light dark;--line:#8884;--soft:#8882}"
	"body{font:14px/1.4 system-ui,sans-serif;margin:24px}"
	"h1{font-size:20px;margin:0 0 4px}"
	"p{margin:4px 0 12px}"
	"table{border-collapse:collapse;width:100%}"
	"th,td{padding:4px 10px;text-align:left;border-bottom:1px solid var(--line)}"
	"th{position:sticky;top:0;background:Canvas;font-weight:600;white-space:nowrap}"
	"td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}"
	"td.file{overflow-wrap:anywhere;min-width:200px}"
	"td.why{overflow-wrap:anywhere;color:GrayText}"
	"tr:hover td{background:var(--soft)}"
	"td.n.h0{background:#56b4e922}td.n.h1{background:#56b4e955}td.n.h2{background:#f0e44266}"
	"td.n.h3{background:#e69f0077}td.n.h4{background:#d55e0088}td.n.h5{background:#d55e00;"
	"color:#fff;font-weight:600}"
	"table.heat{margin:0 0 16px}"
	"caption{text-align:left;color:GrayText;padding:0 0 4px;white-space:nowrap}"
	".heat th{position:static;font-weight:400;white-space:nowrap;border:0;width:1%}"
	".heat td{padding:0;border:0;height:20px;min-width:5px}"
	".heat td.n,.heat td.pick{padding:0 10px;width:1%}"
	".heat td a[title]{display:block;height:20px}"
	".heat td.h0{background:#56b4e922}.heat td.h1{background:#56b4e977}"
	".heat td.h2{background:#f0e44288}.heat td.h3{background:#e69f00aa}"
	".heat td.h4{background:#d55e00bb}.heat td.h5{background:#a01010}"
	".heat td.r1{border-bottom:1px solid}.heat td.r2{border-bottom:2px solid}"
	".heat td.r3{border-bottom:4px solid}.heat td.r4{border-bottom:6px solid}"
	".go{font-weight:600}"
	"a:focus-visible{outline:2px solid Highlight;outline-offset:2px}"
	"@media(max-width:1200px){body{margin:12px}th,td{padding:4px 5px}}";

struct column {
	const char *key, *head;
	bool is_number;
};
enum column_at {
	AT_NAME,
	AT_SERVICE,
	AT_HOST,
	AT_TIME,
	AT_DURATION,
	AT_SIZE,
	AT_RATE,
	AT_POLLS,
	AT_DELAY,
	AT_POLL,
	COLUMNS
};
static const struct column columns[COLUMNS] = {
	[AT_NAME] = {"name", "Trace", false},
	[AT_SERVICE] = {"service", "Service", false},
	[AT_HOST] = {"host", "Host", false},
	[AT_TIME] = {"time", "Began (UTC)", true},
	[AT_DURATION] = {"duration", "Duration", true},
	[AT_SIZE] = {"size", "Size", true},
	[AT_RATE] = {"rate", "Events/s", true},
	[AT_POLLS] = {"polls", "Polls", true},
	[AT_DELAY] = {"delay", "Worst delay", true},
	[AT_POLL] = {"poll", "Worst poll", true},
};

/* ---- which, and in what order ---- */

static uint64_t rate(const struct ky_trace_facts *facts)
{
	uint64_t ms = facts->duration_ns / 1000000;

	return ms ? facts->event_count * 1000 / ms : 0;
}

static uint64_t number_of(const struct ky_listed *one, uint32_t column)
{
	switch (column) {
	case AT_TIME:
		return one->facts.start_unix_ns;
	case AT_DURATION:
		return one->facts.duration_ns;
	case AT_SIZE:
		return one->bytes;
	case AT_RATE:
		return rate(&one->facts);
	case AT_POLLS:
		return one->facts.poll_count;
	case AT_DELAY:
		return one->facts.worst_delay_ns;
	default:
		return one->facts.worst_poll_ns;
	}
}

struct row {
	const struct ky_listed *one;
	uint32_t column, index;
	bool is_descending;
};

static int compare(const void *left, const void *right)
{
	const struct row *a = left, *b = right;
	uint64_t x, y;
	int order = 0;

	if (a->column == AT_SERVICE)
		order = strcmp(a->one->facts.service, b->one->facts.service);
	else if (a->column == AT_HOST)
		order = strcmp(a->one->facts.host, b->one->facts.host);
	else if (a->column != AT_NAME) {
		x = number_of(a->one, a->column);
		y = number_of(b->one, b->column);
		order = (x > y) - (x < y);
	}
	if (!order)
		order = a->index < b->index ? -1 : 1;
	return a->is_descending ? -order : order;
}

/* Without a match: the names, ascending. */
static uint32_t find_column(const char *sort, bool *is_descending)
{
	*is_descending = sort && sort[0] == '-';
	for (uint32_t i = 0; sort && i < COLUMNS; i++)
		if (strcmp(columns[i].key, sort + *is_descending) == 0)
			return i;
	*is_descending = false;
	return AT_NAME;
}

static bool is_shown(const struct ky_list_view *view, const struct ky_listed *one)
{
	return one->state != KY_LISTED_FOREIGN &&
	       (!view->service || strcmp(view->service, one->facts.service) == 0) &&
	       (!view->host || strcmp(view->host, one->facts.host) == 0);
}

/* Returns rows to free; NULL: memory is short, or there are none. */
static struct row *choose(struct ky_buf *out, const struct ky_list_view *view, size_t *count)
{
	struct row *rows = ky_alloc(view->count * sizeof(*rows) + 1);
	bool is_descending;
	uint32_t column = find_column(view->sort, &is_descending);

	*count = 0;
	if (!rows) {
		out->failed = -ENOMEM;
		return NULL;
	}
	for (size_t i = 0; i < view->count; i++)
		if (is_shown(view, &view->entries[i])) {
			rows[*count] = (struct row){&view->entries[i], column, (uint32_t)i,
						    is_descending};
			(*count)++;
		}
	if (*count)
		qsort(rows, *count, sizeof(*rows), compare);
	return rows;
}

/* ---- the page ---- */

/* The address of the list as it is, but for one key. */
static void put_address(struct ky_buf *out, const struct ky_list_view *view, const char *key,
			const char *value)
{
	const struct {
		const char *key, *value;
	} all[] = {{"sort", view->sort},
		   {"service", view->service},
		   {"host", view->host},
		   {"pick", view->pick}};
	const char *between = "?";

	ky_out_text(out, "./");
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		const char *chosen = strcmp(all[i].key, key) == 0 ? value : all[i].value;

		if (!chosen)
			continue;
		ky_out_format(out, "%s%s=", between, all[i].key);
		ky_html_query(out, chosen);
		between = "&amp;";
	}
}

static void put_heads(struct ky_buf *out, const struct ky_list_view *view)
{
	bool is_descending;
	uint32_t sorted = find_column(view->sort, &is_descending);
	char key[32];

	ky_out_text(out, "<thead><tr>");
	for (uint32_t i = 0; i < COLUMNS; i++) {
		bool is_next_up = sorted == i ? is_descending : !columns[i].is_number;

		(void)snprintf(key, sizeof(key), "%s%s", is_next_up ? "" : "-", columns[i].key);
		ky_out_format(out, "<th scope=\"col\"%s%s><a href=\"",
			      columns[i].is_number ? " class=\"n\"" : "",
			      sorted != i   ? "" :
			      is_descending ? " aria-sort=\"descending\"" :
					      " aria-sort=\"ascending\"");
		put_address(out, view, "sort", key);
		ky_out_format(out, "\">%s</a>%s</th>", columns[i].head,
			      sorted != i   ? "" :
			      is_descending ? " \xe2\x96\xbc" :
					      " \xe2\x96\xb2");
	}
	ky_out_text(out, "</tr></thead>\n");
}

static void put_choice(struct ky_buf *out, const struct ky_list_view *view, const char *key,
		       const char *value)
{
	ky_out_text(out, "<td>");
	if (value[0]) {
		ky_out_text(out, "<a href=\"");
		put_address(out, view, key, value);
		ky_out_text(out, "\">");
		ky_html_text(out, value);
		ky_out_text(out, "</a>");
	}
	ky_out_text(out, "</td>");
}

static void put_number(struct ky_buf *out, const char *text)
{
	ky_out_format(out, "<td class=\"n\">%s</td>", text);
}

static void put_facts(struct ky_buf *out, const struct ky_list_view *view,
		      const struct ky_listed *one)
{
	const struct ky_trace_facts *facts = &one->facts;
	char cell[KY_OUT_CELL_BYTES];
	bool has_counts;

	put_choice(out, view, "service", facts->service);
	put_choice(out, view, "host", facts->host);
	ky_out_format(out, "<td class=\"n\">%.19s</td>",
		      facts->start_unix_ns ? ky_out_utc(cell, facts->start_unix_ns) : "");
	/* Of a trace in a bucket that has no index only its name and size are known. */
	has_counts = facts->event_count != 0;
	put_number(out, has_counts ? ky_out_duration(cell, facts->duration_ns) : "");
	put_number(out, ky_out_bytes(cell, one->bytes));
	put_number(out, has_counts ? ky_out_count(cell, rate(facts)) : "");
	put_number(out, has_counts ? ky_out_count(cell, facts->poll_count) : "");
	if (facts->delay_count)
		ky_out_format(out, "<td class=\"n h%u\">%s</td>", ky_heat_of(facts->worst_delay_ns),
			      ky_out_duration(cell, facts->worst_delay_ns));
	else
		put_number(out, "");
	put_number(out, facts->poll_count ? ky_out_duration(cell, facts->worst_poll_ns) : "");
}

static void put_row(struct ky_buf *out, const struct ky_list_view *view,
		    const struct ky_listed *one)
{
	char cell[KY_OUT_CELL_BYTES];

	/* Where bytes cost time the page looks at the index first: ?open= does. */
	ky_out_format(out, "<tr><td class=\"file\"><a href=\"view.html?%s=%016" PRIx64 "\">",
		      one->is_far ? "open" : "trace", one->id);
	ky_html_text(out, one->shown);
	ky_out_text(out, "</a>");
	if (one->facts.is_torn)
		ky_out_text(out, one->state == KY_LISTED_READ && !ky_listed_is_current(one) ?
					 " (grows)" :
					 " (without its end)");
	if (one->facts.lost_count)
		ky_out_format(out, " (lost %s)", ky_out_count(cell, one->facts.lost_count));
	ky_out_text(out, "</td>");
	if (one->state == KY_LISTED_READ) {
		put_facts(out, view, one);
	} else {
		ky_out_format(out, "<td class=\"why\" colspan=\"4\">");
		ky_html_text(out, one->state == KY_LISTED_WAITING ? "not read yet" :
								    one->facts.sentence);
		ky_out_format(out, "</td><td class=\"n\">%s</td><td colspan=\"4\"></td>",
			      ky_out_bytes(cell, one->bytes));
	}
	ky_out_text(out, "</tr>\n");
}

static void put_words(struct ky_buf *out, const struct ky_list_view *view, size_t count)
{
	ky_out_format(out, "<p role=\"status\">%zu trace%s", count, count == 1 ? "" : "s");
	if (view->service || view->host) {
		ky_out_text(out, " of ");
		ky_html_text(out, view->service ? view->service : view->host);
		if (view->service && view->host) {
			ky_out_text(out, " on ");
			ky_html_text(out, view->host);
		}
		ky_out_text(out, " (<a href=\"./\">all</a>)");
	}
	if (view->waiting_count)
		ky_out_format(out, "; %zu still to be read", view->waiting_count);
	if (view->is_cut)
		ky_out_text(out, "; there are more files than this list holds");
	ky_out_text(out, "</p>\n");
}

static void put_heat(struct ky_buf *out, const struct ky_list_view *view, const struct row *rows,
		     size_t count)
{
	const struct ky_listed **traces = ky_alloc(count * sizeof(*traces) + 1);
	struct ky_heat_view heat = {.traces = traces, .pick = view->pick};
	struct ky_buf address;

	ky_buf_init(&address, 0);
	put_address(&address, view, "pick", NULL);
	(void)ky_buf_append(&address, "", 1);
	for (size_t i = 0; traces && i < count; i++)
		if (rows[i].one->state == KY_LISTED_READ && rows[i].one->facts.start_unix_ns)
			traces[heat.count++] = rows[i].one;
	heat.address = (const char *)address.bytes;
	if (!traces || address.failed)
		out->failed = -ENOMEM;
	else
		ky_heat_page(out, &heat);
	ky_buf_release(&address);
	ky_free((void *)traces);
}

void ky_list_page(struct ky_buf *out, const struct ky_list_view *view)
{
	size_t count;
	struct row *rows = choose(out, view, &count);

	ky_out_format(out,
		      "<!doctype html>\n<html lang=\"en\" data-waiting=\"%zu\"><head>"
		      "<meta charset=\"utf-8\">"
		      "<meta name=\"viewport\" content=\"width=device-width\">"
		      "<meta http-equiv=\"refresh\" content=\"%d\"><title>kymo: traces</title>"
		      "<link rel=\"stylesheet\" href=\"list.css\"></head>\n<body>"
		      "<h1>Traces</h1>\n",
		      view->waiting_count, view->waiting_count ? RELOAD_WAITING_S : RELOAD_S);
	put_words(out, view, count);
	if (view->live_name) {
		ky_out_text(out, "<p><a href=\"view.html?trace=live\">");
		ky_html_text(out, view->live_name);
		ky_out_text(out, "</a>: the last seconds of a process that runs; reload for the "
				 "newest</p>\n");
	}
	if (count)
		put_heat(out, view, rows, count);
	if (count) {
		ky_out_text(out, "<table>\n");
		put_heads(out, view);
		ky_out_text(out, "<tbody>\n");
		for (size_t i = 0; i < count; i++)
			put_row(out, view, rows[i].one);
		ky_out_text(out, "</tbody></table>\n");
	} else if (!view->live_name) {
		ky_out_text(out, "<p>There is no trace here yet; `kymo run -- PROGRAM` makes one. "
				 "This page shows it when it comes.</p>\n");
	}
	ky_out_text(out, "</body></html>\n");
	ky_free(rows);
}

/* ---- JSON ---- */

static const char *const state_texts[] = {
	[KY_LISTED_WAITING] = "waiting",
	[KY_LISTED_READ] = "read",
	[KY_LISTED_FAILED] = "failed",
	[KY_LISTED_FOREIGN] = "foreign",
};

void ky_listed_json(struct ky_buf *out, const struct ky_listed *one, bool has_info)
{
	const struct ky_trace_facts *facts = &one->facts;
	bool is_read = one->state == KY_LISTED_READ;
	char id[KY_LISTED_ID_BYTES];

	(void)snprintf(id, sizeof(id), "%016" PRIx64, one->id);
	ky_json_open(out, NULL, "{");
	ky_json_text(out, "id", id);
	ky_json_text(out, "name", one->shown);
	ky_json_number(out, "bytes", one->bytes);
	ky_json_text(out, "state", state_texts[one->state]);
	ky_json_flag(out, "is_current", ky_listed_is_current(one));
	ky_json_flag(out, "is_far", one->is_far);
	ky_json_text_or_null(out, "sentence", facts->sentence[0] ? facts->sentence : NULL);
	ky_json_text_or_null(out, "service", facts->service[0] ? facts->service : NULL);
	ky_json_text_or_null(out, "host", facts->host[0] ? facts->host : NULL);
	ky_json_text_or_null(out, "pid", facts->pid[0] ? facts->pid : NULL);
	ky_json_number_or_null(out, "start_unix_ns", facts->start_unix_ns != 0,
			       facts->start_unix_ns);
	ky_json_number_or_null(out, "duration_ns", is_read, facts->duration_ns);
	ky_json_number_or_null(out, "events", is_read, facts->event_count);
	ky_json_number_or_null(out, "polls", is_read, facts->poll_count);
	ky_json_number_or_null(out, "lost", is_read, facts->lost_count);
	ky_json_number_or_null(out, "worst_delay_ns", facts->delay_count != 0,
			       facts->worst_delay_ns);
	ky_json_number_or_null(out, "worst_poll_ns", facts->poll_count != 0, facts->worst_poll_ns);
	if (has_info) {
		ky_json_key(out, "info");
		ky_out_text(out, facts->info ? facts->info : "null");
	}
	ky_json_close(out, "}");
}

void ky_list_json(struct ky_buf *out, const struct ky_list_view *view)
{
	size_t count;
	struct row *rows = choose(out, view, &count);

	ky_json_open(out, NULL, "{");
	ky_json_number(out, "waiting", view->waiting_count);
	ky_json_flag(out, "is_cut", view->is_cut);
	ky_json_open(out, "traces", "[");
	for (size_t i = 0; i < count; i++)
		ky_listed_json(out, rows[i].one, false);
	ky_json_close(out, "]");
	ky_json_close(out, "}");
	ky_out_text(out, "\n");
	ky_free(rows);
}
