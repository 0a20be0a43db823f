/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <agent/drain_mode.h>

#include <base/alloc.h>
#include <errno.h>

static bool count_thread(void *ctx, uint32_t tid, struct ky_thread_cpu *out)
{
	const struct ky_run_drain *run = ctx;

	return ky_proc_look_counts(&run->proc, tid, out);
}

static int open_drain(struct ky_run_drain *run, bool is_flight, struct ky_drain **out)
{
	const struct ky_agent_options *options = run->options;
	struct ky_drain_options drain = {.image = run->image,
					 .image_bytes = run->image_bytes,
					 .name = ky_ring_names_text,
					 .name_ctx = run->names,
					 .chunk = is_flight ? NULL : ky_agent_output_chunk,
					 .chunk_ctx = run->output,
					 .fetch_samples = run->fetch_samples,
					 .fetch_ctx = run->fetch_ctx,
					 .count_thread = count_thread,
					 .count_ctx = run,
					 .source = run->source,
					 .retain = &options->retain};
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

static bool wants_flight(const struct ky_run_drain *run)
{
	return run->wish.mode == KY_RING_MODE_AS_OPENED ? run->options->is_flight :
							  run->wish.mode == KY_RING_MODE_FLIGHT;
}

int ky_run_drain_open(struct ky_run_drain *run)
{
	int err = ky_ring_names_open(&run->names, run->image, run->image_bytes);

	if (err >= 0)
		err = ky_ring_view_open(&run->view, run->image, run->image_bytes);
	if (err < 0)
		return err;
	ky_proc_look_open(&run->proc, NULL, NULL, run->view.header->pid,
			  run->view.header->pid_namespace);
	run->is_looking = true;
	(void)ky_ring_view_settings(&run->view, &run->wish);
	run->is_flight = wants_flight(run);
	return open_drain(run, run->is_flight, &run->drain);
}

void ky_run_drain_close(struct ky_run_drain *run)
{
	ky_drain_close(run->drain);
	ky_drain_close(run->paused);
	ky_ring_names_close(run->names);
	ky_free(run->report);
	if (run->is_looking)
		ky_proc_look_close(&run->proc);
	run->is_looking = false;
}

void ky_run_drain_abandon(struct ky_run_drain *run)
{
	run->drain = run->paused = NULL;
}

/* What could not be written since the last look. */
static void tell_losses(struct ky_run_drain *run)
{
	struct ky_chunk_loss loss;

	if (ky_agent_output_take_loss(run->output, &loss))
		ky_drain_refused(run->drain, &loss);
}

int ky_run_drain_step(struct ky_run_drain *run, uint64_t now_ns)
{
	int err = ky_drain_step(run->drain, 0);

	if (ky_agent_output_wants_seal(run->output, now_ns))
		ky_drain_seal(run->drain);
	tell_losses(run);
	return err;
}

/* ---- from one mode to the other ---- */

static int take_off(struct ky_run_drain *run, uint64_t now_ns)
{
	struct ky_drain *observer;
	int err = open_drain(run, true, &observer);

	if (err < 0)
		return err;
	(void)ky_run_drain_step(run, now_ns);
	ky_drain_seal(run->drain);
	ky_agent_output_wait(run->output);
	tell_losses(run);
	run->paused = run->drain;
	run->drain = observer;
	return 0;
}

static int land(struct ky_run_drain *run)
{
	struct ky_drain *stream = run->paused;
	int err = stream != NULL ? 0 : open_drain(run, false, &stream);

	if (err < 0)
		return err;
	if (run->paused != NULL)
		ky_drain_resume(stream);
	ky_drain_close(run->drain);
	run->drain = stream;
	run->paused = NULL;
	return 0;
}

int ky_run_drain_follow(struct ky_run_drain *run, uint64_t now_ns)
{
	int err;

	(void)ky_ring_view_settings(&run->view, &run->wish);
	if (wants_flight(run) == run->is_flight)
		return 0;
	err = run->is_flight ? land(run) : take_off(run, now_ns);
	if (err < 0)
		return err;
	run->is_flight = !run->is_flight;
	return 1;
}

/* ---- the end ---- */

/* What the ring overwrote on the way is not lost: it was never meant to be kept. */
static int finish_flight(struct ky_run_drain *run, bool is_dead, bool is_abnormal)
{
	const struct ky_output_options *output = &run->options->output;
	struct ky_cut_pair pairs[KY_OUTPUT_METADATA_MAX + 1];
	struct ky_cut_options options = {.image = run->image,
					 .image_bytes = run->image_bytes,
					 .from_ticks = run->output->last_ticks,
					 .from_ties = run->output->last_ties,
					 .is_dead = is_dead,
					 .name = ky_ring_names_text,
					 .name_ctx = run->names,
					 .source = run->source,
					 .chunk = ky_agent_output_chunk,
					 .chunk_ctx = run->output,
					 .pairs = pairs};
	struct ky_chunk_loss loss;
	int err;

	pairs[options.pair_count++] = (struct ky_cut_pair){"kymo.dump.reason",
							   is_abnormal ? "abnormal end" : "exit"};
	for (size_t i = 0; i < output->metadata_count; i++)
		pairs[options.pair_count++] = (struct ky_cut_pair){output->metadata[i].key,
								   output->metadata[i].value};
	run->report = ky_alloc(sizeof(*run->report));
	err = run->report != NULL ? ky_cut(&options, run->report) : -ENOMEM;
	ky_agent_output_wait(run->output);
	/* Nobody drains on: the report of the cut tells it. */
	if (run->report != NULL && ky_agent_output_take_loss(run->output, &loss)) {
		uint64_t written = run->report->events_written;

		run->report->events_written -= loss.event_count < written ? loss.event_count :
									    written;
		run->report->records_lost += loss.record_count;
		run->is_ring_needed = true;
	}
	run->is_ring_needed |= err < 0 && err != -ENODATA;
	return err;
}

static int finish_stream(struct ky_run_drain *run)
{
	int err = ky_drain_step(run->drain, KY_DRAIN_FINAL);

	ky_drain_seal(run->drain);
	ky_agent_output_wait(run->output);
	tell_losses(run);
	ky_drain_last_word(run->drain);
	ky_agent_output_wait(run->output);
	tell_losses(run);
	return err;
}

int ky_run_drain_finish(struct ky_run_drain *run, bool is_dead, bool is_abnormal)
{
	return run->is_flight ? finish_flight(run, is_dead, is_abnormal) : finish_stream(run);
}

void ky_run_drain_totals(const struct ky_run_drain *run, struct ky_drain_stats *out,
			 uint64_t *age_ns)
{
	const struct ky_drain *stream = run->is_flight ? run->paused : run->drain;

	*out = (struct ky_drain_stats){0};
	*age_ns = 0;
	if (stream != NULL)
		ky_drain_stats(stream, out);
	if (run->report == NULL)
		return;
	out->events_written += run->report->events_written;
	out->records_lost += run->report->records_lost;
	if (stream == NULL)
		*age_ns = run->report->age_ns;
}
