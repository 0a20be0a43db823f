/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <edit/rewrite.h>

#include <edit/rechunk.h>
#include <errno.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <kymo/recorder.h>
#include <read/frame_reader.h>
#include <ship/disk_room.h>
#include <ship/trace_file.h>
#include <string.h>

/* Streams that go into one zstd frame: enough to compress, few enough to jump. */
#define GATHER_BYTES (128u << 10)

static bool ends_in(const char *text, const char *suffix)
{
	size_t text_count = strlen(text), count = strlen(suffix);

	return text_count >= count && strcmp(text + text_count - count, suffix) == 0;
}

int ky_rewrite_prepare(struct ky_rewrite *rewrite)
{
	int level = (int)rewrite->level;

	if (!rewrite->compression && ky_trace_file_is_foreign(rewrite->output))
		return ky_input_fail(rewrite->input, -EINVAL,
				     "-o %s: kymo packs as zstd (.zst) and gzip (.gz); name FILE "
				     "so, or say with --compress what shall be in it",
				     rewrite->output);
	if (!rewrite->compression)
		rewrite->compression = ends_in(rewrite->output, ".zst") ? KYMO_COMPRESSION_ZSTD :
				       ends_in(rewrite->output, ".gz")  ? KYMO_COMPRESSION_GZIP :
									  KYMO_COMPRESSION_NONE;
	if (!level)
		level = rewrite->compression == KYMO_COMPRESSION_ZSTD ? 3 : 6;
	return ky_compressor_choose(&rewrite->factory, rewrite->compression, level);
}

/* ---- what goes out ---- */

static int write_chunk(void *ctx, const struct ky_chunk *chunk)
{
	struct ky_rewrite *rewrite = ctx;

	rewrite->chunks++;
	rewrite->raw_bytes += chunk->byte_count;
	return rewrite->compressor.write(rewrite->compressor.self, chunk->bytes, chunk->byte_count,
					 ky_out_file_write, &rewrite->file);
}

static int write_event_chunk(void *ctx, const struct ky_chunk *chunk)
{
	struct ky_rewrite *rewrite = ctx;

	ky_index_maker_chunk(&rewrite->index, chunk);
	return write_chunk(rewrite, chunk);
}

/* No event of it went through the index: it has a row without times. */
static int write_tail_chunk(void *ctx, const struct ky_chunk *chunk)
{
	struct ky_rewrite *rewrite = ctx;

	rewrite->events += chunk->event_count;
	ky_index_maker_untimed(&rewrite->index, chunk);
	return write_chunk(rewrite, chunk);
}

/* Where every file was sealed, the result is. */
static int write_index(struct ky_rewrite *rewrite)
{
	struct ky_buf bytes;
	int result;

	ky_buf_init(&bytes, 0);
	ky_index_maker_finish(&rewrite->index, &bytes);
	result = bytes.failed;
	if (!result && bytes.used) {
		struct ky_chunk chunk = {.bytes = bytes.bytes, .byte_count = bytes.used};

		result = write_chunk(rewrite, &chunk);
		rewrite->events++;
		rewrite->is_indexed = true;
	}
	ky_buf_release(&bytes);
	return result;
}

/* In one file the ids of several processes could not be distinguished. */
static int refuse_mix(struct ky_input *input, const char *text)
{
	return ky_input_fail(input, KYMO_E_UNSUPPORTED, "%s, or write them all with --mix", text);
}

/* ---- events, sorted and encoded anew ---- */

/* An old index names offsets that no longer hold: a new one takes its place. */
static int put_event(struct ky_rewrite *rewrite, struct ky_rechunk *rechunk,
		     struct ky_catalog *catalog, struct ky_event_stream *stream,
		     const struct ky_event *event)
{
	uint32_t shape;
	int result;

	if (event->schema->event == KY_EV_SEGMENT_INDEX) {
		rewrite->indexes++;
		return 0;
	}
	if (rewrite->keep && !rewrite->keep(rewrite->hook_ctx, event))
		return 0;
	shape = ky_catalog_find(catalog, event->source, event->schema);
	if (shape >= catalog->count)
		return KYMO_E_CORRUPT; /* the file changed between the two passes */
	rewrite->events++;
	rewrite->late += event->is_late;
	result = ky_rechunk_event(rechunk, stream, event, shape);
	ky_index_maker_event(&rewrite->index, event); /* it may have begun a chunk */
	return result;
}

static int copy_events(struct ky_rewrite *rewrite, struct ky_catalog *catalog,
		       struct ky_event_stream *stream)
{
	const struct ky_event *event;
	struct ky_rechunk rechunk;
	int result = ky_rechunk_init(&rechunk, catalog, write_event_chunk, rewrite);

	rechunk.redact = rewrite->redact;
	while (!result) {
		result = ky_event_stream_next(stream, &event);
		if (result <= 0)
			break;
		result = put_event(rewrite, &rechunk, catalog, stream, event);
	}
	if (!result)
		result = ky_rechunk_flush(&rechunk);
	if (!result && rewrite->tail)
		result = rewrite->tail(rewrite->hook_ctx, write_tail_chunk, rewrite);
	if (!result && rewrite->indexes && rewrite->indexes >= rewrite->input->count)
		result = write_index(rewrite);
	rewrite->mended = rechunk.mended_count;
	rewrite->undefined = rechunk.undefined_count;
	ky_rechunk_release(&rechunk);
	return result;
}

static int reencode(struct ky_rewrite *rewrite)
{
	struct ky_input *input = rewrite->input;
	struct ky_event_stream_options stream_options = {
		.reorder_bytes_max = input->memory_bytes_max,
		.is_stored_order = rewrite->is_stored_order};
	struct ky_event_stream *stream = NULL;
	struct ky_catalog catalog;
	const char *notice;
	int result = ky_catalog_init(&catalog);

	if (!result)
		result = ky_catalog_read(&catalog, input->sources, input->count);
	if (!result && catalog.processes.is_reported && !rewrite->is_mix)
		result = refuse_mix(input, catalog.processes.text);
	else if (!result && catalog.processes.is_reported)
		ky_input_notice(input, catalog.processes.text);
	if (!result)
		result = ky_event_stream_open(&stream, input->sources, input->count,
					      &stream_options);
	if (!result)
		result = copy_events(rewrite, &catalog, stream);
	for (uint32_t i = 0; stream && (notice = ky_event_stream_notice(stream, i)); i++)
		ky_input_notice(input, notice);
	if (stream)
		ky_input_note_unsealed(input, &catalog.unsealed);
	input->is_damaged |= stream && ky_event_stream_is_damaged(stream);
	if (rewrite->late)
		ky_input_say(input,
			     "%" PRIu64
			     " events came too late to be sorted into place; give more than "
			     "256M with --max-memory",
			     rewrite->late);
	if (rewrite->mended)
		ky_input_say(input,
			     "%" PRIu64
			     " text%s not UTF-8: every byte of them that is none became '?' "
			     "(--recompress keeps them)",
			     rewrite->mended, rewrite->mended == 1 ? " was" : "s were");
	if (rewrite->undefined)
		ky_input_say(input,
			     "%" PRIu64 " value%s to a string or stack that is not defined there; "
			     "%s so, under another id",
			     rewrite->undefined, rewrite->undefined == 1 ? " refers" : "s refer",
			     rewrite->undefined == 1 ? "it stays" : "they stay");
	ky_event_stream_close(stream);
	ky_catalog_release(&catalog);
	return result;
}

/* ---- frames, as they are ---- */

/* Torn and damaged stretches are left out. An index that stands at the end of its stream names
 * offsets: it stays only when nothing before it has moved, that is, when it is the only one, ends
 * the only file, and nothing was left out. Else all are left out, and where every file ended in
 * one, a new one of all streams ends the result. */
struct copy {
	struct ky_rewrite *rewrite;
	struct ky_buf gathered;
	struct ky_buf held; /* an index, until it is known whether anything follows */
	struct ky_processes processes;
	struct ky_chunk stream; /* that is being copied: bytes, events, times */
	uint64_t dropped;       /* indexes left out */
	size_t sealed;          /* files that ended in one */
	struct ky_unsealed unsealed;
	bool is_damaged;
};

static int say_damage(void *ctx, uint64_t offset, int code, const char *text)
{
	struct copy *copy = ctx;

	(void)offset;
	copy->is_damaged = true;
	copy->rewrite->input->is_damaged |= code != 0 && code != KYMO_E_TRUNCATED;
	ky_input_notice(copy->rewrite->input, text);
	return 0;
}

static int pass_on(struct copy *copy)
{
	struct ky_chunk chunk = {.bytes = copy->gathered.bytes, .byte_count = copy->gathered.used};
	int result = copy->gathered.failed;

	if (!result && chunk.byte_count)
		result = write_chunk(copy->rewrite, &chunk);
	ky_buf_clear(&copy->gathered);
	return result;
}

static int append(struct copy *copy, const void *bytes, size_t count)
{
	copy->stream.byte_count += count;
	return ky_buf_append(&copy->gathered, bytes, count);
}

static void end_stream(struct copy *copy)
{
	if (copy->stream.event_count)
		ky_index_maker_chunk(&copy->rewrite->index, &copy->stream);
	else
		ky_index_maker_skip(&copy->rewrite->index, copy->stream.byte_count);
	memset(&copy->stream, 0, sizeof(copy->stream));
}

static void drop_held(struct copy *copy)
{
	copy->dropped += copy->held.used != 0;
	ky_buf_clear(&copy->held);
}

/* Something follows in the same stream, and counts its time from the index on. */
static int keep_held(struct copy *copy)
{
	int result = 0;

	if (copy->held.used) {
		result = append(copy, copy->held.bytes, copy->held.used);
		copy->stream.event_count++;
		copy->rewrite->events++;
	}
	ky_buf_clear(&copy->held);
	return result;
}

static void note_event(struct copy *copy, const struct ky_frame *frame)
{
	struct ky_event event = {.schema = frame->schema,
				 .values = frame->values,
				 .timestamp_ns = frame->timestamp_ns,
				 .has_timestamp = frame->schema->has_timestamp != 0};
	struct ky_chunk *stream = &copy->stream;

	copy->rewrite->events++;
	ky_unsealed_event(&copy->unsealed, frame->schema->event);
	stream->event_count++;
	ky_index_maker_event(&copy->rewrite->index, &event);
	if (!event.has_timestamp || !event.timestamp_ns)
		return;
	if (!stream->first_ns || event.timestamp_ns < stream->first_ns)
		stream->first_ns = event.timestamp_ns;
	if (event.timestamp_ns > stream->last_ns)
		stream->last_ns = event.timestamp_ns;
}

static int copy_frame(struct copy *copy, const struct ky_frame *frame)
{
	int result = 0;

	if (frame->kind == KY_FRAME_HEADER) {
		drop_held(copy);
		end_stream(copy);
		if (copy->gathered.used >= GATHER_BYTES)
			result = pass_on(copy);
	} else {
		result = keep_held(copy);
	}
	if (result)
		return result;
	if (frame->kind == KY_FRAME_EVENT && frame->schema->event == KY_EV_SEGMENT_INDEX)
		return ky_buf_append(&copy->held, frame->begin, frame->bytes);
	if (frame->kind == KY_FRAME_EVENT)
		note_event(copy, frame);
	return append(copy, frame->begin, frame->bytes);
}

/* Whole frames only: a torn tail would spoil what is written after it. */
static int copy_file(struct copy *copy, uint32_t file)
{
	struct ky_rewrite *rewrite = copy->rewrite;
	struct ky_byte_source *source = &rewrite->input->sources[file];
	struct ky_frame_reader reader;
	struct ky_frame frame;
	uint64_t events_before = rewrite->events;
	bool is_sealed = false;
	int result = ky_frame_reader_init(&reader, source, NULL, UINT64_MAX, say_damage, copy);

	ky_index_maker_forget(&rewrite->index);
	while (!result) {
		result = ky_frame_reader_next(&reader, &frame);
		if (result <= 0)
			break;
		if (frame.kind == KY_FRAME_EVENT &&
		    ky_processes_event(&copy->processes, reader.dec, &frame, file, source->name) &&
		    !rewrite->is_mix) {
			result = refuse_mix(rewrite->input, copy->processes.text);
			break;
		}
		is_sealed |= frame.kind == KY_FRAME_EVENT &&
			     frame.schema->event == KY_EV_SEGMENT_INDEX;
		result = copy_frame(copy, &frame);
	}
	ky_unsealed_note(&copy->unsealed, source->name, is_sealed, reader.is_torn,
			 rewrite->events - events_before);
	copy->sealed += copy->held.used != 0;
	if (file + 1 < rewrite->input->count)
		drop_held(copy);
	ky_frame_reader_release(&reader);
	return result;
}

static int finish(struct copy *copy)
{
	struct ky_rewrite *rewrite = copy->rewrite;
	struct ky_input *input = rewrite->input;
	int result = 0;

	rewrite->is_indexed = copy->held.used && !copy->dropped && !copy->is_damaged &&
			      input->count == 1;
	if (rewrite->is_indexed)
		result = keep_held(copy);
	drop_held(copy);
	end_stream(copy);
	if (!result)
		result = pass_on(copy);
	if (!result && copy->dropped && copy->sealed == input->count)
		result = write_index(rewrite);
	if (copy->processes.is_reported)
		ky_input_notice(input, copy->processes.text);
	ky_input_note_unsealed(input, &copy->unsealed);
	if (!result && copy->dropped && !rewrite->is_indexed)
		ky_input_say(input,
			     "%" PRIu64 " index%s left out, whose offsets no longer hold; the "
			     "result has none, because not every file ends in one",
			     copy->dropped, copy->dropped == 1 ? " is" : "es are");
	return result;
}

static int recompress(struct ky_rewrite *rewrite)
{
	struct copy copy = {.rewrite = rewrite};
	int result = 0;

	ky_buf_init(&copy.gathered, 0);
	ky_buf_init(&copy.held, 0);
	for (uint32_t i = 0; i < rewrite->input->count && !result; i++)
		result = copy_file(&copy, i);
	if (!result)
		result = finish(&copy);
	ky_buf_release(&copy.gathered);
	ky_buf_release(&copy.held);
	return result;
}

/* ---- the file ---- */

static int fail(const struct ky_rewrite *rewrite, int result)
{
	const char *output = rewrite->output;
	char room[KY_DISK_ROOM_BYTES];

	if (result == KYMO_E_UNSUPPORTED)
		return result; /* several processes: the sentence is there */
	if (result == KYMO_E_LIMIT)
		return ky_input_fail(rewrite->input, result,
				     "%s: not written, because its input is not whole", output);
	if (result == -EEXIST)
		return ky_input_fail(rewrite->input, result, "%s: exists; replace it with --force",
				     output);
	if (result == KYMO_E_CORRUPT)
		return ky_input_fail(rewrite->input, result,
				     "the input changed while it was read; take a copy of it");
	return ky_input_fail(rewrite->input, result, "%s: cannot be written: %s", output,
			     ky_disk_room_text(room, output, result));
}

/* A file without events is a trace, too. */
static int write_header(struct ky_rewrite *rewrite)
{
	static const uint8_t header[] = {'T', 'R', 'C', 0, KY_TRC_VERSION};
	struct ky_chunk chunk = {.bytes = header, .byte_count = sizeof(header)};

	return write_chunk(rewrite, &chunk);
}

int ky_rewrite_run(struct ky_rewrite *rewrite)
{
	int result = rewrite->fd ?
			     ky_out_file_open_fd(&rewrite->file, rewrite->fd) :
			     ky_out_file_open(&rewrite->file, rewrite->output, rewrite->is_forced);

	if (result)
		return fail(rewrite, result);
	result = rewrite->factory.open(&rewrite->factory, &rewrite->compressor);
	if (!result)
		result = ky_index_maker_init(&rewrite->index);
	if (!result)
		result = rewrite->is_recompress ? recompress(rewrite) : reencode(rewrite);
	ky_index_maker_release(&rewrite->index);
	if (!result && ky_input_is_limited(rewrite->input))
		result = KYMO_E_LIMIT;
	ky_input_step(rewrite->input, "writing to disk");
	if (!result && !rewrite->chunks)
		result = write_header(rewrite);
	if (!result)
		result = rewrite->compressor.finish(rewrite->compressor.self, ky_out_file_write,
						    &rewrite->file);
	if (rewrite->compressor.close)
		rewrite->compressor.close(rewrite->compressor.self);
	if (!result)
		result = ky_out_file_commit(&rewrite->file);
	else
		ky_out_file_abort(&rewrite->file);
	if (result)
		return fail(rewrite, result);
	rewrite->stored_bytes = rewrite->file.bytes;
	rewrite->is_partial = rewrite->input->is_damaged ||
			      (!rewrite->events && rewrite->input->notice_count);
	return 0;
}
