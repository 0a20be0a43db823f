/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <serve/heat_page.h>

#include <base/alloc.h>
#include <base/out_text.h>
#include <errno.h>
#include <inttypes.h>
#include <serve/html_text.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RATE_STEPS 4u

uint32_t ky_heat_of(uint64_t ns)
{
	uint32_t step = 0;

	for (uint64_t bound = 100000; step < KY_HEATS - 1 && ns >= bound; bound *= 10)
		step++;
	return step;
}

/* Of one process: traces [first, first + count) of the sorted ones. */
struct process {
	size_t first, count;
	uint64_t worst_ns, events;
};

struct heat_cell {
	uint64_t delay_ns, poll_ns;
	double events;
	bool is_there;
};

struct heat {
	const struct ky_heat_view *view;
	const struct ky_listed **traces; /* by process, then by time */
	struct process *processes;
	size_t process_count;
	uint64_t from_ns, to_ns; /* Unix */
};

static int compare_owner(const struct ky_trace_facts *a, const struct ky_trace_facts *b)
{
	int order = strcmp(a->service, b->service);

	if (!order)
		order = strcmp(a->host, b->host);
	return order ? order : strcmp(a->pid, b->pid);
}

static int compare_traces(const void *left, const void *right)
{
	const struct ky_trace_facts *a = &(*(const struct ky_listed *const *)left)->facts;
	const struct ky_trace_facts *b = &(*(const struct ky_listed *const *)right)->facts;
	int order = compare_owner(a, b);

	return order ? order :
		       (a->start_unix_ns > b->start_unix_ns) -
			       (a->start_unix_ns < b->start_unix_ns);
}

static int compare_processes(const void *left, const void *right)
{
	const struct process *a = left, *b = right;

	if (a->worst_ns != b->worst_ns)
		return a->worst_ns < b->worst_ns ? 1 : -1;
	return (a->first > b->first) - (a->first < b->first);
}

static uint64_t worst_of(const struct ky_trace_facts *facts)
{
	return facts->delay_count ? facts->worst_delay_ns : facts->worst_poll_ns;
}

static int sort(struct heat *heat)
{
	size_t count = heat->view->count;

	heat->traces = ky_alloc(count * sizeof(*heat->traces) + 1);
	heat->processes = ky_alloc(count * sizeof(*heat->processes) + 1);
	if (!heat->traces || !heat->processes)
		return -ENOMEM;
	memcpy((void *)heat->traces, heat->view->traces, count * sizeof(*heat->traces));
	qsort((void *)heat->traces, count, sizeof(*heat->traces), compare_traces);
	heat->from_ns = UINT64_MAX;
	for (size_t i = 0; i < count; i++) {
		const struct ky_trace_facts *facts = &heat->traces[i]->facts;
		uint64_t end = facts->start_unix_ns + facts->duration_ns;
		struct process *process;

		if (!i || compare_owner(&heat->traces[i - 1]->facts, facts))
			heat->processes[heat->process_count++].first = i;
		process = &heat->processes[heat->process_count - 1];
		process->count++;
		process->events += facts->event_count;
		if (worst_of(facts) > process->worst_ns)
			process->worst_ns = worst_of(facts);
		if (facts->start_unix_ns < heat->from_ns)
			heat->from_ns = facts->start_unix_ns;
		if (end > heat->to_ns)
			heat->to_ns = end;
	}
	qsort(heat->processes, heat->process_count, sizeof(*heat->processes), compare_processes);
	return 0;
}

static uint64_t edge(const struct heat *heat, uint32_t column)
{
	uint64_t span = heat->to_ns - heat->from_ns + 1;

	return heat->from_ns + span / KY_HEAT_COLUMNS * column +
	       span % KY_HEAT_COLUMNS * column / KY_HEAT_COLUMNS;
}

static bool touches(const struct ky_trace_facts *facts, uint64_t from, uint64_t to)
{
	return facts->start_unix_ns < to && facts->start_unix_ns + facts->duration_ns >= from;
}

static void put_ids(struct ky_buf *out, const struct heat *heat, const struct process *process,
		    uint64_t from, uint64_t to)
{
	const char *between = "";
	uint32_t count = 0;

	for (size_t i = process->first; i < process->first + process->count; i++) {
		if (!touches(&heat->traces[i]->facts, from, to) || count == KY_HEAT_IDS_MAX)
			continue;
		ky_out_format(out, "%s%016" PRIx64, between, heat->traces[i]->id);
		between = ",";
		count++;
	}
}

static struct heat_cell cell_of(const struct heat *heat, const struct process *process,
				uint64_t from, uint64_t to)
{
	struct heat_cell cell = {.is_there = false};

	for (size_t i = process->first; i < process->first + process->count; i++) {
		const struct ky_trace_facts *facts = &heat->traces[i]->facts;
		uint64_t end = facts->start_unix_ns + facts->duration_ns;
		uint64_t begin = facts->start_unix_ns > from ? facts->start_unix_ns : from;

		if (!touches(facts, from, to))
			continue;
		cell.is_there = true;
		if (facts->worst_delay_ns > cell.delay_ns)
			cell.delay_ns = facts->worst_delay_ns;
		if (facts->worst_poll_ns > cell.poll_ns)
			cell.poll_ns = facts->worst_poll_ns;
		end = end < to ? end : to;
		if (facts->duration_ns && end > begin)
			cell.events += (double)facts->event_count * (double)(end - begin) /
				       (double)facts->duration_ns;
	}
	return cell;
}

static void put_cell(struct ky_buf *out, const struct heat *heat, const struct process *process,
		     uint32_t column)
{
	uint64_t from = edge(heat, column), to = edge(heat, column + 1);
	struct heat_cell cell = cell_of(heat, process, from, to);
	char words[3][KY_OUT_CELL_BYTES];
	uint32_t rate = 0;
	double a_second;

	if (!cell.is_there) {
		ky_out_text(out, "<td></td>");
		return;
	}
	a_second = cell.events * 1e9 / (double)(to > from ? to - from : 1);
	for (double bound = 1000; rate < RATE_STEPS && a_second >= bound; bound *= 10)
		rate++;
	ky_out_format(out, "<td class=\"h%u r%u\"><a href=\"view.html?open=",
		      ky_heat_of(cell.delay_ns ? cell.delay_ns : cell.poll_ns), rate);
	put_ids(out, heat, process, from, to);
	ky_out_format(out,
		      "\" title=\"%.19s: worst delay %s, worst poll %s, %s events/s\"></a></td>",
		      ky_out_utc(words[0], from), ky_out_duration(words[1], cell.delay_ns),
		      ky_out_duration(words[2], cell.poll_ns),
		      ky_out_count((char[KY_OUT_CELL_BYTES]){0}, (uint64_t)a_second));
}

/* Is the id one of the list? */
static bool is_picked(const struct ky_heat_view *view, const char *id)
{
	return view->pick && strstr(view->pick, id) != NULL;
}

/* The address of the list with this process picked, or no longer. */
static void put_pick(struct ky_buf *out, const struct ky_heat_view *view, const char *id)
{
	bool is_on = is_picked(view, id);
	const char *between = "";

	ky_out_format(out, "<a href=\"%s%spick=", view->address,
		      strchr(view->address, '?') ? "&amp;" : "?");
	for (const char *at = view->pick; at && *at;) {
		size_t bytes = strcspn(at, ",");

		if (bytes == KY_LISTED_ID_BYTES - 1 && strncmp(at, id, bytes) != 0 &&
		    strspn(at, "0123456789abcdef") >= bytes) {
			ky_out_format(out, "%s%.*s", between, (int)bytes, at);
			between = ",";
		}
		at += bytes + (at[bytes] == ',');
	}
	if (!is_on)
		ky_out_format(out, "%s%s", between, id);
	ky_out_format(out, "\">%s</a>", is_on ? "chosen \xe2\x9c\x93" : "choose");
}

static void put_row(struct ky_buf *out, const struct heat *heat, const struct process *process)
{
	const struct ky_listed *first = heat->traces[process->first];
	char id[KY_LISTED_ID_BYTES], cell[KY_OUT_CELL_BYTES];

	(void)snprintf(id, sizeof(id), "%016" PRIx64, first->id);
	ky_out_text(out, "<tr><th scope=\"row\"><a href=\"view.html?open=");
	put_ids(out, heat, process, 0, UINT64_MAX);
	ky_out_text(out, "\">");
	ky_html_text(out, first->facts.service[0] ? first->facts.service : first->name);
	ky_out_text(out, " ");
	ky_html_text(out, first->facts.host);
	ky_out_text(out, " ");
	ky_html_text(out, first->facts.pid);
	ky_out_text(out, "</a></th><td class=\"pick\">");
	put_pick(out, heat->view, id);
	ky_out_format(out, "</td><td class=\"n\">%s</td>",
		      ky_out_duration(cell, process->worst_ns));
	for (uint32_t i = 0; i < KY_HEAT_COLUMNS; i++)
		put_cell(out, heat, process, i);
	ky_out_text(out, "</tr>\n");
}

static void put_picked(struct ky_buf *out, const struct heat *heat)
{
	const char *between = "<p><a class=\"go\" href=\"view.html?open=";
	char id[KY_LISTED_ID_BYTES];
	uint32_t count = 0;

	for (size_t i = 0; i < heat->process_count; i++) {
		const struct process *process = &heat->processes[i];

		(void)snprintf(id, sizeof(id), "%016" PRIx64, heat->traces[process->first]->id);
		if (!is_picked(heat->view, id))
			continue;
		ky_out_text(out, between);
		put_ids(out, heat, process, 0, UINT64_MAX);
		between = ",";
		count++;
	}
	if (count)
		ky_out_format(out, "\">Open the %u chosen on one clock</a></p>\n", count);
}

void ky_heat_page(struct ky_buf *out, const struct ky_heat_view *view)
{
	struct heat heat = {.view = view};
	char words[KY_OUT_CELL_BYTES];

	if (!view->count)
		return;
	if (sort(&heat)) {
		out->failed = -ENOMEM;
	} else {
		put_picked(out, &heat);
		ky_out_format(out, "<table class=\"heat\"><caption>%.19s UTC, for ",
			      ky_out_utc(words, heat.from_ns));
		ky_out_format(out,
			      "%s: the warmer, the later the worst poll; the thicker the line, "
			      "the more events a second</caption>\n<tbody>",
			      ky_out_duration(words, heat.to_ns - heat.from_ns));
		for (size_t i = 0; i < heat.process_count && i < KY_HEAT_ROWS_MAX; i++)
			put_row(out, &heat, &heat.processes[i]);
		ky_out_text(out, "</tbody></table>\n");
	}
	ky_free((void *)heat.traces);
	ky_free(heat.processes);
}
