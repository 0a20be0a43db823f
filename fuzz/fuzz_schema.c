/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Bytes as the inside of one schema frame, then as annotations of it and events of its type.
 * Promises: a schema that is taken encodes to its own bytes; repeating it changes nothing; under
 *           another id it is the same one. */
#include "fuzz_target.h"
#include "fuzz_text.h"

#include <base/buf.h>
#include <kymo/base.h>
#include <string.h>
#include <wire/trc_dec.h>
#include <wire/trc_enc.h>

static const uint8_t header[KY_TRC_HEADER_BYTES] = {'T', 'R', 'C', 0, 1};
static const struct ky_trc_limits limits = {1u << 20, 16, 1u << 20, 100};

static int64_t next(struct ky_trc_dec *dec, const void *bytes, size_t count, struct ky_frame *frame)
{
	return ky_trc_dec_next(dec, bytes, count, frame);
}

/* The frame that our encoder makes of a decoded schema. */
static void encode(struct ky_buf *out, const struct ky_schema *schema, uint16_t type_id)
{
	struct ky_trc_field_def *fields = malloc(((size_t)schema->field_count + 1) *
						 sizeof(*fields));
	struct ky_trc_enc enc;

	FUZZ_CHECK(fields && ky_trc_enc_init(&enc, out) == 0);
	for (uint32_t i = 0; i < schema->field_count; i++) {
		fields[i].name = (const char *)schema->fields[i].name.bytes;
		fields[i].name_bytes = schema->fields[i].name.count;
		fields[i].type = schema->fields[i].type;
	}
	ky_trc_enc_schema(&enc, type_id, (const char *)schema->name.bytes, schema->name.count,
			  schema->has_timestamp, fields, schema->field_count);
	FUZZ_CHECK(out->failed == 0);
	ky_trc_enc_release(&enc);
	free(fields);
}

static void check_known(const struct ky_schema *schema)
{
	for (uint32_t k = 0; k < KY_TRC_FIELDS_MAX; k++) {
		uint8_t slot = schema->slot_of[k];

		FUZZ_CHECK(slot == 0xff || slot < schema->field_count);
		FUZZ_CHECK(slot == 0xff || schema->fields[slot].known == k);
		FUZZ_CHECK(slot == 0xff || schema->event < KY_EV_COUNT);
	}
}

static bool is_text(const struct ky_schema *schema)
{
	bool is_all = fuzz_is_utf8(schema->name.bytes, schema->name.count);

	for (uint32_t i = 0; i < schema->field_count; i++)
		is_all &= fuzz_is_utf8(schema->fields[i].name.bytes, schema->fields[i].name.count);
	return is_all;
}

/* Whatever follows is read as further frames of the same stream. */
static void read_rest(struct ky_trc_dec *dec, const uint8_t *bytes, size_t count)
{
	struct ky_frame frame;
	size_t at = 0;
	int64_t used;

	while ((used = next(dec, bytes + at, count - at, &frame)) > 0)
		at += (size_t)used;
	FUZZ_CHECK(at <= count);
}

static void check_schema(struct ky_trc_dec *dec, const struct ky_frame *taken)
{
	const struct ky_schema *schema = taken->schema;
	uint16_t other_id = (uint16_t)(schema->type_id ^ 1);
	uint32_t serial = schema->serial;
	struct ky_frame frame;
	struct ky_buf out;

	check_known(schema);
	ky_buf_init(&out, 0);
	encode(&out, schema, schema->type_id);
	/* "Has time stamp" is any nonzero byte; ours is 1. Names that are not UTF-8 are mended.
	 * Everything else must be the same. */
	FUZZ_CHECK(out.used == taken->bytes);
	if (is_text(schema) && memcmp(out.bytes, taken->begin, out.used) != 0)
		FUZZ_CHECK(schema->has_timestamp == 1);
	FUZZ_CHECK(next(dec, taken->begin, taken->bytes, &frame) == (int64_t)taken->bytes);
	FUZZ_CHECK(frame.schema == schema);
	ky_buf_clear(&out);
	encode(&out, schema, other_id);
	FUZZ_CHECK(next(dec, out.bytes, out.used, &frame) == (int64_t)out.used);
	FUZZ_CHECK(frame.schema != schema && frame.schema->type_id == other_id);
	if (memcmp(out.bytes + 3, taken->begin + 3, out.used - 3) == 0)
		FUZZ_CHECK(frame.schema->serial == serial);
	ky_buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	uint8_t *stream = malloc(count + 1);
	struct ky_trc_dec *dec;
	struct ky_frame frame;
	int64_t used;

	FUZZ_CHECK(stream && ky_trc_dec_open(&dec, &limits) == 0);
	stream[0] = KY_TAG_SCHEMA;
	if (count)
		memcpy(stream + 1, bytes, count);
	FUZZ_CHECK(next(dec, header, sizeof(header), &frame) == sizeof(header));
	used = next(dec, stream, count + 1, &frame);
	FUZZ_CHECK(used != 0);
	if (used > 0) {
		check_schema(dec, &frame);
		read_rest(dec, stream + used, count + 1 - (size_t)used);
	}
	ky_trc_dec_close(dec);
	free(stream);
	return 0;
}
