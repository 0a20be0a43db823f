/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/cli.h>

#include <cli/index_maker.h>
#include <cli/input.h>
#include <cli/out_file.h>
#include <cli/out_text.h>
#include <cli/rechunk.h>
#include <cli/recompress.h>
#include <errno.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <kymo/recorder.h>
#include <ship/stage.h>
#include <ship/store.h>
#include <ship/trace_file.h>
#include <string.h>
#include <unistd.h>

enum {
	KEY_RECOMPRESS = KY_KEY_FIRST_FREE,
	KEY_LEVEL,
	KEY_MIX,
	KEY_FORCE = 'f'
};

struct arguments {
	struct ky_input input;
	const char *output;
	uint64_t level;
	uint32_t compression; /* enum kymo_compression; DEFAULT: by the name */
	bool is_recompress, is_forced, is_mix, is_json;
};

struct job {
	struct arguments *arguments;
	struct ky_out_file file;
	struct ky_stage_factory factory;
	struct ky_stage stage;
	struct ky_index_maker index;
	uint64_t events, chunks, raw_bytes, late, mended, undefined, indexes;
	bool is_indexed;
};

static const struct argp_option options[] = {
	{"output", 'o', "FILE", 0, "Write to FILE ('-': standard output); must be given", 0},
	{"compress", 'c', "KIND", 0,
	 "zstd, gzip or none; default by the name of FILE: .zst, .gz, else none", 0},
	{"level", KEY_LEVEL, "N", 0,
	 "Compression level: zstd 1 to 19 (default 3), gzip 1 to 9 (default 6)", 0},
	{"recompress", KEY_RECOMPRESS, 0, 0,
	 "Keep the bytes as they are inside the compression: no sorting, no new chunks", 0},
	{"force", KEY_FORCE, 0, 0, "Replace FILE when it exists", 0},
	{"mix", KEY_MIX, 0, 0,
	 "Write several processes into one file, where nothing tells their ids apart", 0},
	{"json", 'j', 0, 0, "Say what was written as one JSON object on standard output", 0},
	{0},
};

static void parse_compression(struct argp_state *state, struct arguments *arguments,
			      const char *text)
{
	if (strcmp(text, "zstd") == 0)
		arguments->compression = KYMO_COMPRESSION_ZSTD;
	else if (strcmp(text, "gzip") == 0)
		arguments->compression = KYMO_COMPRESSION_GZIP;
	else if (strcmp(text, "none") == 0)
		arguments->compression = KYMO_COMPRESSION_NONE;
	else
		argp_error(state, "--compress is zstd, gzip or none, not '%s'", text);
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct arguments *arguments = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &arguments->input;
		return 0;
	case 'o':
		arguments->output = text;
		return 0;
	case 'c':
		parse_compression(state, arguments, text);
		return 0;
	case KEY_LEVEL:
		if (ky_input_parse_number(text, &arguments->level) || !arguments->level ||
		    arguments->level > 19)
			argp_error(state, "--level takes a number from 1 to 19, not '%s'", text);
		return 0;
	case KEY_RECOMPRESS:
		arguments->is_recompress = true;
		return 0;
	case KEY_FORCE:
		arguments->is_forced = true;
		return 0;
	case KEY_MIX:
		arguments->is_mix = true;
		return 0;
	case 'j':
		arguments->is_json = true;
		return 0;
	case ARGP_KEY_END:
		if (!arguments->output)
			argp_error(state, "say where to write with -o FILE");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static bool ends_in(const char *text, const char *suffix)
{
	size_t text_count = strlen(text), count = strlen(suffix);

	return text_count >= count && strcmp(text + text_count - count, suffix) == 0;
}

/* Returns an exit code. */
static int choose_stage(struct job *job)
{
	struct arguments *arguments = job->arguments;
	int level = (int)arguments->level;

	if (!arguments->compression && ky_trace_file_is_foreign(arguments->output)) {
		ky_cli_error(
			"-o %s: kymo packs as zstd (.zst) and gzip (.gz); name FILE so, or say "
			"with --compress what shall be in it",
			arguments->output);
		return KY_EXIT_USAGE;
	}
	if (!arguments->compression)
		arguments->compression = ends_in(arguments->output, ".zst") ?
						 KYMO_COMPRESSION_ZSTD :
					 ends_in(arguments->output, ".gz") ? KYMO_COMPRESSION_GZIP :
									     KYMO_COMPRESSION_NONE;
	if (arguments->compression == KYMO_COMPRESSION_GZIP && level > 9) {
		ky_cli_error("gzip has the levels 1 to 9");
		return KY_EXIT_USAGE;
	}
	if (arguments->compression == KYMO_COMPRESSION_ZSTD)
		ky_stage_zstd(&job->factory, level ? level : 3);
	else if (arguments->compression == KYMO_COMPRESSION_GZIP)
		ky_stage_gzip(&job->factory, level ? level : 6);
	else
		job->factory = ky_stage_none;
	return KY_EXIT_OK;
}

static int write_chunk(void *ctx, const struct ky_chunk *chunk)
{
	struct job *job = ctx;

	job->chunks++;
	job->raw_bytes += chunk->byte_count;
	return job->stage.write(job->stage.stage, chunk->bytes, chunk->byte_count,
				ky_out_file_write, &job->file);
}

static int write_event_chunk(void *ctx, const struct ky_chunk *chunk)
{
	struct job *job = ctx;

	ky_index_maker_chunk(&job->index, chunk);
	return write_chunk(job, chunk);
}

/* Where every file was sealed, the result is. */
static int write_index(struct job *job)
{
	struct ky_buf bytes;
	int result = 0;

	if (!job->indexes || job->indexes < job->arguments->input.count)
		return 0;
	ky_buf_init(&bytes, 0);
	ky_index_maker_finish(&job->index, &bytes);
	result = bytes.failed;
	if (!result && bytes.used) {
		struct ky_chunk chunk = {.bytes = bytes.bytes, .byte_count = bytes.used};

		result = write_chunk(job, &chunk);
		job->events++;
		job->is_indexed = true;
	}
	ky_buf_release(&bytes);
	return result;
}

/* An old index names offsets that no longer hold: a new one takes its place. */
static int put_event(struct job *job, struct ky_rechunk *rechunk, struct ky_catalog *catalog,
		     struct ky_event_stream *stream, const struct ky_event *event)
{
	uint32_t shape;
	int result;

	if (event->schema->event == KY_EV_SEGMENT_INDEX) {
		job->indexes++;
		return 0;
	}
	shape = ky_catalog_find(catalog, event->source, event->schema);
	if (shape >= catalog->count)
		return KYMO_E_CORRUPT; /* the file changed between the two passes */
	job->events++;
	job->late += event->is_late;
	result = ky_rechunk_event(rechunk, stream, event, shape);
	ky_index_maker_event(&job->index, event); /* it may have begun a chunk */
	return result;
}

static int copy_events(struct job *job, struct ky_catalog *catalog, struct ky_event_stream *stream)
{
	const struct ky_event *event;
	struct ky_rechunk rechunk;
	int result = ky_rechunk_init(&rechunk, catalog, write_event_chunk, job);

	if (!result)
		result = ky_index_maker_init(&job->index);
	while (!result) {
		result = ky_event_stream_next(stream, &event);
		if (result <= 0)
			break;
		result = put_event(job, &rechunk, catalog, stream, event);
	}
	if (!result)
		result = ky_rechunk_flush(&rechunk);
	if (!result)
		result = write_index(job);
	job->mended = rechunk.mended_count;
	job->undefined = rechunk.undefined_count;
	ky_index_maker_release(&job->index);
	ky_rechunk_release(&rechunk);
	return result;
}

static int reencode(struct job *job)
{
	struct ky_input *input = &job->arguments->input;
	struct ky_event_stream_options stream_options = {
		.reorder_bytes_max = input->memory_bytes_max};
	struct ky_event_stream *stream = NULL;
	struct ky_catalog catalog;
	const char *notice;
	int result = ky_catalog_init(&catalog);

	if (!result)
		result = ky_catalog_read(&catalog, input->sources, input->count);
	if (!result && catalog.processes.is_told && !job->arguments->is_mix)
		result = ky_recompress_refuse_mix(input, catalog.processes.text);
	else if (!result && catalog.processes.is_told)
		ky_input_notice(input, catalog.processes.text);
	if (!result)
		result = ky_event_stream_open(&stream, input->sources, input->count,
					      &stream_options);
	if (!result)
		result = copy_events(job, &catalog, stream);
	ky_input_quiet(input);
	for (uint32_t i = 0; stream && (notice = ky_event_stream_notice(stream, i)); i++)
		ky_input_notice(input, notice);
	if (stream)
		ky_input_say_unsealed(input, &catalog.unsealed);
	input->is_damaged |= stream && ky_event_stream_is_damaged(stream);
	if (job->late)
		ky_cli_notice("%" PRIu64
			      " events came too late to be sorted into place; give more than "
			      "256M with --max-memory",
			      job->late);
	if (job->mended)
		ky_cli_notice("%" PRIu64
			      " text%s not UTF-8: every byte of them that is none became '?' "
			      "(--recompress keeps them)",
			      job->mended, job->mended == 1 ? " was" : "s were");
	if (job->undefined)
		ky_cli_notice("%" PRIu64 " value%s to a string or stack that is not defined there; "
			      "%s so, under another id",
			      job->undefined, job->undefined == 1 ? " refers" : "s refer",
			      job->undefined == 1 ? "it stays" : "they stay");
	ky_event_stream_close(stream);
	ky_catalog_release(&catalog);
	return result;
}

static void say_done(const struct job *job)
{
	char events[KY_OUT_CELL_BYTES], raw[KY_OUT_CELL_BYTES], stored[KY_OUT_CELL_BYTES];

	if (job->arguments->is_json)
		(void)printf("{\"events\":%" PRIu64 ",\"chunks\":%" PRIu64 ",\"raw_bytes\":%" PRIu64
			     ",\"stored_bytes\":%" PRIu64 ",\"indexed\":%s}\n",
			     job->events, job->chunks, job->raw_bytes, job->file.bytes,
			     job->is_indexed ? "true" : "false");
	else if (strcmp(job->arguments->output, "-") != 0)
		(void)printf("%s: %s events, %s in %s\n", job->arguments->output,
			     ky_out_count(events, job->events), ky_out_bytes(raw, job->raw_bytes),
			     ky_out_bytes(stored, job->file.bytes));
}

static void say_trouble(const struct job *job, int result)
{
	const struct arguments *arguments = job->arguments;

	ky_input_quiet(&job->arguments->input);
	if (result == KYMO_E_UNSUPPORTED)
		return; /* several processes: said */
	if (result == KYMO_E_LIMIT)
		ky_cli_error("%s: not written, because its input is not whole", arguments->output);
	else if (result == -EEXIST)
		ky_cli_error("%s: exists; replace it with --force", arguments->output);
	else if (result == KYMO_E_CORRUPT)
		ky_cli_error("the input changed while it was read; convert a copy of it");
	else
		ky_cli_error("%s: cannot be written: %s", arguments->output,
			     kymo_error_text(result));
}

static int recompress(struct job *job)
{
	struct ky_recompress_result done;
	int result = ky_recompress(&job->arguments->input, job->arguments->is_mix, write_chunk, job,
				   &done);

	job->events = done.events;
	job->is_indexed = done.is_indexed;
	return result;
}

/* A trace without events is one all the same. */
static int write_header(struct job *job)
{
	static const uint8_t header[] = {'T', 'R', 'C', 0, KY_TRC_VERSION};
	struct ky_chunk chunk = {.bytes = header, .byte_count = sizeof(header)};

	return write_chunk(job, &chunk);
}

static int convert(struct job *job)
{
	struct arguments *arguments = job->arguments;
	int result = ky_out_file_open(&job->file, arguments->output, arguments->is_forced);

	if (result) {
		say_trouble(job, result);
		return KY_EXIT_TROUBLE;
	}
	result = job->factory.open(&job->factory, &job->stage);
	if (!result)
		result = arguments->is_recompress ? recompress(job) : reencode(job);
	if (!result && ky_input_is_limited(&arguments->input))
		result = KYMO_E_LIMIT;
	if (!result && !job->chunks)
		result = write_header(job);
	if (!result)
		result = job->stage.finish(job->stage.stage, ky_out_file_write, &job->file);
	if (job->stage.close)
		job->stage.close(job->stage.stage);
	if (!result)
		result = ky_out_file_commit(&job->file);
	else
		ky_out_file_abort(&job->file);
	if (result) {
		say_trouble(job, result);
		return KY_EXIT_TROUBLE;
	}
	say_done(job);
	/* What could be read is written; the rest has been said. */
	return arguments->input.is_damaged || (!job->events && arguments->input.notice_count) ?
		       KY_EXIT_TROUBLE :
		       KY_EXIT_OK;
}

int ky_cmd_convert(int argc, char **argv)
{
	static const struct argp_child children[] = {{&ky_input_argp, 0, 0, 0}, {0}};
	static const struct argp argp = {
		options,
		parse,
		"FILE|DIRECTORY... -o FILE",
		"Writes traces anew as one file: sorted by time in chunks of at most 256 KiB, "
		"every event with all its fields and annotations, also those that kymo does not"
		" know. With --recompress only the compression changes. The file appears under "
		"its name when it is whole.",
		children,
		0,
		0};
	struct arguments arguments = {.level = 0};
	struct job job = {.arguments = &arguments};
	int code;

	if (argp_parse(&argp, argc, argv, 0, 0, &arguments))
		return KY_EXIT_USAGE;
	if (strcmp(arguments.output, "-") == 0 && (arguments.is_json || isatty(STDOUT_FILENO))) {
		ky_cli_error(
			"a trace does not go to a terminal or together with --json; give -o FILE");
		return KY_EXIT_USAGE;
	}
	code = choose_stage(&job);
	if (!code)
		code = ky_input_open(&arguments.input);
	if (!code)
		code = convert(&job);
	ky_input_close(&arguments.input);
	return code;
}
