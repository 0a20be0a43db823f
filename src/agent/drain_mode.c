/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <agent/drain_mode.h>

#include <base/alloc.h>
#include <base/now.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

static bool count_thread(void *ctx, uint32_t tid, struct ky_thread_cpu *out)
{
	const struct ky_drain_mode *mode = ctx;

	return (mode->may_read == NULL || mode->may_read()) &&
	       ky_proc_reader_counts(mode->process != NULL ? mode->process : &mode->own, tid, out);
}

static int write_chunk(void *ctx, const struct ky_chunk *chunk)
{
	const struct ky_drain_mode *mode = ctx;
	int err = ky_agent_output_chunk(mode->output, chunk);

	if (mode->has_written)
		mode->has_written(mode->fetch_ctx);
	return err;
}

static int open_drain(struct ky_drain_mode *mode, bool is_observer, struct ky_drain **out)
{
	const struct ky_agent_options *options = mode->options;
	struct ky_drain_options drain = {
		.image = mode->image,
		.image_bytes = mode->image_bytes,
		.name = mode->name,
		.name_ctx = mode->name_ctx,
		.chunk = is_observer ? NULL : write_chunk,
		.chunk_ctx = mode,
		.memory_bytes_max = is_observer ? mode->observer_bytes_max : mode->memory_bytes_max,
		.fetch_samples = is_observer ? NULL : mode->fetch_samples,
		.fetch_ctx = mode->fetch_ctx,
		.count_thread = is_observer ? NULL : count_thread,
		.count_ctx = mode,
		.source = mode->source,
		.from_ticks = mode->output->last_ticks,
		.from_ties = mode->output->last_ties,
		.retain = is_observer ? NULL : &options->retain};
	int err = ky_drain_open(out, &drain);

	for (size_t i = 0; err >= 0 && i < options->output.metadata_count; i++)
		err = ky_drain_metadata(*out, options->output.metadata[i].key,
					options->output.metadata[i].value);
	if (err < 0) {
		ky_drain_close(*out);
		*out = NULL;
	}
	return err;
}

static void close_observer(struct ky_drain_mode *mode)
{
	ky_drain_close(mode->observer);
	mode->observer = NULL;
}

int ky_drain_mode_open(struct ky_drain_mode *mode)
{
	mode->is_flight = true;
	ky_drain_pace_begin(&mode->pace, ky_now_ns(CLOCK_MONOTONIC));
	return ky_ring_view_init(&mode->view, mode->image, mode->image_bytes);
}

void ky_drain_mode_close(struct ky_drain_mode *mode)
{
	close_observer(mode);
	ky_drain_close(mode->stream);
	ky_free(mode->report);
	mode->report = NULL;
	ky_drain_mode_forget(mode);
}

void ky_drain_mode_forget(struct ky_drain_mode *mode)
{
	if (mode->stream != NULL && mode->process == NULL)
		ky_proc_reader_close(&mode->own);
	mode->stream = mode->observer = NULL;
}

/* What was deleted before it was sent: no record of this stream, so it is no gap in it. */
static void note_unsent(struct ky_drain_mode *mode)
{
	uint64_t unsent = atomic_load_explicit(&mode->output->segments_unsent,
					       memory_order_relaxed);
	char text[24];

	if (unsent == mode->unsent_noted)
		return;
	snprintf(text, sizeof(text), "%" PRIu64, unsent);
	(void)ky_drain_metadata(mode->stream, "kymo.segments.unsent", text);
	if (unsent > mode->unsent_noted)
		ky_drain_unsent(mode->stream, unsent - mode->unsent_noted);
	mode->unsent_noted = unsent;
}

/* What could not be written since the last call; and for `kymo status`, all that was lost. */
static void report_losses(struct ky_drain_mode *mode)
{
	struct ky_drain_stats stats;
	struct ky_chunk_loss loss;

	note_unsent(mode);
	if (ky_agent_output_take_loss(mode->output, &loss))
		ky_drain_refused(mode->stream, &loss);
	ky_drain_stats(mode->stream, &stats);
	ky_agent_output_note_lost(mode->output, stats.records_lost - stats.records_dropped,
				  stats.samples_lost);
}

/* ---- from one mode to the other ---- */

static void leave_stream(struct ky_drain_mode *mode)
{
	(void)ky_drain_step(mode->stream, 0);
	ky_drain_seal(mode->stream);
	ky_agent_output_wait(mode->output);
	report_losses(mode);
}

static int enter_stream(struct ky_drain_mode *mode)
{
	int err;

	if (mode->stream != NULL) {
		ky_drain_resume(mode->stream);
		mode->pace.due_ns = 0;
		return 0;
	}
	err = open_drain(mode, false, &mode->stream);
	if (err < 0)
		return err;
	ky_drain_pace_begin(&mode->pace, ky_now_ns(CLOCK_MONOTONIC));
	if (mode->process == NULL)
		ky_proc_reader_open(&mode->own, NULL, NULL, 0, 0);
	return 0;
}

int ky_drain_mode_set(struct ky_drain_mode *mode, bool is_flight)
{
	int err = 0;

	if (is_flight == mode->is_flight)
		return 0;
	if (is_flight)
		leave_stream(mode);
	else
		err = enter_stream(mode);
	if (err < 0)
		return err;
	mode->is_flight = is_flight;
	return 1;
}

/* ---- steps ---- */

int ky_drain_mode_step(struct ky_drain_mode *mode, uint64_t now_ns,
		       const struct ky_drain_mode_pace *pace, uint64_t *again_ns)
{
	/* A flight reads nothing: any wake-up will do. */
	uint64_t parts = mode->is_flight && mode->observer == NULL ? 5 : 1;
	uint64_t early_ns = pace->has_slack ? parts * ky_drain_pace_slack(&mode->pace) : 0;
	bool is_due = ky_drain_pace_is_due(&mode->pace, &mode->view, now_ns + early_ns);
	int err = 0;

	if (is_due)
		ky_drain_pace_step(&mode->pace, &mode->view, now_ns, pace->longest_ns);
	if (is_due && mode->is_flight && mode->observer != NULL)
		(void)ky_drain_step(mode->observer, 0);
	if (is_due && !mode->is_flight)
		err = ky_drain_step(mode->stream, 0);
	if (!mode->is_flight) {
		if (ky_agent_output_wants_seal(mode->output, now_ns))
			ky_drain_seal(mode->stream);
		report_losses(mode);
	}
	*again_ns = now_ns + ky_drain_pace_rest(&mode->pace, now_ns,
						ky_drain_pace_is_empty(&mode->pace, &mode->view) ?
							pace->check_empty_ns :
							pace->check_ns);
	return err;
}

int ky_drain_mode_events(struct ky_drain_mode *mode, bool is_wanted, struct ky_drain **out)
{
	int err = 0;

	if (!mode->is_flight || !is_wanted)
		close_observer(mode);
	else if (mode->observer == NULL)
		err = open_drain(mode, true, &mode->observer);
	*out = mode->is_flight ? mode->observer : mode->stream;
	return err;
}

/* ---- the end ---- */

/* What the ring overwrote on the way is not lost: it was never meant to be kept. */
static int cut(struct ky_drain_mode *mode, bool is_dead, bool is_abnormal)
{
	const struct ky_output_options *output = &mode->options->output;
	struct ky_cut_pair pairs[KY_OUTPUT_METADATA_MAX + 1];
	struct ky_cut_options options = {.image = mode->image,
					 .image_bytes = mode->image_bytes,
					 .from_ticks = mode->output->last_ticks,
					 .from_ties = mode->output->last_ties,
					 .is_dead = is_dead,
					 .name = mode->name,
					 .name_ctx = mode->name_ctx,
					 .source = mode->source,
					 .chunk = ky_agent_output_chunk,
					 .chunk_ctx = mode->output,
					 .pairs = pairs};
	struct ky_chunk_loss loss;
	int err;

	pairs[options.pair_count++] = (struct ky_cut_pair){"kymo.dump.reason",
							   is_abnormal ? "abnormal end" : "exit"};
	for (size_t i = 0; i < output->metadata_count; i++)
		pairs[options.pair_count++] = (struct ky_cut_pair){output->metadata[i].key,
								   output->metadata[i].value};
	mode->report = ky_alloc(sizeof(*mode->report));
	err = mode->report != NULL ? ky_cut(&options, mode->report) : -ENOMEM;
	ky_agent_output_wait(mode->output);
	/* No drain is left to write it: it is in the report of the cut. */
	if (mode->report != NULL && ky_agent_output_take_loss(mode->output, &loss)) {
		uint64_t written = mode->report->events_written;

		mode->report->events_written -= loss.event_count < written ? loss.event_count :
									     written;
		mode->report->records_lost += loss.record_count;
		mode->is_ring_needed = true;
	}
	mode->is_ring_needed |= err < 0 && err != -ENODATA;
	return err;
}

int ky_drain_mode_finish(struct ky_drain_mode *mode, bool is_dead, bool is_abnormal)
{
	int err = 0;

	if (mode->is_flight && mode->has_last_cut)
		return cut(mode, is_dead, is_abnormal);
	if (mode->stream == NULL)
		return 0;
	if (!mode->is_flight) {
		note_unsent(mode);
		err = ky_drain_step(mode->stream, KY_DRAIN_FINAL);
		ky_drain_seal(mode->stream);
		ky_agent_output_wait(mode->output);
		report_losses(mode);
	}
	ky_drain_last_word(mode->stream);
	ky_agent_output_wait(mode->output);
	report_losses(mode);
	return err;
}

void ky_drain_mode_totals(const struct ky_drain_mode *mode, struct ky_drain_stats *out,
			  uint64_t *age_ns)
{
	*out = (struct ky_drain_stats){0};
	*age_ns = 0;
	if (mode->stream != NULL)
		ky_drain_stats(mode->stream, out);
	if (mode->report == NULL)
		return;
	out->events_written += mode->report->events_written;
	out->records_lost += mode->report->records_lost;
	if (mode->stream == NULL)
		out->samples_lost += mode->report->samples_lost;
	if (mode->stream == NULL)
		*age_ns = mode->report->age_ns;
}
