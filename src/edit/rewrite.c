/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/cli.h>
#include <ship/disk_room.h>
#include <cli/progress.h>
#include <edit/rechunk.h>
#include <edit/recompress.h>
#include <edit/rewrite.h>
#include <errno.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <kymo/recorder.h>
#include <ship/trace_file.h>
#include <string.h>

static bool ends_in(const char *text, const char *suffix)
{
	size_t text_count = strlen(text), count = strlen(suffix);

	return text_count >= count && strcmp(text + text_count - count, suffix) == 0;
}

int ky_rewrite_prepare(struct ky_rewrite *rewrite)
{
	int level = (int)rewrite->level;

	if (!rewrite->compression && ky_trace_file_is_foreign(rewrite->output)) {
		ky_cli_error(
			"-o %s: kymo packs as zstd (.zst) and gzip (.gz); name FILE so, or say "
			"with --compress what shall be in it",
			rewrite->output);
		return KY_EXIT_USAGE;
	}
	if (!rewrite->compression)
		rewrite->compression = ends_in(rewrite->output, ".zst") ? KYMO_COMPRESSION_ZSTD :
				       ends_in(rewrite->output, ".gz")  ? KYMO_COMPRESSION_GZIP :
									  KYMO_COMPRESSION_NONE;
	if (rewrite->compression == KYMO_COMPRESSION_GZIP && level > 9) {
		ky_cli_error("gzip has the levels 1 to 9");
		return KY_EXIT_USAGE;
	}
	if (rewrite->compression == KYMO_COMPRESSION_ZSTD)
		ky_stage_zstd(&rewrite->factory, level ? level : 3);
	else if (rewrite->compression == KYMO_COMPRESSION_GZIP)
		ky_stage_gzip(&rewrite->factory, level ? level : 6);
	else
		rewrite->factory = ky_stage_none;
	return KY_EXIT_OK;
}

static int write_chunk(void *ctx, const struct ky_chunk *chunk)
{
	struct ky_rewrite *rewrite = ctx;

	rewrite->chunks++;
	rewrite->raw_bytes += chunk->byte_count;
	return rewrite->stage.write(rewrite->stage.stage, chunk->bytes, chunk->byte_count,
				    ky_out_file_write, &rewrite->file);
}

static int write_event_chunk(void *ctx, const struct ky_chunk *chunk)
{
	struct ky_rewrite *rewrite = ctx;

	ky_index_maker_chunk(&rewrite->index, chunk);
	return write_chunk(rewrite, chunk);
}

/* No event of it went through the index. */
static int write_tail_chunk(void *ctx, const struct ky_chunk *chunk)
{
	struct ky_rewrite *rewrite = ctx;

	rewrite->events += chunk->event_count;
	ky_index_maker_skip(&rewrite->index, chunk->byte_count);
	return write_chunk(rewrite, chunk);
}

/* Where every file was sealed, the result is. */
static int write_index(struct ky_rewrite *rewrite)
{
	struct ky_buf bytes;
	int result = 0;

	if (!rewrite->indexes || rewrite->indexes < rewrite->input->count)
		return 0;
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

	if (!result)
		result = ky_index_maker_init(&rewrite->index);
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
	if (!result)
		result = write_index(rewrite);
	rewrite->mended = rechunk.mended_count;
	rewrite->undefined = rechunk.undefined_count;
	ky_index_maker_release(&rewrite->index);
	ky_rechunk_release(&rechunk);
	return result;
}

static int reencode(struct ky_rewrite *rewrite)
{
	struct ky_input *input = rewrite->input;
	struct ky_event_stream_options stream_options = {
		.reorder_bytes_max = input->memory_bytes_max};
	struct ky_event_stream *stream = NULL;
	struct ky_catalog catalog;
	const char *notice;
	int result = ky_catalog_init(&catalog);

	if (!result)
		result = ky_catalog_read(&catalog, input->sources, input->count);
	if (!result && catalog.processes.is_told && !rewrite->is_mix)
		result = ky_recompress_refuse_mix(catalog.processes.text);
	else if (!result && catalog.processes.is_told)
		ky_input_notice(input, catalog.processes.text);
	if (!result)
		result = ky_event_stream_open(&stream, input->sources, input->count,
					      &stream_options);
	if (!result)
		result = copy_events(rewrite, &catalog, stream);
	for (uint32_t i = 0; stream && (notice = ky_event_stream_notice(stream, i)); i++)
		ky_input_notice(input, notice);
	if (stream)
		ky_input_say_unsealed(input, &catalog.unsealed);
	input->is_damaged |= stream && ky_event_stream_is_damaged(stream);
	if (rewrite->late)
		ky_cli_notice("%" PRIu64
			      " events came too late to be sorted into place; give more than "
			      "256M with --max-memory",
			      rewrite->late);
	if (rewrite->mended)
		ky_cli_notice("%" PRIu64
			      " text%s not UTF-8: every byte of them that is none became '?' "
			      "(--recompress keeps them)",
			      rewrite->mended, rewrite->mended == 1 ? " was" : "s were");
	if (rewrite->undefined)
		ky_cli_notice("%" PRIu64 " value%s to a string or stack that is not defined there; "
			      "%s so, under another id",
			      rewrite->undefined, rewrite->undefined == 1 ? " refers" : "s refer",
			      rewrite->undefined == 1 ? "it stays" : "they stay");
	ky_event_stream_close(stream);
	ky_catalog_release(&catalog);
	return result;
}

static void say_trouble(const struct ky_rewrite *rewrite, int result)
{
	char room[KY_DISK_ROOM_BYTES];

	if (result == KYMO_E_UNSUPPORTED)
		return; /* several processes: said */
	if (result == KYMO_E_LIMIT)
		ky_cli_error("%s: not written, because its input is not whole", rewrite->output);
	else if (result == -EEXIST)
		ky_cli_error("%s: exists; replace it with --force", rewrite->output);
	else if (result == KYMO_E_CORRUPT)
		ky_cli_error("the input changed while it was read; take a copy of it");
	else
		ky_cli_error("%s: cannot be written: %s", rewrite->output,
			     ky_disk_room_text(room, rewrite->output, result));
}

static int recompress(struct ky_rewrite *rewrite)
{
	struct ky_recompress_result done;
	int result = ky_recompress(rewrite->input, rewrite->is_mix, write_chunk, rewrite, &done);

	rewrite->events = done.events;
	rewrite->is_indexed = done.is_indexed;
	return result;
}

/* A trace without events is one all the same. */
static int write_header(struct ky_rewrite *rewrite)
{
	static const uint8_t header[] = {'T', 'R', 'C', 0, KY_TRC_VERSION};
	struct ky_chunk chunk = {.bytes = header, .byte_count = sizeof(header)};

	return write_chunk(rewrite, &chunk);
}

int ky_rewrite_run(struct ky_rewrite *rewrite)
{
	int result = ky_out_file_open(&rewrite->file, rewrite->output, rewrite->is_forced);

	if (result) {
		say_trouble(rewrite, result);
		return KY_EXIT_TROUBLE;
	}
	result = rewrite->factory.open(&rewrite->factory, &rewrite->stage);
	if (!result)
		result = rewrite->is_recompress ? recompress(rewrite) : reencode(rewrite);
	if (!result && ky_input_is_limited(rewrite->input))
		result = KYMO_E_LIMIT;
	ky_progress_step("writing to disk");
	if (!result && !rewrite->chunks)
		result = write_header(rewrite);
	if (!result)
		result = rewrite->stage.finish(rewrite->stage.stage, ky_out_file_write,
					       &rewrite->file);
	if (rewrite->stage.close)
		rewrite->stage.close(rewrite->stage.stage);
	if (!result)
		result = ky_out_file_commit(&rewrite->file);
	else
		ky_out_file_abort(&rewrite->file);
	if (result) {
		say_trouble(rewrite, result);
		return KY_EXIT_TROUBLE;
	}
	rewrite->stored_bytes = rewrite->file.bytes;
	/* What could be read is written; the rest has been said. */
	return rewrite->input->is_damaged || (!rewrite->events && rewrite->input->notice_count) ?
		       KY_EXIT_TROUBLE :
		       KY_EXIT_OK;
}
