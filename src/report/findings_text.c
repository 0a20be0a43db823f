/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/findings_text.h>

#include <report/loss_text.h>

#include <base/out_text.h>
#include <analyze/short_name.h>
#include <report/profile_cells.h>
#include <report/watched_text.h>
#include <string.h>
#include <unistd.h>

#define SHOWN_MAX 5u
#define COLUMNS_DEFAULT 100u
#define LABEL_COLUMNS 9u
#define NAME_COLUMNS 72u

/* A sentence after its label, broken at blanks. */
static void put_wrapped(struct ky_buf *out, const char *label, const char *text, size_t bytes)
{
	uint32_t columns = ky_out_columns(STDOUT_FILENO), room;
	size_t at = 0;

	if (!columns || columns > COLUMNS_DEFAULT)
		columns = COLUMNS_DEFAULT;
	room = columns > 2 * LABEL_COLUMNS ? columns - LABEL_COLUMNS : LABEL_COLUMNS;
	ky_out_format(out, "   %-*s", (int)LABEL_COLUMNS - 3, label);
	while (at < bytes) {
		size_t count = bytes - at, cut;

		if (count > room) {
			for (cut = room; cut > 0 && text[at + cut] != ' '; cut--)
				;
			count = cut ? cut : room;
		}
		ky_out_safe(out, text + at, count);
		ky_out_text(out, "\n");
		for (at += count; at < bytes && text[at] == ' '; at++)
			;
		if (at < bytes)
			ky_out_format(out, "%*s", (int)LABEL_COLUMNS, "");
	}
}

static void put_buf(struct ky_buf *out, const char *label, const struct ky_buf *text)
{
	put_wrapped(out, label, (const char *)text->bytes, text->used);
}

static void put_culprit(struct ky_buf *out, const struct ky_findings *findings,
			const struct ky_finding *one)
{
	const struct ky_trace *trace = findings->facts.trace;
	const struct ky_culprit_of *culprit = &one->culprit;
	char name[KY_SHORT_NAME_BYTES], place[KY_PROFILE_CELL_BYTES];
	struct ky_buf text;

	ky_buf_init(&text, 0);
	if (culprit->code) {
		ky_out_text(&text, ky_short_name(name, culprit->code->name, NAME_COLUMNS));
		if (*ky_profile_place(place, culprit->code))
			ky_out_format(&text, " at %s", place);
		if (culprit->callee)
			ky_out_format(&text, ", which calls %s",
				      ky_short_name(name, culprit->callee->name, NAME_COLUMNS));
		ky_out_text(&text, ", ");
	}
	if (culprit->task != KY_NONE)
		ky_out_format(&text, "tasks %s",
			      ky_short_name(name, ky_trace_name(trace, culprit->task),
					    NAME_COLUMNS));
	else if (culprit->thread != KY_NONE)
		ky_out_format(&text, "thread %s", ky_trace_name(trace, culprit->thread));
	else
		ky_out_format(&text, "%s", culprit->resource ? culprit->resource : culprit->kind);
	put_buf(out, "cause", &text);
	ky_buf_release(&text);
}

static void put_finding(struct ky_buf *out, const struct ky_findings *findings, uint32_t at,
			bool is_coloured)
{
	const struct ky_finding *one = &findings->list[at];
	char title[128], share[KY_OUT_CELL_BYTES];
	uint32_t number = one->severity == KY_SEVERITY_INFO ? 1 : at + 1;
	struct ky_buf line;

	ky_buf_init(&line, 0);
	ky_out_format(&line, "%u. %s (%s, %s, %s)", number, ky_finding_name(one),
		      ky_severity_name(one->severity), ky_confidence_name(one->confidence),
		      ky_out_permille(share, (one->score_ppm + 500) / 1000));
	if (line.used < sizeof(title)) {
		memcpy(title, line.bytes, line.used);
		title[line.used] = '\0';
		ky_out_heading(out, is_coloured, title);
	}
	ky_buf_release(&line);
	put_buf(out, "what", &one->statement);
	put_culprit(out, findings, one);
	put_buf(out, "harm", &one->impact);
	put_buf(out, "next", &one->action);
	for (uint32_t i = 0; i < one->missing_count; i++)
		put_wrapped(out, i ? "" : "note", one->missing[i].effect,
			    strlen(one->missing[i].effect));
	ky_out_text(out, "\n");
}

static bool is_late(const struct ky_facts *facts)
{
	return facts->why->worst_count && facts->why->worst[0].delay_ns >= KY_FIND_WORST_NS_MIN &&
	       ky_share_ppm(facts->why->slow_all_ns, facts->ready_ns) >= KY_FIND_SHARE_PPM_MIN;
}

/* Of the causes below a warning the first, if it explains a share that counts; KY_NONE: none. */
static uint32_t nearest_of(const struct ky_findings *findings)
{
	for (uint32_t i = findings->alarm_count; i < findings->count; i++)
		if (!ky_finding_is_of_recording(&findings->list[i]) &&
		    findings->list[i].score_ppm >= KY_FIND_SHARE_PPM_MIN)
			return i;
	return KY_NONE;
}

/* What says that it is: no share of it can be a finding. */
static void put_healthy(struct ky_buf *out, const struct ky_findings *findings, uint32_t nearest)
{
	const struct ky_report *report = findings->facts.report;
	char a[KY_OUT_CELL_BYTES], b[KY_OUT_CELL_BYTES], c[KY_OUT_CELL_BYTES];
	uint64_t active = 0, known = 0;

	if (!report->polls.count) {
		ky_out_text(out, "No poll is in the trace: nothing can be said about its tasks.\n");
		return;
	}
	if (is_late(&findings->facts))
		ky_out_format(out,
			      "No cause found: %s tasks that were ready waited over 1 ms, up to "
			      "%s, and no finding %s. `kymo why` splits each wait.\n",
			      ky_out_count(a, findings->facts.slow_delays),
			      ky_out_duration(b, findings->facts.why->worst[0].delay_ns),
			      nearest == KY_NONE ? "explains it" :
						   "above info explains it; the nearest one is "
						   "below");
	else
		ky_out_text(out, "Healthy: no cause explains more than a trifle of the time that "
				 "tasks were late, busy or waiting.\n");
	ky_out_format(out, "   polls  %s; p50 %s, p99 %s, longest %s\n",
		      ky_out_count(a, report->polls.count), ky_out_duration(b, report->polls.p50),
		      ky_out_duration(c, report->polls.p99),
		      ky_out_duration((char[KY_OUT_CELL_BYTES]){0}, report->polls.max));
	if (report->delays.count)
		ky_out_format(out, "   wake to poll  p50 %s, p99 %s, longest %s\n",
			      ky_out_duration(a, report->delays.p50),
			      ky_out_duration(b, report->delays.p99),
			      ky_out_duration(c, report->delays.max));
	for (uint32_t i = 0; i < report->worker_count; i++) {
		if (report->workers[i].active_permille == UINT64_MAX)
			continue;
		known += report->workers[i].span_ns - report->workers[i].unknown_ns;
		active += report->workers[i].busy_ns;
	}
	if (known)
		ky_out_format(out, "   workers  %u, in polls %s of the time\n",
			      report->worker_count,
			      ky_out_permille(a, active / (known / 1000 + 1)));
}

/* Causes that are no findings: not hidden, not shown. */
static void put_rest(struct ky_buf *out, const struct ky_findings *findings, uint32_t shown,
		     uint32_t nearest)
{
	uint32_t more = findings->alarm_count - shown, small = 0;

	for (uint32_t i = findings->alarm_count; i < findings->count; i++)
		small += i != nearest && !ky_finding_is_of_recording(&findings->list[i]);

	if (more)
		ky_out_format(out, "%u more: kymo report --json.\n", more);
	if (small)
		ky_out_format(out,
			      "Too small or too short to count: %u other %s (info in kymo report "
			      "--json).\n",
			      small, small == 1 ? "cause" : "causes");
}

/* What the recording cannot say, and what would change that. */
static void put_limits(struct ky_buf *out, const struct ky_findings *findings)
{
	for (uint32_t i = findings->alarm_count; i < findings->count; i++) {
		const struct ky_finding *one = &findings->list[i];

		if (!ky_finding_is_of_recording(one))
			continue;
		put_buf(out, "note", &one->statement);
		put_buf(out, "", &one->impact);
		put_buf(out, "next", &one->action);
	}
}

static void put_head(struct ky_buf *out, const struct ky_findings *findings, bool is_coloured)
{
	const struct ky_trace *trace = findings->facts.trace;
	const struct ky_report *report = findings->facts.report;
	const char *service = ky_trace_metadata(trace, "service");
	const char *pid = ky_trace_metadata(trace, "pid");
	char a[KY_OUT_CELL_BYTES], b[KY_OUT_CELL_BYTES];
	uint64_t unix_ns = ky_trace_unix_ns(trace, report->from_ns);
	struct ky_buf line;

	ky_buf_init(&line, 0);
	ky_out_safe(&line, service ? service : "trace", strlen(service ? service : "trace"));
	if (pid)
		ky_out_format(&line, ", pid %s", pid);
	ky_out_format(&line, ": %s", ky_out_duration(a, report->to_ns - report->from_ns));
	if (unix_ns)
		ky_out_format(&line, " from %s UTC", ky_out_utc(a, unix_ns));
	ky_out_format(&line, ", %s polls, %u workers", ky_out_count(b, report->polls.count),
		      report->worker_count);
	if (ky_buf_append(&line, "", 1) == 0)
		ky_out_heading(out, is_coloured, (const char *)line.bytes);
	ky_buf_release(&line);
}

void ky_findings_text(struct ky_buf *out, const struct ky_findings *findings,
		      const struct ky_code_names *names, bool is_coloured, bool is_full)
{
	uint32_t shown = findings->alarm_count < SHOWN_MAX ? findings->alarm_count : SHOWN_MAX;
	uint32_t nearest = !shown && is_late(&findings->facts) ? nearest_of(findings) : KY_NONE;

	put_head(out, findings, is_coloured);
	ky_watched_text(out, findings->facts.trace, names);
	ky_out_text(out, "\n");
	for (uint32_t i = 0; i < shown; i++)
		put_finding(out, findings, i, is_coloured);
	if (!shown)
		put_healthy(out, findings, nearest);
	if (nearest != KY_NONE)
		put_finding(out, findings, nearest, is_coloured);
	put_rest(out, findings, shown, nearest);
	put_limits(out, findings);
	ky_left_out_text(out, findings->facts.trace, "note: ");
	if (findings->facts.trace->unsent_segments) {
		ky_out_text(out, "note: ");
		ky_unsent_text(out, findings->facts.trace);
		ky_out_text(out, "\n");
	}
	if (!is_full)
		ky_out_text(out, "Tables: kymo report --full. Each late task: kymo why.\n");
}
