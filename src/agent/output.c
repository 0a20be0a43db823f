/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <agent/output.h>

#include <base/now.h>
#include <errno.h>
#include <kymo/base.h>
#include <stdio.h>
#include <string.h>

#define RETRY_NS UINT64_C(1000000000)
#define QUEUE_BYTES_MAX ((size_t)32 << 20) /* of chunks on their way to the disk */

void ky_run_output_init(struct ky_run_output *output, struct ky_run_outputs *shared,
			const char *service, const char *run_name, uint32_t pid)
{
	memset(output, 0, sizeof(*output));
	output->shared = shared;
	output->service = service;
	output->run_name = run_name;
	output->pid = pid;
}

static void tell_error(const struct ky_run_output *output, enum ky_agent_event_kind kind, int err,
		       const char *reason)
{
	const struct ky_agent_options *options = output->shared->options;

	options->event(options->event_ctx, &(const struct ky_agent_event){.kind = kind,
									  .error = err,
									  .pid = output->pid,
									  .path = output->path,
									  .reason = reason});
}

static int open_store(struct ky_run_output *output)
{
	struct ky_run_outputs *shared = output->shared;
	const struct ky_agent_options *options = shared->options;
	char errbuf[512] = "";
	struct ky_store_options store = {.file = options->output.file,
					 .file_further_pid = shared->has_file ? output->pid : 0,
					 .directory = options->output.directory,
					 .service = options->output.service != NULL ?
							    options->output.service :
							    output->service,
					 .run = output->run_name,
					 .stage = &options->output.stage,
					 .segment_bytes_max = options->output.segment_bytes_max,
					 .rotate_interval_ns = options->output.rotate_interval_ns,
					 .total_bytes_max = options->output.total_bytes_max,
					 .errbuf = errbuf,
					 .errbuf_bytes = sizeof(errbuf)};
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);
	int err;

	if (now_ns < output->retry_ns)
		return -EAGAIN;
	output->retry_ns = now_ns + RETRY_NS;
	err = ky_store_open(&output->store, &store);
	if (err < 0)
		tell_error(output, KY_AGENT_STORE_FAILED, err, errbuf);
	return err < 0 ? err : 0;
}

/* In the background's thread. */
static int store_chunk(void *ctx, const struct ky_chunk *chunk)
{
	struct ky_run_output *output = ctx;
	struct ky_store_stats stats;
	int err;

	if (output->progress != NULL)
		ky_ring_progress_chunk(output->progress, chunk);
	err = ky_store_chunk(output->store, chunk);
	ky_store_stats(output->store, &stats);
	atomic_store_explicit(&output->bytes_stored, stats.bytes_stored, memory_order_relaxed);
	return err;
}

static int begin(struct ky_run_output *output)
{
	struct ky_run_outputs *shared = output->shared;
	struct ky_store_stats stats;
	int err = open_store(output);

	if (err < 0)
		return err;
	ky_store_stats(output->store, &stats);
	snprintf(output->path, sizeof(output->path), "%s", stats.run_directory);
	if (output->progress != NULL)
		ky_ring_progress_path(output->progress, output->path);
	err = ky_background_open(&output->background, store_chunk, output, QUEUE_BYTES_MAX);
	if (err < 0) {
		ky_store_close(output->store);
		output->store = NULL;
		return err;
	}
	shared->has_file = true;
	return 0;
}

static void tell_write_error(const struct ky_run_output *output, int err)
{
	bool is_full = err == KYMO_E_LIMIT && output->shared->options->output.file != NULL;

	tell_error(output, is_full ? KY_AGENT_STORE_FULL : KY_AGENT_WRITE_FAILED, err, "");
}

int ky_run_output_chunk(void *ctx, const struct ky_chunk *chunk)
{
	struct ky_run_output *output = ctx;
	int err = output->background != NULL ? 0 : begin(output);

	output->has_segment = false;
	if (err < 0)
		return err;
	err = ky_background_chunk(output->background, chunk);
	if (err < 0) {
		tell_write_error(output, err);
		return err;
	}
	if (chunk->is_segment_start) {
		output->segment_bytes = 0;
		output->segment_first_ns = chunk->first_ns;
	}
	output->segment_bytes += chunk->byte_count;
	output->has_segment = !chunk->is_segment_end;
	output->last_ticks = chunk->last_ticks;
	output->last_ties = chunk->last_ties;
	return 0;
}

int ky_run_output_cut(struct ky_run_output *output, struct ky_cut_options *options,
		      const char *reason, struct ky_cut_report *report)
{
	const struct ky_agent_options *run = output->shared->options;
	struct ky_cut_pair pairs[KY_OUTPUT_METADATA_MAX + 1];
	size_t i;
	int err;

	options->chunk = ky_run_output_chunk;
	options->chunk_ctx = output;
	options->pairs = pairs;
	pairs[options->pair_count++] = (struct ky_cut_pair){"kymo.dump.reason", reason};
	for (i = 0; i < run->output.metadata_count; i++)
		pairs[options->pair_count++] = (struct ky_cut_pair){run->output.metadata[i].key,
								    run->output.metadata[i].value};
	err = ky_cut(options, report);
	ky_run_output_wait(output);
	return err;
}

bool ky_run_output_has_begun(const struct ky_run_output *output)
{
	return output->background != NULL;
}

bool ky_run_output_wants_seal(const struct ky_run_output *output, uint64_t now_ns)
{
	return output->has_segment && ky_store_is_over(output->store, output->segment_bytes,
						       output->segment_first_ns, now_ns);
}

void ky_run_output_wait(struct ky_run_output *output)
{
	if (output->background != NULL)
		ky_background_wait(output->background);
}

bool ky_run_output_take_loss(struct ky_run_output *output, struct ky_chunk_loss *out)
{
	int err;

	if (output->background == NULL || !ky_background_take_loss(output->background, out, &err))
		return false;
	tell_write_error(output, err);
	return true;
}

void ky_run_output_close(struct ky_run_output *output)
{
	ky_background_close(output->background);
	output->background = NULL;
	ky_store_close(output->store);
	output->store = NULL;
}
