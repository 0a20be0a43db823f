/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <agent/output.h>

#include <base/now.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/base.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define RETRY_NS UINT64_C(1000000000)
#define QUEUE_BYTES_MAX ((size_t)32 << 20) /* of chunks on their way to the disk */

/* Other threads may read the figures. */
static void clear(struct ky_agent_output *output)
{
	memset(output, 0, offsetof(struct ky_agent_output, bytes_stored));
	atomic_store_explicit(&output->bytes_stored, 0, memory_order_relaxed);
	atomic_store_explicit(&output->segments_sealed, 0, memory_order_relaxed);
	atomic_store_explicit(&output->segments_unsent, 0, memory_order_relaxed);
	atomic_store_explicit(&output->store_error, 0, memory_order_relaxed);
}

void ky_agent_output_init(struct ky_agent_output *output, const struct ky_agent_options *options,
			  const struct ky_ring_header *header, const struct ky_ring_access *access,
			  bool *is_file_taken)
{
	char boot[sizeof(header->boot_id) + 1];

	clear(output);
	output->options = options;
	output->access = *access;
	output->is_file_taken = is_file_taken;
	output->pid = header->pid;
	if (header->side_offset != 0 && header->side_bytes >= sizeof(struct ky_ring_side)) {
		output->drained_at = header->side_offset + offsetof(struct ky_ring_side, drained);
		output->lost_at = header->side_offset + offsetof(struct ky_ring_side, lost);
	}
	snprintf(output->service, sizeof(output->service), "%.*s", (int)sizeof(header->service),
		 header->service);
	snprintf(boot, sizeof(boot), "%.*s", (int)sizeof(header->boot_id), header->boot_id);
	ky_store_run_name(output->run_name, sizeof(output->run_name), boot, header->pid,
			  header->start_time_ticks);
	output->started_unix_ns = ky_now_ns(CLOCK_REALTIME) - ky_now_ns(CLOCK_MONOTONIC) +
				  header->open_anchor.monotonic_ns;
}

static void report_error(const struct ky_agent_output *output, enum ky_agent_event_kind kind,
			 int err, const char *reason)
{
	const struct ky_agent_options *options = output->options;

	options->event(options->event_ctx, &(const struct ky_agent_event){.kind = kind,
									  .error = err,
									  .pid = output->pid,
									  .path = output->path,
									  .reason = reason});
}

static void report_write_error(const struct ky_agent_output *output, int err)
{
	bool is_full = err == KYMO_E_LIMIT && output->options->output.file != NULL;

	report_error(output, is_full ? KY_AGENT_STORE_FULL : KY_AGENT_WRITE_FAILED, err, "");
}

/* ---- how much is on disk ---- */

/* A store that fails costs exactness of a recovery, nothing else. */
static void note(const struct ky_agent_output *output, size_t at, const void *bytes, size_t count)
{
	(void)ky_ring_access_store(&output->access, output->drained_at + at, bytes, count);
}

/* As its reader takes it: absolute, and of the moment the store was opened, for a host may change
 * its directory. Without a path a recovery takes everything that the ring holds. */
static void note_path(const struct ky_agent_output *output)
{
	char path[KY_DRAINED_PATH_BYTES], link[40];
	uint32_t bytes, none = 0;
	ssize_t length;
	int fd;

	if (!output->drained_at)
		return;
	fd = open(output->path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path));
	close(fd);
	if (length <= 0 || (size_t)length >= sizeof(path))
		return;
	bytes = (uint32_t)length;
	note(output, offsetof(struct ky_ring_drained, path_bytes), &none, sizeof(none));
	note(output, offsetof(struct ky_ring_drained, path), path, bytes);
	note(output, offsetof(struct ky_ring_drained, path_bytes), &bytes, sizeof(bytes));
}

static void note_chunk(struct ky_agent_output *output, const struct ky_chunk *chunk)
{
	const uint64_t stamps[3] = {chunk->last_ns, chunk->last_ticks, chunk->last_ties};
	uint64_t at = output->chunk_count++ % KY_DRAINED_CHUNKS;

	if (!output->drained_at)
		return;
	note(output, offsetof(struct ky_ring_drained, chunks) + at * sizeof(stamps), stamps,
	     sizeof(stamps));
	note(output, offsetof(struct ky_ring_drained, chunk_claim_index), &output->chunk_count,
	     sizeof(output->chunk_count));
}

void ky_agent_output_note_lost(struct ky_agent_output *output, uint64_t records, uint64_t samples)
{
	const uint64_t lost[2] = {records, samples};

	if (!output->lost_at || memcmp(lost, output->lost, sizeof(lost)) == 0)
		return;
	memcpy(output->lost, lost, sizeof(lost));
	(void)ky_ring_access_store(&output->access, output->lost_at, lost, sizeof(lost));
}

/* ---- opening ---- */

static int open_store(struct ky_agent_output *output)
{
	const struct ky_output_options *options = &output->options->output;
	char errbuf[512] = "";
	struct ky_store_options store = {
		.file = options->file,
		.file_further_pid = *output->is_file_taken ? output->pid : 0,
		.directory = options->directory,
		.service = options->service != NULL ? options->service : output->service,
		.run = output->run_name,
		.started_unix_ns = output->started_unix_ns,
		.compressor = &options->compressor,
		.segment_bytes_max = options->segment_bytes_max,
		.rotate_interval_ns = options->rotate_interval_ns,
		.total_bytes_max = options->total_bytes_max,
		.errbuf = errbuf,
		.errbuf_bytes = sizeof(errbuf)};
	struct ky_store_stats stats;
	int err = ky_store_open(&output->store, &store);

	if (err < 0) {
		report_error(output, KY_AGENT_STORE_FAILED, err, errbuf);
		return err;
	}
	ky_store_stats(output->store, &stats);
	snprintf(output->path, sizeof(output->path), "%s", stats.run_directory);
	note_path(output);
	if (stats.latest_error != 0)
		report_error(output, KY_AGENT_LATEST_FAILED, stats.latest_error, "");
	return 0;
}

static int write_chunk(void *ctx, const struct ky_chunk *chunk)
{
	struct ky_agent_output *output = ctx;
	struct ky_store_stats stats;
	int err;

	if (output->sink != NULL) {
		err = ky_trace_sink_chunk(output->sink, chunk);
		atomic_store_explicit(&output->bytes_stored, ky_trace_sink_bytes(output->sink),
				      memory_order_relaxed);
		return err;
	}
	note_chunk(output, chunk);
	err = ky_store_chunk(output->store, chunk);
	ky_store_stats(output->store, &stats);
	atomic_store_explicit(&output->bytes_stored, stats.bytes_stored, memory_order_relaxed);
	atomic_store_explicit(&output->segments_sealed, stats.segments_sealed,
			      memory_order_relaxed);
	atomic_store_explicit(&output->segments_unsent, stats.segments_unsent,
			      memory_order_relaxed);
	atomic_store_explicit(&output->store_error, stats.last_error, memory_order_relaxed);
	return err;
}

static int begin(struct ky_agent_output *output)
{
	const struct ky_output_options *options = &output->options->output;
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);
	int err;

	if (now_ns < output->retry_ns)
		return -EAGAIN;
	output->retry_ns = now_ns + RETRY_NS;
	if (options->write != NULL) {
		err = ky_trace_sink_open(&output->sink, &options->compressor, options->write,
					 options->write_ctx);
		if (err < 0)
			report_error(output, KY_AGENT_STORE_FAILED, err, kymo_error_text(err));
		return err;
	}
	err = open_store(output);
	if (err < 0)
		return err;
	if (options->queue != NULL)
		err = options->queue->open(&output->queue, write_chunk, output, QUEUE_BYTES_MAX);
	if (err < 0) {
		report_error(output, KY_AGENT_STORE_FAILED, err, kymo_error_text(err));
		ky_store_close(output->store);
		output->store = NULL;
		return err;
	}
	*output->is_file_taken = true;
	return 0;
}

/* ---- chunks ---- */

int ky_agent_output_chunk(void *ctx, const struct ky_chunk *chunk)
{
	struct ky_agent_output *output = ctx;
	int err = ky_agent_output_has_begun(output) ? 0 : begin(output);

	output->has_segment = false;
	if (err < 0)
		return err;
	err = output->queue != NULL ? output->options->output.queue->chunk(output->queue, chunk) :
				      write_chunk(output, chunk);
	if (err < 0) {
		report_write_error(output, err);
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

bool ky_agent_output_has_begun(const struct ky_agent_output *output)
{
	return output->store != NULL || output->sink != NULL;
}

bool ky_agent_output_wants_seal(const struct ky_agent_output *output, uint64_t now_ns)
{
	return output->store != NULL && output->has_segment &&
	       ky_store_is_over(output->store, output->segment_bytes, output->segment_first_ns,
				now_ns);
}

void ky_agent_output_wait(struct ky_agent_output *output)
{
	if (output->queue != NULL)
		output->options->output.queue->wait(output->queue);
}

bool ky_agent_output_take_loss(struct ky_agent_output *output, struct ky_chunk_loss *out)
{
	int err;

	if (output->queue == NULL ||
	    !output->options->output.queue->take_loss(output->queue, out, &err))
		return false;
	report_write_error(output, err);
	return true;
}

void ky_agent_output_close(struct ky_agent_output *output)
{
	int err = output->sink != NULL ? ky_trace_sink_end(output->sink) : 0;

	if (err < 0)
		report_write_error(output, err);
	if (output->sink != NULL)
		atomic_store_explicit(&output->bytes_stored, ky_trace_sink_bytes(output->sink),
				      memory_order_relaxed);
	if (output->queue != NULL)
		output->options->output.queue->close(output->queue);
	(void)ky_trace_sink_close(output->sink); /* has nothing left to report */
	ky_store_close(output->store);
	ky_agent_output_forget(output);
}

void ky_agent_output_forget(struct ky_agent_output *output)
{
	clear(output);
}
