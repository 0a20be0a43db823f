/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <wire/trc_dec.h>

#include <base/alloc.h>
#include <errno.h>
#include <string.h>
#include <wire/trc_state.h>

#define POOL_BYTES_MAX_DEFAULT (UINT64_C(256) << 20)
#define SCHEMAS_MAX_DEFAULT 4096u
#define FRAME_BYTES_MAX_DEFAULT (UINT64_C(64) << 20)
#define EMPTY_FRAMES_MAX_DEFAULT (1u << 20)
#define RESET_BYTES 9u
#define POOL_HEAD_BYTES 5u
#define EVENT_HEAD_BYTES 6u

static const uint8_t magic[4] = {'T', 'R', 'C', 0};

static char *put_number(char *at, const char *end, uint64_t number)
{
	char digits[20];
	int count = 0;

	do {
		digits[count++] = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	while (count && at < end)
		*at++ = digits[--count];
	return at;
}

int ky_dec_fail(struct ky_trc_dec *dec, const struct ky_in *in, int code, const char *sentence,
		uint64_t number)
{
	char *at = dec->error;
	const char *end = dec->error + sizeof(dec->error) - 1;

	if (dec->failed)
		return dec->failed;
	dec->failed = code;
	dec->error_offset = dec->offset + (uint64_t)(in->at - in->begin);
	for (; *sentence && at < end; sentence++) {
		if (*sentence == '#')
			at = put_number(at, end, number);
		else
			*at++ = *sentence;
	}
	*at = 0;
	return code;
}

int ky_trc_dec_open(struct ky_trc_dec **out, const struct ky_trc_limits *limits)
{
	struct ky_trc_dec *dec;
	struct ky_trc_limits *l;
	int err;

	*out = NULL;
	dec = ky_alloc(sizeof(*dec));
	if (!dec)
		return -ENOMEM;
	l = &dec->limits;
	if (limits)
		*l = *limits;
	l->pool_bytes_max = l->pool_bytes_max ? l->pool_bytes_max : POOL_BYTES_MAX_DEFAULT;
	l->schemas_max = l->schemas_max ? l->schemas_max : SCHEMAS_MAX_DEFAULT;
	l->frame_bytes_max = l->frame_bytes_max ? l->frame_bytes_max : FRAME_BYTES_MAX_DEFAULT;
	l->empty_frames_max = l->empty_frames_max ? l->empty_frames_max : EMPTY_FRAMES_MAX_DEFAULT;
	dec->arena.bytes_max = l->pool_bytes_max;
	err = ky_id_table_init(&dec->strings, (uintptr_t)dec);
	if (!err)
		err = ky_id_table_init(&dec->stacks, (uintptr_t)dec);
	if (!err)
		err = ky_schemas_open(&dec->schemas, l->schemas_max);
	if (err) {
		ky_trc_dec_close(dec);
		return err;
	}
	*out = dec;
	return 0;
}

void ky_trc_dec_close(struct ky_trc_dec *dec)
{
	if (!dec)
		return;
	ky_schemas_close(&dec->schemas);
	ky_id_table_release(&dec->strings);
	ky_id_table_release(&dec->stacks);
	ky_arena_release(&dec->arena);
	ky_free(dec);
}

const char *ky_trc_dec_error(const struct ky_trc_dec *dec, uint64_t *offset)
{
	if (offset)
		*offset = dec->failed ? dec->error_offset : dec->offset;
	return dec->failed ? dec->error : "the input ends in the middle of a frame";
}

uint64_t ky_trc_dec_offset(const struct ky_trc_dec *dec)
{
	return dec->offset;
}

static void reset_stream(struct ky_trc_dec *dec)
{
	dec->base_ns = 0;
	ky_arena_reset(&dec->arena);
	ky_id_table_reset(&dec->strings);
	ky_id_table_reset(&dec->stacks);
	ky_schemas_reset(&dec->schemas);
}

void ky_trc_dec_resync(struct ky_trc_dec *dec, uint64_t offset)
{
	reset_stream(dec);
	dec->failed = 0;
	dec->has_header = 0;
	dec->empty_count = 0;
	dec->offset = offset;
}

static int decode_header(struct ky_trc_dec *dec, struct ky_in *in, struct ky_frame *frame)
{
	size_t count = (size_t)(in->end - in->at);

	if (memcmp(in->at, magic, count < 4 ? count : 4) != 0) {
		if (!dec->has_header)
			return ky_dec_fail(dec, in, KYMO_E_NOT_TRACE,
					   "this is not a trace: it does not begin with TRC", 0);
		return ky_dec_fail(dec, in, KYMO_E_CORRUPT,
				   "the letter T begins a frame, but no stream header follows", 0);
	}
	if (count < KY_TRC_HEADER_BYTES)
		return KYMO_E_TRUNCATED;
	in->at += KY_TRC_HEADER_BYTES;
	if (in->at[-1] != KY_TRC_VERSION) {
		in->at--;
		return ky_dec_fail(dec, in, KYMO_E_VERSION,
				   "the stream is of version #, this program reads version 1",
				   *in->at);
	}
	dec->has_header = 1;
	reset_stream(dec);
	frame->kind = KY_FRAME_HEADER;
	return 0;
}

static int decode_reset(struct ky_trc_dec *dec, struct ky_in *in, struct ky_frame *frame)
{
	int err = ky_in_need(dec, in, RESET_BYTES);

	if (err)
		return err;
	dec->base_ns = ky_get_u64(in->at + 1);
	in->at += RESET_BYTES;
	frame->kind = KY_FRAME_RESET;
	frame->timestamp_ns = dec->base_ns;
	return 0;
}

/* Walks the entries of a pool frame: checks them, or (is_checked) takes them over. */
static int pool_entries(struct ky_trc_dec *dec, struct ky_in *in, uint8_t tag, bool is_checked)
{
	uint32_t left = ky_get_u32(in->at);
	uint64_t unit = tag == KY_TAG_STACK_POOL ? 8 : 1;
	struct ky_id_table *table = tag == KY_TAG_STACK_POOL ? &dec->stacks : &dec->strings;
	int err = 0;

	for (in->at += 4; left && !err; left--) {
		const uint8_t *copy;
		uint32_t id, count;

		if (!is_checked) {
			err = ky_in_need(dec, in, 8);
			if (err)
				return err;
		}
		id = ky_get_u32(in->at);
		count = ky_get_u32(in->at + 4);
		in->at += 8;
		if (!is_checked) {
			err = ky_in_need(dec, in, count * unit);
		} else {
			err = ky_arena_copy(&dec->arena, in->at, (size_t)(count * unit), &copy);
			if (!err)
				err = ky_id_table_set(table, id, copy, count);
		}
		if (!err)
			in->at += count * unit;
	}
	return err;
}

static int decode_pool(struct ky_trc_dec *dec, struct ky_in *in, struct ky_frame *frame)
{
	uint8_t tag = *in->at;
	struct ky_in again;
	int err = ky_in_need(dec, in, POOL_HEAD_BYTES);

	/* An endless count is refused here and not after reading on and on. */
	if (!err)
		err = ky_in_need(dec, in, POOL_HEAD_BYTES + UINT64_C(8) * ky_get_u32(in->at + 1));
	if (err)
		return err;
	in->at++;
	again = *in;
	err = pool_entries(dec, in, tag, false);
	if (err)
		return err;
	err = pool_entries(dec, &again, tag, true);
	if (err == KYMO_E_LIMIT)
		return ky_dec_fail(
			dec, &again, err,
			"strings and stacks of one stream take more than the limit of # bytes",
			dec->limits.pool_bytes_max);
	if (err)
		return ky_dec_fail(dec, &again, err, "out of memory for strings and stacks", 0);
	frame->kind = KY_FRAME_POOL;
	return 0;
}

static int decode_event(struct ky_trc_dec *dec, struct ky_in *in, struct ky_frame *frame)
{
	uint64_t timestamp_ns = dec->base_ns;
	struct ky_schema_entry *entry;
	int err = ky_in_need(dec, in, 3);

	if (err)
		return err;
	entry = dec->schemas.by_type[ky_get_u16(in->at + 1)];
	if (!entry)
		return ky_dec_fail(dec, in, KYMO_E_CORRUPT,
				   "an event has type #, which has no schema in this stream",
				   ky_get_u16(in->at + 1));
	in->at += 3;
	if (entry->schema.has_timestamp) {
		err = ky_in_need(dec, in, 3);
		if (err)
			return err;
		timestamp_ns += ky_get_u16(in->at) | (uint64_t)in->at[2] << 16;
		if (timestamp_ns < dec->base_ns)
			return ky_dec_fail(dec, in, KYMO_E_CORRUPT,
					   "a time stamp does not fit 64 bits", 0);
		in->at += 3;
	}
	err = ky_dec_values(dec, in, entry);
	if (err)
		return err;
	dec->base_ns = timestamp_ns;
	frame->kind = KY_FRAME_EVENT;
	frame->schema = &entry->schema;
	frame->values = entry->values;
	frame->timestamp_ns = timestamp_ns;
	return 0;
}

/* The common case in one go: only fields of bounded length, all of them inside the window. Returns
 * bytes consumed; 0: whatever is the matter, the careful way will see to it. */
static inline int64_t event_at_once(struct ky_trc_dec *dec, const uint8_t *window,
				    size_t window_bytes, struct ky_frame *frame)
{
	struct ky_schema_entry *entry;
	const uint8_t *at = window + EVENT_HEAD_BYTES;
	uint64_t timestamp_ns;

	if (window_bytes < EVENT_HEAD_BYTES)
		return 0;
	entry = dec->schemas.by_type[ky_get_u16(window + 1)];
	if (!entry || !entry->fast_bytes_max || !entry->schema.has_timestamp ||
	    window_bytes - EVENT_HEAD_BYTES < entry->fast_bytes_max)
		return 0;
	timestamp_ns = dec->base_ns + (ky_get_u32(window + 2) >> 8);
	if (timestamp_ns < dec->base_ns)
		return 0;
	at = ky_dec_values_fast(dec, at, entry);
	if (!at || (uint64_t)(at - window) > dec->limits.frame_bytes_max)
		return 0;
	dec->base_ns = timestamp_ns;
	dec->empty_count = 0;
	dec->offset += (uint64_t)(at - window);
	frame->kind = KY_FRAME_EVENT;
	frame->schema = &entry->schema;
	frame->timestamp_ns = timestamp_ns;
	frame->values = entry->values;
	frame->begin = window;
	frame->bytes = (size_t)(at - window);
	return at - window;
}

static int decode_other(struct ky_trc_dec *dec, struct ky_in *in, struct ky_frame *frame)
{
	if (dec->empty_count >= dec->limits.empty_frames_max)
		return ky_dec_fail(dec, in, KYMO_E_LIMIT,
				   "more than # frames in a row without an event",
				   dec->limits.empty_frames_max);
	switch (*in->at) {
	case KY_TAG_SCHEMA:
		return ky_dec_schema(dec, in, frame);
	case KY_TAG_STRING_POOL:
	case KY_TAG_STACK_POOL:
		return decode_pool(dec, in, frame);
	case KY_TAG_TIMESTAMP_RESET:
		return decode_reset(dec, in, frame);
	case KY_TAG_ANNOTATIONS:
		return ky_dec_annotations(dec, in, frame);
	case KY_TAG_HEADER:
		return decode_header(dec, in, frame);
	default:
		return ky_dec_fail(dec, in, KYMO_E_CORRUPT, "# is not the tag of a frame", *in->at);
	}
}

int64_t ky_trc_dec_next(struct ky_trc_dec *dec, const uint8_t *window, size_t window_bytes,
			struct ky_frame *frame)
{
	struct ky_in in = {window, window, window, dec->limits.frame_bytes_max};
	bool brings_something;
	int err;

	if (dec->failed)
		return dec->failed;
	if (!window_bytes)
		return 0;
	if (__builtin_expect(*window == KY_TAG_EVENT && dec->has_header, 1)) {
		int64_t used = event_at_once(dec, window, window_bytes, frame);

		if (__builtin_expect(used != 0, 1))
			return used;
	}
	in.end += window_bytes;
	frame->schema = NULL;
	frame->values = NULL;
	frame->timestamp_ns = 0;
	if (!dec->has_header)
		err = decode_header(dec, &in, frame);
	else if (*window == KY_TAG_EVENT)
		err = decode_event(dec, &in, frame);
	else
		err = decode_other(dec, &in, frame);
	if (__builtin_expect(err != 0, 0))
		return err;
	frame->begin = window;
	frame->bytes = (size_t)(in.at - window);
	if (frame->bytes > dec->limits.frame_bytes_max)
		return ky_dec_fail(dec, &in, KYMO_E_LIMIT,
				   "a frame of # bytes is longer than the limit", frame->bytes);
	brings_something = frame->kind == KY_FRAME_EVENT ||
			   (frame->kind == KY_FRAME_POOL && frame->bytes > POOL_HEAD_BYTES);
	dec->empty_count = brings_something ? 0 : dec->empty_count + 1;
	dec->offset += frame->bytes;
	return (int64_t)frame->bytes;
}
