/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <edit/recompress.h>

#include <base/buf.h>
#include <cli/cli.h>
#include <edit/index_maker.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <read/frame_reader.h>
#include <read/processes.h>
#include <string.h>

/* Streams that go into one zstd frame: enough to compress, few enough to jump. */
#define GATHER_BYTES (128u << 10)

struct copy {
	struct ky_input *input;
	ky_chunk_fn chunk;
	void *chunk_ctx;
	struct ky_recompress_result *out;
	struct ky_buf gathered;
	struct ky_buf held; /* an index, until it is known whether anything follows */
	struct ky_processes processes;
	struct ky_index_maker index;
	struct ky_chunk stream; /* that is being copied: bytes, events, times */
	uint64_t dropped;       /* indexes left out */
	size_t sealed;          /* files that ended in one */
	struct ky_unsealed unsealed;
	bool is_damaged, may_mix;
};

int ky_recompress_refuse_mix(const char *text)
{
	ky_cli_error("%s, or write them all with --mix", text);
	return KYMO_E_UNSUPPORTED;
}

static int say_damage(void *ctx, uint64_t offset, int code, const char *text)
{
	struct copy *copy = ctx;

	(void)offset;
	copy->is_damaged = true;
	copy->input->is_damaged |= code != 0 && code != KYMO_E_TRUNCATED;
	ky_input_notice(copy->input, text);
	return 0;
}

static int hand_on(struct copy *copy)
{
	struct ky_chunk chunk = {.bytes = copy->gathered.bytes, .byte_count = copy->gathered.used};
	int result = copy->gathered.failed;

	if (!result && chunk.byte_count)
		result = copy->chunk(copy->chunk_ctx, &chunk);
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
		ky_index_maker_chunk(&copy->index, &copy->stream);
	else
		ky_index_maker_skip(&copy->index, copy->stream.byte_count);
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
		copy->out->events++;
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

	copy->out->events++;
	ky_unsealed_event(&copy->unsealed, frame->schema->event);
	stream->event_count++;
	ky_index_maker_event(&copy->index, &event);
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
			result = hand_on(copy);
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

/* Whole frames only: a torn tail would spoil what is written behind it. */
static int copy_file(struct copy *copy, uint32_t file)
{
	struct ky_byte_source *source = &copy->input->sources[file];
	struct ky_frame_reader reader;
	struct ky_frame frame;
	uint64_t events_before = copy->out->events;
	bool is_sealed = false;
	int result = ky_frame_reader_init(&reader, source, NULL, UINT64_MAX, say_damage, copy);

	ky_index_maker_forget(&copy->index);
	while (!result) {
		result = ky_frame_reader_next(&reader, &frame);
		if (result <= 0)
			break;
		if (frame.kind == KY_FRAME_EVENT &&
		    ky_processes_event(&copy->processes, reader.dec, &frame, file, source->name) &&
		    !copy->may_mix) {
			result = ky_recompress_refuse_mix(copy->processes.text);
			break;
		}
		is_sealed |= frame.kind == KY_FRAME_EVENT &&
			     frame.schema->event == KY_EV_SEGMENT_INDEX;
		result = copy_frame(copy, &frame);
	}
	ky_unsealed_note(&copy->unsealed, source->name, is_sealed, reader.is_torn,
			 copy->out->events - events_before);
	copy->sealed += copy->held.used != 0;
	if (file + 1 < copy->input->count)
		drop_held(copy);
	ky_frame_reader_release(&reader);
	return result;
}

static int write_index(struct copy *copy)
{
	struct ky_buf bytes;
	int result;

	ky_buf_init(&bytes, 0);
	ky_index_maker_finish(&copy->index, &bytes);
	result = bytes.failed;
	if (!result && bytes.used) {
		result = ky_buf_append(&copy->gathered, bytes.bytes, bytes.used);
		copy->out->events++;
		copy->out->is_indexed = true;
	}
	ky_buf_release(&bytes);
	return result;
}

static int finish(struct copy *copy)
{
	struct ky_input *input = copy->input;
	bool is_right = copy->held.used && !copy->dropped && !copy->is_damaged && input->count == 1;
	int result = 0;

	copy->out->is_indexed = is_right;
	if (is_right)
		result = keep_held(copy);
	drop_held(copy);
	end_stream(copy);
	if (!result && copy->dropped && copy->sealed == input->count)
		result = write_index(copy);
	if (!result)
		result = hand_on(copy);
	if (copy->processes.is_told)
		ky_input_notice(input, copy->processes.text);
	ky_input_say_unsealed(input, &copy->unsealed);
	if (!result && copy->dropped && !copy->out->is_indexed)
		ky_cli_notice("%" PRIu64 " index%s left out, whose offsets no longer hold; the "
			      "result has none, because not every file ends in one",
			      copy->dropped, copy->dropped == 1 ? " is" : "es are");
	return result;
}

int ky_recompress(struct ky_input *input, bool may_mix, ky_chunk_fn chunk, void *chunk_ctx,
		  struct ky_recompress_result *out)
{
	struct copy copy = {.input = input,
			    .may_mix = may_mix,
			    .chunk = chunk,
			    .chunk_ctx = chunk_ctx,
			    .out = out};
	int result = ky_index_maker_init(&copy.index);

	memset(out, 0, sizeof(*out));
	ky_buf_init(&copy.gathered, 0);
	ky_buf_init(&copy.held, 0);
	for (uint32_t i = 0; i < input->count && !result; i++)
		result = copy_file(&copy, i);
	if (!result)
		result = finish(&copy);
	ky_index_maker_release(&copy.index);
	ky_buf_release(&copy.gathered);
	ky_buf_release(&copy.held);
	return result;
}
