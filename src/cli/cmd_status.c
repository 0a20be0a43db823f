/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/json_write.h>
#include <cli/cli.h>

#include <base/alloc.h>
#include <base/now.h>
#include <base/out_text.h>
#include <cli/shared_options.h>
#include <cli/ring_arguments.h>
#include <report/loss_text.h>
#include <ring/ring_drainer.h>
#include <ring/ring_end.h>
#include <ring/ring_status.h>
#include <ship/sent_list.h>
#include <symbol/debug_symbols.h>
#include <symbol/ring_names.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define POLL_ROWS_MAX 40u

struct status_arguments {
	struct ky_ring_query query;
	const char *process;
	bool is_json;
};

struct status {
	struct ky_found_ring found;
	struct ky_open_ring ring;
	struct ky_ring_status state;
	struct ky_ring_ending ending;
	char ending_text[KY_END_TEXT_BYTES];
	struct ky_ring_drainer drainer;
};

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct status_arguments *arguments = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &arguments->query;
		state->child_inputs[1] = &arguments->is_json;
		return 0;
	default:
		return ky_ring_argument_parse(key, text, &arguments->process);
	}
}

static int read_all(void *ctx)
{
	struct status *status = ctx;
	const struct ky_open_ring *ring = &status->ring;
	struct ky_ring_namer namer = {.name = ky_ring_names_text};
	struct ky_ring_names *names = NULL;
	int err = ky_ring_names_open(&names, ring->image, ring->image_bytes, ky_debug_symbols_add);

	if (err < 0)
		return err;
	if (ring->pid != 0)
		ky_ring_names_process(names, ring->pid);
	namer.ctx = names;
	ky_ring_ending_read(&status->ending, ring, &status->found);
	err = ky_ring_status_read(&status->state, ring, &status->found, &namer);
	ky_ring_names_close(names);
	return err;
}

/* ---- text ---- */

static void label(struct ky_buf *out, const char *name)
{
	ky_out_format(out, "%-10s ", name);
}

static void safe(struct ky_buf *out, const char *text)
{
	ky_out_safe(out, text, strlen(text));
}

static void print_process(struct ky_buf *out, const struct status *status)
{
	const struct ky_found_ring *found = &status->found;
	char cell[KY_OUT_CELL_BYTES];

	label(out, "Process");
	ky_out_format(out, "%u, %s", ky_found_pid(found), ky_ring_state_text(found));
	if (found->is_foreign)
		ky_out_format(out, ", pid %u of another pid namespace", found->ring_pid);
	if (found->is_replaced)
		ky_out_text(out, ", another program since an exec");
	if (found->is_other_boot)
		ky_out_text(out, ", before this machine was started");
	ky_out_text(out, "\n");
	if (found->state != KY_FOUND_ALIVE) {
		label(out, "Ended");
		safe(out, status->ending_text);
		ky_out_text(out, "\n");
	}
	label(out, "Service");
	safe(out, found->service[0] != '\0' ? found->service : "not named");
	ky_out_text(out, "\n");
	label(out, "Recording");
	ky_out_format(out, "since %s UTC, ", ky_out_utc(cell, found->made_unix_ns));
	ky_out_format(out, "%s; kymo ", ky_out_duration(cell, ky_ring_age_ns(found)));
	safe(out, status->state.recorder_version);
	ky_out_text(out, ", ");
	safe(out, status->state.arch);
	if (found->stopped_ns) {
		ky_out_format(out, "\n%-10s stopped %s after its start", "",
			      ky_out_duration(cell, ky_ring_stopped_after_ns(found)));
		if (found->state == KY_FOUND_ALIVE)
			ky_out_format(out, "; `kymo set %u recording=on` resumes it",
				      ky_found_pid(found));
	}
	ky_out_format(out, "\n%-10s %s%s\n", "Mode", ky_ring_mode_text(found->mode),
		      (found->mode == KY_RING_MODE_FLIGHT) !=
				      ((found->flags & KY_RING_FLIGHT) != 0) ?
			      ", set while it ran" :
			      "");
}

static void print_drain(struct ky_buf *out, const struct status *status)
{
	bool is_abandoned = false;

	if (status->found.state != KY_FOUND_ALIVE)
		return;
	label(out, "Drained by");
	if (status->drainer.is_own)
		ky_out_text(out, "its own thread " KY_DRAIN_THREAD);
	else if (status->drainer.holder != 0) {
		safe(out, status->drainer.name);
		ky_out_format(out, ", process %u", status->drainer.holder);
	} else if (status->drainer.is_claimed) {
		ky_out_text(out, "a kymo that cannot be seen from here");
	} else {
		ky_out_text(out, status->found.mode == KY_RING_MODE_FLIGHT ?
					 "no process: in flight mode events stay in the ring" :
					 "no process that is visible from here");
		is_abandoned = status->found.mode == KY_RING_MODE_STREAM;
	}
	if (status->state.drained_path[0] != '\0') {
		ky_out_text(out, is_abandoned ? "; its trace is in " : ", into ");
		safe(out, status->state.drained_path);
	}
	if (is_abandoned)
		ky_out_format(out, "; `kymo attach %u` drains it", ky_found_pid(&status->found));
	ky_out_text(out, "\n");
}

/* Of the run that it is drained into. False: nothing is sent from there. */
static bool count_sent(const struct status *status, struct ky_sent_counts *counts)
{
	int fd = open(status->state.drained_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	*counts = (struct ky_sent_counts){.destination_count = 0};
	if (fd < 0)
		return false;
	ky_sent_counts_add(counts, fd);
	close(fd);
	return counts->destination_count != 0;
}

static void print_sent(struct ky_buf *out, const struct status *status)
{
	struct ky_sent_counts counts;
	char cell[KY_OUT_CELL_BYTES];

	if (!count_sent(status, &counts))
		return;
	label(out, "Sent");
	ky_out_format(out, "%s segment%s", ky_out_count(cell, counts.taken_count),
		      counts.taken_count == 1 ? "" : "s");
	if (counts.destination_count > 1)
		ky_out_format(out, " to %" PRIu64 " destinations together",
			      counts.destination_count);
	ky_out_format(out, ", %s waiting", ky_out_count(cell, counts.waiting_count));
	if (counts.lost_count)
		ky_out_format(out, "; %s lost: --total-bytes deleted them before they were sent",
			      ky_out_count(cell, counts.lost_count));
	ky_out_text(out, "\n");
}

static void print_ring(struct ky_buf *out, const struct status *status)
{
	const struct ky_ring_status *state = &status->state;
	const uint32_t *slots = state->count.slots_by_state;
	char a[KY_OUT_CELL_BYTES], b[KY_OUT_CELL_BYTES];

	label(out, "Ring");
	safe(out, status->found.path);
	ky_out_format(out, "%s%s\n", status->found.is_anonymous ? ", anonymous" : "",
		      status->found.is_truncated ? ", truncated: the file ends early" : "");
	ky_out_format(out, "%-10s %s of %s populated", "",
		      ky_out_bytes(a, status->found.populated_bytes),
		      ky_out_bytes(b, status->found.ring_bytes));
	if (state->usable_count < state->slot_count)
		ky_out_format(out, ", only %s usable: memory ran out",
			      ky_out_bytes(a, (uint64_t)state->usable_count * KY_SLOT_BYTES));
	ky_out_format(out, "\n%-10s %u sub-buffers: %u open, %u closed, %u parked, %u never used; ",
		      "", state->slot_count, slots[KY_SLOT_OPEN] + slots[KY_SLOT_FILLING],
		      slots[KY_SLOT_CLOSED], slots[KY_SLOT_PARKED],
		      state->slot_count - (slots[KY_SLOT_OPEN] + slots[KY_SLOT_FILLING] +
					   slots[KY_SLOT_CLOSED] + slots[KY_SLOT_PARKED]));
	ky_out_format(out, "%s claims\n", ky_out_count(a, state->claim_index));
	label(out, "Recorded");
	ky_out_format(out, "at least %s events by %u thread%s\n",
		      ky_out_count(a, state->record_count), state->thread_count,
		      state->thread_count == 1 ? "" : "s");
	label(out, "Directory");
	ky_out_format(out, "%s of %s", ky_out_bytes(a, state->directory_used),
		      ky_out_bytes(b, state->directory_bytes));
	if (state->directory_overflow_count > 0)
		ky_out_format(out, "; %s entries refused, it is full",
			      ky_out_count(a, state->directory_overflow_count));
	ky_out_text(out, "\n");
}

static void print_dropped(struct ky_buf *out, const struct ky_ring_status *state)
{
	const struct {
		uint64_t count;
		const char *text;
	} causes[] = {
		{state->dropped_signal, "in signal handlers inside an event"},
		{state->dropped_no_slot, "with every sub-buffer open"},
		{state->dropped_no_state, "by more threads or polls than there is room for"},
		{state->dropped_exited, "after a thread's end"},
	};
	const char *separator = ": ";
	char cell[KY_OUT_CELL_BYTES];
	size_t i;

	label(out, "Dropped");
	ky_out_text(out, ky_out_count(cell, state->dropped));
	for (i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
		if (causes[i].count == 0)
			continue;
		ky_out_format(out, "%s%s %s", separator, ky_out_count(cell, causes[i].count),
			      causes[i].text);
		separator = ", ";
	}
	ky_out_text(out, "\n");
	if (state->fork_disarmed_count > 0)
		ky_out_format(out, "%-10s %s forked children do not record\n", "",
			      ky_out_count(cell, state->fork_disarmed_count));
}

/* The drain counts those of their sources, too, once it has read that far. */
static uint64_t samples_lost(const struct ky_ring_status *state)
{
	return state->drain_samples_lost > state->all_samples_lost ? state->drain_samples_lost :
								     state->all_samples_lost;
}

static void print_lost(struct ky_buf *out, const struct ky_ring_status *state)
{
	label(out, "Lost");
	ky_loss_counts_text(out, &(const struct ky_loss_counts){.records = state->records_lost,
								.dropped = state->dropped,
								.samples = samples_lost(state)});
	ky_out_text(out, "\n");
}

static void print_sampling(struct ky_buf *out, const struct ky_ring_status *state)
{
	char cell[KY_OUT_CELL_BYTES];

	label(out, "Sampling");
	ky_out_text(out, state->sampling);
	if (state->sample_hz)
		ky_out_format(out, ", %u Hz of CPU time", state->sample_hz);
	else if (strcmp(state->sampling, "off") != 0 && strcmp(state->sampling, "none") != 0)
		ky_out_text(out, ", paused");
	if (state->samples_min)
		ky_out_format(out, ", at least %s samples", ky_out_count(cell, state->samples_min));
	if (state->samples_lost)
		ky_out_format(out, ", %s lost", ky_out_count(cell, state->samples_lost));
	if (state->all_samples_lost > state->samples_lost)
		ky_out_format(out, ", of other samples %s lost",
			      ky_out_count(cell, state->all_samples_lost - state->samples_lost));
	if (state->sampling_refused[0])
		ky_out_format(out, " (%s)", state->sampling_refused);
	ky_out_text(out, "\n");
	if (strchr(state->sampling_choice, ':'))
		ky_out_format(out, "%-10s now %s\n", "", state->sampling_choice);
}

static void print_settings(struct ky_buf *out, const struct ky_ring_status *state)
{
	char text[KY_SETTING_TEXT_BYTES];
	bool is_any = false;
	size_t i;

	label(out, "Gates");
	for (i = 0; i < state->settings.count; i++) {
		const struct ky_setting_change *one = &state->settings.changes[i];

		if (ky_setting_is_gate(one->setting) && one->before)
			ky_out_format(out, "%s ", ky_setting_name(one->setting));
	}
	ky_out_text(out, "| off:");
	for (i = 0; i < state->settings.count; i++) {
		const struct ky_setting_change *one = &state->settings.changes[i];

		if (ky_setting_is_gate(one->setting) && !one->before)
			ky_out_format(out, " %s", ky_setting_name(one->setting));
	}
	ky_out_text(out, "\n");
	label(out, "Settings");
	for (i = 0; i < state->settings.count; i++) {
		const struct ky_setting_change *one = &state->settings.changes[i];

		if (ky_setting_is_gate(one->setting) || !one->before)
			continue;
		ky_out_format(out, "%s=%s, ", ky_setting_name(one->setting),
			      ky_setting_text(text, one->setting, one->before));
		is_any = true;
	}
	ky_out_text(out, is_any ? "as started otherwise" : "as started");
	if (state->settings.is_unfinished)
		ky_out_text(out, " (half written: another `kymo set` is changing them, or was "
				 "killed; the former values hold until the next one)");
	ky_out_text(out, "\n");
}

static void print_polls(struct ky_buf *out, const struct status *status, bool is_coloured)
{
	const struct ky_ring_status *state = &status->state;
	struct ky_table table;
	uint32_t i;

	label(out, "Open polls");
	ky_out_format(out, "%u%s\n", state->open_poll_count,
		      status->found.state == KY_FOUND_ALIVE ? "" : " when it ended");
	if (state->listed_count == 0)
		return;
	ky_table_begin(&table, "rrlrl", "FOR|TID|THREAD|TASK|NAME");
	for (i = 0; i < state->listed_count && i < POLL_ROWS_MAX; i++) {
		const struct ky_state_poll *poll = &state->polls[i];

		ky_table_duration(&table, poll->length_ns);
		ky_table_format(&table, "%u", poll->tid);
		ky_table_cell(&table, poll->thread_name[0] ? poll->thread_name : "-");
		ky_table_format(&table, "%" PRIu64, poll->task);
		ky_table_cell(&table, poll->text[0] ? poll->text : "-");
	}
	ky_table_end(&table, out, 2, is_coloured);
	if (state->open_poll_count > i)
		ky_out_format(out, "  and %u more\n", state->open_poll_count - i);
}

static void print_side(struct ky_buf *out, const struct status *status)
{
	const struct ky_ring_status *state = &status->state;
	uint64_t now = ky_now_ns(CLOCK_MONOTONIC), since;
	char cell[KY_OUT_CELL_BYTES];
	uint32_t i;

	for (i = 0; i < state->mark_count; i++) {
		const struct ky_mark *mark = &state->marks[i];

		since = mark->monotonic_ns > status->found.made_ns ?
				mark->monotonic_ns - status->found.made_ns :
				0;
		label(out, i == 0 ? "Marks" : "");
		safe(out, mark->text);
		if (status->found.is_other_boot || mark->monotonic_ns > now)
			ky_out_format(out, ", %s after the start", ky_out_duration(cell, since));
		else
			ky_out_format(out, ", %s ago",
				      ky_out_duration(cell, now - mark->monotonic_ns));
		ky_out_format(out, ", by process %u\n", mark->pid);
	}
	for (i = 0; i < state->counter_count; i++) {
		label(out, i == 0 ? "Counters" : "");
		safe(out, state->counters[i].name);
		ky_out_format(out, " = %" PRId64 "%s\n", state->counters[i].value,
			      state->counters[i].counts_errors ? " (errors)" : "");
	}
	if (!state->has_side)
		ky_out_format(out, "%-10s no room for marks and counters in this ring\n", "Marks");
}

/* A key that comes again is newer. */
static void print_metadata(struct ky_buf *out, const struct ky_ring_status *state)
{
	const char *at = (const char *)state->metadata.bytes;
	const char *end = at + state->metadata.used, *name = "Metadata", *value;

	while (at < end) {
		value = at + strlen(at) + 1;
		if (value >= end)
			break;
		label(out, name);
		safe(out, at);
		ky_out_text(out, " = ");
		safe(out, value);
		ky_out_text(out, "\n");
		name = "";
		at = value + strlen(value) + 1;
	}
}

static void print_text(struct ky_buf *out, const struct status *status)
{
	print_process(out, status);
	print_drain(out, status);
	print_sent(out, status);
	print_ring(out, status);
	print_dropped(out, &status->state);
	print_lost(out, &status->state);
	print_sampling(out, &status->state);
	print_settings(out, &status->state);
	print_side(out, status);
	print_metadata(out, &status->state);
	print_polls(out, status, ky_out_is_coloured(STDOUT_FILENO));
}

/* ---- JSON ---- */

static void json_sent(struct ky_buf *out, const struct status *status)
{
	struct ky_sent_counts counts;

	if (!count_sent(status, &counts)) {
		ky_json_null(out, "sent");
		return;
	}
	ky_json_open(out, "sent", "{");
	ky_json_number(out, "destinations", counts.destination_count);
	ky_json_number(out, "segments", counts.taken_count);
	ky_json_number(out, "waiting", counts.waiting_count);
	ky_json_number(out, "lost", counts.lost_count);
	ky_json_number(out, "lost_bytes", counts.lost_bytes);
	ky_json_close(out, "}");
}

static void json_process(struct ky_buf *out, const struct status *status)
{
	const struct ky_found_ring *found = &status->found;

	if (found->pid != 0)
		ky_json_number(out, "pid", found->pid);
	else
		ky_json_null(out, "pid");
	ky_json_number(out, "ring_pid", found->ring_pid);
	ky_json_text(out, "state", ky_ring_state_text(found));
	if (found->state == KY_FOUND_ALIVE)
		ky_json_null(out, "ended");
	else
		ky_json_text(out, "ended", status->ending_text);
	ky_json_text(out, "service", found->service);
	ky_json_text(out, "mode", ky_ring_mode_text(found->mode));
	ky_json_flag(out, "is_foreign", found->is_foreign);
	ky_json_flag(out, "is_replaced", found->is_replaced);
	ky_json_flag(out, "is_other_boot", found->is_other_boot);
	ky_json_flag(out, "is_anonymous", found->is_anonymous);
	ky_json_flag(out, "is_cut", found->is_truncated);
	ky_json_number(out, "started_unix_ns", found->made_unix_ns);
	ky_json_number(out, "age_ns", ky_ring_age_ns(found));
	ky_json_number_or_null(out, "stopped_after_ns", found->stopped_ns != 0,
			       ky_ring_stopped_after_ns(found));
	ky_json_text(out, "recorder_version", status->state.recorder_version);
	ky_json_text(out, "arch", status->state.arch);
	ky_json_flag(out, "drains_itself", status->drainer.is_own);
	ky_json_number_or_null(out, "drained_by_pid", status->drainer.holder != 0,
			       status->drainer.holder);
	ky_json_text(out, "drained_into", status->state.drained_path);
	json_sent(out, status);
	ky_json_text(out, "path", found->path);
}

static void json_ring(struct ky_buf *out, const struct ky_ring_status *state)
{
	const uint32_t *slots = state->count.slots_by_state;

	ky_json_open(out, "ring", "{");
	ky_json_number(out, "slots", state->slot_count);
	ky_json_number(out, "slots_populated", state->populated_count);
	ky_json_number(out, "slots_usable", state->usable_count);
	ky_json_number(out, "slots_open", slots[KY_SLOT_OPEN] + slots[KY_SLOT_FILLING]);
	ky_json_number(out, "slots_closed", slots[KY_SLOT_CLOSED]);
	ky_json_number(out, "slots_parked", slots[KY_SLOT_PARKED]);
	ky_json_number(out, "claims", state->claim_index);
	ky_json_number(out, "directory_bytes", state->directory_bytes);
	ky_json_number(out, "directory_bytes_used", state->directory_used);
	ky_json_number(out, "directory_refused", state->directory_overflow_count);
	ky_json_close(out, "}");
	ky_json_number(out, "threads", state->thread_count);
	ky_json_number(out, "events_at_least", state->record_count);
	ky_json_open(out, "dropped", "{");
	ky_json_number(out, "all", state->dropped);
	ky_json_number(out, "signal", state->dropped_signal);
	ky_json_number(out, "no_slot", state->dropped_no_slot);
	ky_json_number(out, "no_state", state->dropped_no_state);
	ky_json_number(out, "exited", state->dropped_exited);
	ky_json_close(out, "}");
	ky_json_open(out, "lost", "{");
	ky_json_number(out, "records", state->records_lost);
	ky_json_number(out, "samples", samples_lost(state));
	ky_json_close(out, "}");
	ky_json_number(out, "fork_disarmed", state->fork_disarmed_count);
	ky_json_open(out, "sampling", "{");
	ky_json_text(out, "cpu", state->sampling);
	ky_json_text(out, "choice", state->sampling_choice);
	ky_json_number(out, "rate_hz", state->sample_hz);
	ky_json_number(out, "samples_at_least", state->samples_min);
	ky_json_number(out, "lost", state->samples_lost);
	ky_json_number(out, "lost_of_all_kinds", state->all_samples_lost);
	ky_json_text(out, "refused", state->sampling_refused);
	ky_json_close(out, "}");
}

static void json_settings(struct ky_buf *out, const struct ky_ring_status *state)
{
	char text[KY_SETTING_TEXT_BYTES];
	size_t i;

	ky_json_open(out, "settings", "{");
	for (i = 0; i < state->settings.count; i++) {
		const struct ky_setting_change *one = &state->settings.changes[i];

		ky_json_text(out, ky_setting_name(one->setting),
			     ky_setting_text(text, one->setting, one->before));
	}
	ky_json_close(out, "}");
}

static void json_lists(struct ky_buf *out, const struct ky_ring_status *state)
{
	uint32_t i;

	ky_json_open(out, "marks", "[");
	for (i = 0; i < state->mark_count; i++) {
		ky_json_open(out, NULL, "{");
		ky_json_text(out, "text", state->marks[i].text);
		ky_json_number(out, "monotonic_ns", state->marks[i].monotonic_ns);
		ky_json_number(out, "by_pid", state->marks[i].pid);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
	ky_json_open(out, "counters", "[");
	for (i = 0; i < state->counter_count; i++) {
		ky_json_open(out, NULL, "{");
		ky_json_text(out, "name", state->counters[i].name);
		ky_json_signed(out, "value", state->counters[i].value);
		ky_json_flag(out, "counts_errors", state->counters[i].counts_errors);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
	ky_json_number(out, "open_poll_count", state->open_poll_count);
	ky_json_open(out, "open_polls", "[");
	for (i = 0; i < state->listed_count; i++) {
		const struct ky_state_poll *poll = &state->polls[i];

		ky_json_open(out, NULL, "{");
		ky_json_number(out, "tid", poll->tid);
		ky_json_text(out, "thread", poll->thread_name);
		ky_json_number(out, "task", poll->task);
		ky_json_text(out, "name", poll->text);
		ky_json_number(out, "depth", poll->depth);
		ky_json_number(out, "open_ns", poll->length_ns);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
}

static void json_metadata(struct ky_buf *out, const struct ky_ring_status *state)
{
	const char *at = (const char *)state->metadata.bytes;
	const char *end = at + state->metadata.used, *value;

	ky_json_open(out, "metadata", "[");
	while (at < end) {
		value = at + strlen(at) + 1;
		if (value >= end)
			break;
		ky_json_open(out, NULL, "[");
		ky_json_text(out, NULL, at);
		ky_json_text(out, NULL, value);
		ky_json_close(out, "]");
		at = value + strlen(value) + 1;
	}
	ky_json_close(out, "]");
}

static void print_json(struct ky_buf *out, const struct status *status)
{
	ky_json_open(out, NULL, "{");
	json_process(out, status);
	json_ring(out, &status->state);
	json_settings(out, &status->state);
	json_lists(out, &status->state);
	json_metadata(out, &status->state);
	ky_json_close(out, "}");
	ky_out_text(out, "\n");
}

/* ---- the command ---- */

static int report_status(const struct status_arguments *arguments, struct status *status)
{
	struct ky_buf out;
	int err = ky_ring_guarded(&status->ring, read_all, status);

	if (err < 0) {
		ky_cli_error("%s: %s", status->found.path, kymo_error_text(err));
		return KY_EXIT_TROUBLE;
	}
	ky_ring_drainer_find(&status->drainer, &status->found, &status->ring);
	(void)ky_ring_ending_text(&status->ending, status->ending_text,
				  sizeof(status->ending_text));
	ky_buf_init(&out, 0);
	if (arguments->is_json)
		print_json(&out, status);
	else
		print_text(&out, status);
	err = ky_cli_print(&out);
	ky_buf_release(&out);
	return err < 0 ? KY_EXIT_TROUBLE : KY_EXIT_OK;
}

int ky_cmd_status(int argc, char **argv)
{
	static const struct argp_child children[] = {{&ky_ring_argp, 0, 0, 0},
						     {&ky_json_argp, 0, 0, 0},
						     {&ky_common_argp, 0, 0, 0},
						     {0}};
	static const struct argp argp = {
		NULL,
		parse,
		"PID|SERVICE",
		"Says what one process records, or recorded before it ended: gates and settings, "
		"how full its ring is, what it dropped and why, marks, counters, and which polls "
		"are open at this moment, of which task and for how long. It only reads, so it "
		"works on a process that hangs or is stopped.",
		children,
		0,
		0};
	struct status_arguments arguments = {.process = NULL};
	struct status *status;
	int code;

	code = ky_option_parse(&argp, argc, argv, 0, &arguments);
	if (code)
		return code;
	status = ky_alloc(sizeof(*status));
	if (status == NULL) {
		ky_cli_error("%s", kymo_error_text(-ENOMEM));
		return KY_EXIT_TROUBLE;
	}
	code = ky_ring_argument_open(&status->ring, &status->found, &arguments.query,
				     arguments.process, true, false);
	if (code == KY_EXIT_OK) {
		code = report_status(&arguments, status);
		ky_ring_status_release(&status->state);
		ky_ring_close(&status->ring);
	}
	ky_free(status);
	return code;
}
