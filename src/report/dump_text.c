/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/dump_text.h>

#include <base/json_write.h>
#include <base/out_text.h>
#include <report/loss_text.h>
#include <inttypes.h>
#include <string.h>

#define BLOCKING_POOL 254u /* OpenPollEvent.worker_id */
#define NO_WORKER 255u

static uint64_t unix_ns_of(const struct ky_dump_clock *clock, uint64_t monotonic_ns)
{
	return clock->unix_ns + (monotonic_ns - clock->monotonic_ns);
}

static void losses(struct ky_buf *out, const struct ky_cut_report *report)
{
	char count[KY_OUT_CELL_BYTES];

	ky_loss_counts_text(out, &(struct ky_loss_counts){.records = report->records_lost,
							  .samples = report->samples_lost,
							  .since_start = true});
	if (report->slots_overwritten != 0)
		ky_out_format(out, " (%s sub-buffers overwritten while they were copied)",
			      ky_out_count(count, report->slots_overwritten));
}

bool ky_dump_has_all(const struct ky_cut_report *report)
{
	return report->ring_bytes_used < report->ring_bytes && report->slots_overwritten == 0;
}

/* How far back it reaches, or that there is nothing further back. */
static void reach(struct ky_buf *out, const struct ky_cut_report *report, uint64_t asked_ns)
{
	char bytes[KY_OUT_CELL_BYTES], span[KY_OUT_CELL_BYTES];
	uint64_t permille;

	ky_out_bytes(bytes, report->ring_bytes);
	ky_out_duration(span, report->age_ns);
	if (ky_dump_has_all(report)) {
		/* A ring has at most some GiB: no overflow. */
		permille = report->ring_bytes_used * 1000 / report->ring_bytes;
		ky_out_format(out,
			      "; the ring of %s holds all %s since the start, %" PRIu64 ".%" PRIu64
			      " %% used",
			      bytes, span, permille / 10, permille % 10);
		return;
	}
	ky_out_format(out, "; the ring of %s is full and reaches %s back", bytes, span);
	if (report->ring_bytes_needed != 0 && asked_ns != 0)
		ky_out_format(out, ", %s would take one of %s", ky_out_duration(span, asked_ns),
			      ky_out_bytes(bytes, report->ring_bytes_needed));
}

void ky_dump_summary(struct ky_buf *out, const struct ky_cut_report *report,
		     const struct ky_dump_clock *clock, uint64_t asked_ns)
{
	char from[KY_OUT_CELL_BYTES], to[KY_OUT_CELL_BYTES], span[KY_OUT_CELL_BYTES];

	ky_out_format(out, "%s events, ", ky_out_count(span, report->events_written));
	ky_out_utc(from, unix_ns_of(clock, report->oldest_ns));
	ky_out_utc(to, unix_ns_of(clock, report->newest_ns));
	/* The day once, where it is the same. */
	ky_out_format(out, "%s to %s UTC (%s), ", from, strncmp(from, to, 11) == 0 ? to + 11 : to,
		      ky_out_duration(span, report->newest_ns - report->oldest_ns));
	losses(out, report);
	reach(out, report, asked_ns);
}

void ky_dump_stopped(struct ky_buf *out, const struct ky_cut_report *report,
		     const struct ky_dump_clock *clock)
{
	uint64_t stopped_ns = report->stopped_ns;
	char at[KY_OUT_CELL_BYTES];

	if (stopped_ns)
		ky_out_format(out, "; recording was stopped at %s UTC",
			      ky_out_utc(at, unix_ns_of(clock, stopped_ns)));
}

/* 254 and 255 are no workers. */
static void put_where(struct ky_buf *out, const struct ky_cut_poll *poll, uint32_t indent)
{
	if (poll->worker_id == BLOCKING_POOL)
		ky_out_format(out, "%*sthread %u of the blocking pool ran task %" PRIu64 " ",
			      (int)indent, "", poll->tid, poll->task);
	else if (poll->worker_id == NO_WORKER)
		ky_out_format(out, "%*sthread %u polled task %" PRIu64 " ", (int)indent, "",
			      poll->tid, poll->task);
	else
		ky_out_format(out, "%*sworker %u (thread %u) polled task %" PRIu64 " ", (int)indent,
			      "", poll->worker_id, poll->tid, poll->task);
}

void ky_dump_polls(struct ky_buf *out, const struct ky_cut_report *report, uint64_t at_ns,
		   uint32_t indent)
{
	uint32_t listed = report->open_poll_count < KY_CUT_POLLS_MAX ? report->open_poll_count :
								       KY_CUT_POLLS_MAX;
	char span[KY_OUT_CELL_BYTES];
	uint32_t i;

	for (i = 0; i < listed; i++) {
		const struct ky_cut_poll *poll = &report->open_polls[i];

		put_where(out, poll, indent);
		if (poll->name[0] != '\0')
			ky_out_safe(out, poll->name, strnlen(poll->name, sizeof(poll->name)));
		ky_out_text(out, poll->name[0] != '\0' ? ", " : "");
		if (at_ns > poll->start_ns)
			ky_out_format(out, "for at least %s\n",
				      ky_out_duration(span, at_ns - poll->start_ns));
		else
			ky_out_text(out, "for an unknown time: nothing was recorded after its "
					 "begin\n");
	}
	if (listed < report->open_poll_count)
		ky_out_format(out, "%*s... and %u more\n", (int)indent, "",
			      report->open_poll_count - listed);
}

static void polls_json(struct ky_buf *out, const struct ky_cut_report *report)
{
	uint32_t listed = report->open_poll_count < KY_CUT_POLLS_MAX ? report->open_poll_count :
								       KY_CUT_POLLS_MAX;
	uint32_t i;

	ky_json_open(out, "open_polls", "[");
	for (i = 0; i < listed; i++) {
		const struct ky_cut_poll *poll = &report->open_polls[i];

		ky_json_open(out, NULL, "{");
		ky_json_number(out, "worker", poll->worker_id);
		ky_json_number(out, "tid", poll->tid);
		ky_json_number(out, "task", poll->task);
		ky_json_number(out, "start_ns", poll->start_ns);
		ky_json_text(out, "name", poll->name);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
	ky_json_number(out, "open_poll_count", report->open_poll_count);
}

void ky_dump_summary_json(struct ky_buf *out, const char *file, uint64_t file_bytes,
			  const struct ky_cut_report *report, const struct ky_dump_clock *clock)
{
	ky_json_text(out, "file", file);
	ky_json_number(out, "bytes", file_bytes);
	ky_json_number(out, "events", report->events_written);
	ky_json_number(out, "records_read", report->records_read);
	ky_json_number(out, "records_lost", report->records_lost);
	ky_json_number(out, "samples_lost_since_start", report->samples_lost);
	ky_json_number(out, "oldest_ns", report->oldest_ns);
	ky_json_number(out, "newest_ns", report->newest_ns);
	ky_json_number(out, "oldest_unix_ns", unix_ns_of(clock, report->oldest_ns));
	ky_json_number(out, "newest_unix_ns", unix_ns_of(clock, report->newest_ns));
	ky_json_number(out, "age_ns", report->age_ns);
	ky_json_number_or_null(out, "stopped_unix_ns", report->stopped_ns != 0,
			       unix_ns_of(clock, report->stopped_ns));
	ky_json_number(out, "ring_bytes", report->ring_bytes);
	ky_json_number(out, "ring_bytes_used", report->ring_bytes_used);
	ky_json_number(out, "ring_bytes_needed", report->ring_bytes_needed);
	ky_json_number(out, "slots_overwritten", report->slots_overwritten);
	ky_json_number(out, "bytes_copied", report->bytes_copied);
	ky_json_number(out, "copy_cpu_ns", report->copy_cpu_ns);
	ky_json_number(out, "encode_cpu_ns", report->encode_cpu_ns);
	polls_json(out, report);
}
