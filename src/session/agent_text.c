/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <session/agent_text.h>

#include <base/out_text.h>
#include <errno.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <session/run_say.h>
#include <ship/disk_room.h>
#include <string.h>
#include <watch/budget.h>

/* A flight is in its ring all the same. */
static void store_failed(const struct ky_agent_text *text, struct ky_buf *out,
			 const struct ky_agent_event *event)
{
	const struct ky_agent_options *options = &text->options->agent;

	if (options->output.file == NULL)
		ky_out_format(out, "%s: ", options->output.directory);
	ky_out_format(out, "%s%s",
		      event->reason[0] != '\0' ? event->reason : kymo_error_text(event->error),
		      options->is_flight ?
			      "" :
			      "; nothing is recorded until this works, CMD is not affected");
}

static void write_failed(const struct ky_agent_text *text, struct ky_buf *out,
			 const struct ky_agent_event *event)
{
	const struct ky_output_options *output = &text->options->agent.output;
	char why[KY_DISK_ROOM_BYTES];

	ky_out_format(out, "%s: %s; events are lost until %s, CMD is not affected",
		      output->file != NULL ? event->path : output->directory,
		      ky_disk_room_text(why, event->path, event->error),
		      ky_disk_room_is_missing(event->error) ?
			      "there is room (-o takes another place)" :
			      "this works");
}

static void output_text(struct ky_agent_text *text, struct ky_buf *out,
			const struct ky_agent_event *event)
{
	bool *has_said = event->kind == KY_AGENT_STORE_FULL ? &text->has_said_full :
							      &text->has_said_trouble;

	if (text->first_error == 0)
		text->first_error = event->error;
	if (*has_said)
		return;
	*has_said = true;
	if (event->kind == KY_AGENT_STORE_FAILED)
		store_failed(text, out, event);
	else if (event->kind == KY_AGENT_STORE_FULL)
		ky_out_format(out,
			      "%s is as large as --total-bytes allows: what comes now is only "
			      "counted, CMD is not affected",
			      event->path);
	else
		write_failed(text, out, event);
}

/* Once: the next run of this service meets the same. */
static void latest_text(struct ky_agent_text *text, struct ky_buf *out,
			const struct ky_agent_event *event)
{
	if (text->has_said_latest)
		return;
	text->has_said_latest = true;
	if (event->error == -EEXIST)
		ky_out_format(
			out,
			"what is called 'latest' beside %s is not kymo's link, so it stays as "
			"it is",
			event->path);
	else
		ky_out_format(out, "no link 'latest' beside %s: %s", event->path,
			      kymo_error_text(event->error));
}

static void dump_text(struct ky_buf *out, const struct ky_agent_event *event, bool is_quiet)
{
	char why[KY_DISK_ROOM_BYTES], span[KY_OUT_CELL_BYTES];

	if (event->kind == KY_AGENT_DUMP_MADE && is_quiet)
		return;
	ky_out_format(out, "%s: %s; ", event->rule, event->value);
	if (event->kind == KY_AGENT_DUMP_MADE)
		ky_out_format(out, "dump: %s (%" PRIu64 " events, %s)", event->path, event->count,
			      ky_out_duration(span, event->span_ns));
	else if (event->kind == KY_AGENT_DUMP_FAILED)
		ky_out_format(out, "no dump: %s: %s", event->path,
			      ky_disk_room_text(why, event->path, event->error));
	else if (event->kind == KY_AGENT_DUMP_LOST)
		ky_out_text(out, "no dump: the ring file was truncated before it was made");
	else
		ky_out_format(out, "no dump: signal %d (%s) ended the process that made %s",
			      (int)event->count, strsignal((int)event->count), event->path);
}

static void firing_text(struct ky_buf *out, const struct ky_agent_event *event)
{
	ky_out_format(out, "%s fired, but ", event->rule);
	if (event->kind == KY_AGENT_FIRING_UNWRITTEN)
		ky_out_format(out, "the trace does not say so: %s", kymo_error_text(event->error));
	else if (event->error == KYMO_E_BUSY)
		ky_out_format(out, "%u dumps are waiting already: no dump of this one",
			      (unsigned int)event->count);
	else
		ky_out_format(out, "there is no dump of it: %s", kymo_error_text(event->error));
}

static void late_text(struct ky_buf *out, const struct ky_agent_event *event)
{
	char span[KY_OUT_CELL_BYTES];

	ky_out_format(out,
		      "process %u: %" PRIu64
		      " check%s of the rules came too late, by up to %s: what began and ended "
		      "between two checks did not fire",
		      event->pid, event->count, event->count == 1 ? "" : "s",
		      ky_out_duration(span, event->span_ns));
}

static void budget_text(struct ky_buf *out, const struct ky_agent_event *event, bool is_quiet)
{
	if (event->kind == KY_AGENT_DUMPS_FAIL)
		ky_out_format(out,
			      "a rule holds, but the last %u dumps of process %u failed: for a "
			      "minute firings are only counted",
			      KY_BUDGET_FAILURES, event->pid);
	else if (event->kind == KY_AGENT_BUDGET_USED)
		ky_out_format(out,
			      "a rule holds, but %u dumps, or %u MiB of them, are what process %u "
			      "may have in an hour: until that is over firings are only counted",
			      KY_BUDGET_DUMPS, (unsigned int)(KY_BUDGET_BYTES >> 20), event->pid);
	else if (!is_quiet)
		ky_out_format(out,
			      "process %u: rules held %" PRIu64 " more times since the last dump, "
			      "which cooldown (%" PRIu64 ") and the budget of dumps (%" PRIu64
			      ") held back",
			      event->pid, event->count, event->count - event->budget_count,
			      event->budget_count);
}

void ky_agent_text(struct ky_agent_text *text, struct ky_buf *out,
		   const struct ky_agent_event *event)
{
	bool is_quiet = text->options->is_quiet;

	switch (event->kind) {
	case KY_AGENT_STORE_FAILED:
	case KY_AGENT_STORE_FULL:
	case KY_AGENT_WRITE_FAILED:
		output_text(text, out, event);
		break;
	case KY_AGENT_LATEST_FAILED:
		latest_text(text, out, event);
		break;
	case KY_AGENT_RULE_UNUSABLE:
		ky_out_text(out, event->reason);
		break;
	case KY_AGENT_FIRING_UNWRITTEN:
	case KY_AGENT_DUMP_REFUSED:
		firing_text(out, event);
		break;
	case KY_AGENT_DUMP_MADE:
	case KY_AGENT_DUMP_FAILED:
	case KY_AGENT_MAKER_KILLED:
	case KY_AGENT_DUMP_LOST:
		dump_text(out, event, is_quiet);
		break;
	case KY_AGENT_MAKER_FAILED:
		ky_out_format(out, "%s; no dump: no process for it: %s", event->rule,
			      kymo_error_text(event->error));
		break;
	case KY_AGENT_CHECKS_LATE:
		late_text(out, event);
		break;
	case KY_AGENT_DUMPS_FAIL:
	case KY_AGENT_BUDGET_USED:
	case KY_AGENT_FIRINGS_HELD:
		budget_text(out, event, is_quiet);
		break;
	}
}

void ky_agent_say(void *ctx, const struct ky_agent_event *event)
{
	struct ky_buf sentence;

	ky_buf_init(&sentence, 0);
	ky_agent_text(ctx, &sentence, event);
	if (sentence.used > 0)
		ky_run_say("%.*s", (int)sentence.used, (const char *)sentence.bytes);
	ky_buf_release(&sentence);
}
