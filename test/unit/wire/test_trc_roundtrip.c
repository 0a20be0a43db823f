/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Property: whatever the encoder writes, the decoder sees the same. A seed makes a random trace;
 *           the
 * same seed then says what every decoded value must be. */
#include "../../lib/cmocka_all.h"
#include "../../lib/prng.h"

#include <kymo/base.h>
#include <stdio.h>
#include <string.h>
#include <wire/trc_dec.h>
#include <wire/trc_enc.h>

#define SCHEMAS 12
#define EVENTS 300

struct model_schema {
	char name[16];
	char field_names[16][16];
	struct ky_trc_field_def fields[16];
	uint32_t field_count;
	bool has_timestamp;
};

/* One value as the seed makes it. */
struct model_value {
	bool is_present;
	uint64_t number;
	uint8_t bytes[400];
	uint32_t byte_count;
	uint32_t count; /* frames or elements */
};

static void make_schema(struct test_prng *prng, struct model_schema *schema, int number)
{
	memset(schema, 0, sizeof(*schema));
	snprintf(schema->name, sizeof(schema->name), "Event%d", number);
	schema->field_count = test_below(prng, 16);
	schema->has_timestamp = test_below(prng, 5) != 0;
	for (uint32_t i = 0; i < schema->field_count; i++) {
		uint8_t type = (uint8_t)(1 + test_below(prng, KY_TYPE_MAP));

		snprintf(schema->field_names[i], sizeof(schema->field_names[i]), "f%u", i);
		if (test_below(prng, 3) == 0)
			type |= KY_TYPE_OPTIONAL;
		schema->fields[i].type = type;
		schema->fields[i].name_bytes = strlen(schema->field_names[i]);
	}
}

/* Random elements, nested while there is room; returns their number. */
static uint32_t make_elements(struct test_prng *prng, struct ky_buf *out, uint8_t type, int depth)
{
	uint32_t count = test_below(prng, depth ? 3 : 4);
	uint32_t parts = type == KY_TYPE_LIST ? count : 2 * count;

	for (uint32_t i = 0; i < parts; i++) {
		static const uint8_t kinds[] = {KY_TYPE_U8,  KY_TYPE_VARINT, KY_TYPE_STRING,
						KY_TYPE_F64, KY_TYPE_LIST,   KY_TYPE_MAP};
		uint8_t kind = kinds[test_below(prng, depth < 3 ? 6 : 4)];
		uint64_t number = test_random(prng) & 0x7f;
		uint32_t inner_at, inner;

		if (type == KY_TYPE_STRING_MAP)
			kind = KY_TYPE_STRING;
		else
			ky_buf_append(out, &kind, 1);
		inner_at = (uint32_t)out->used;
		if (kind == KY_TYPE_STRING) {
			ky_buf_append(out, "\3\0\0\0abc", 7);
		} else if (kind >= KY_TYPE_LIST) {
			ky_buf_append(out, "\0\0\0\0", 4);
			inner = make_elements(prng, out, kind, depth + 1);
			memcpy(out->bytes + inner_at, &inner, 4);
		} else {
			ky_buf_append(out, &number, kind == KY_TYPE_F64 ? 8 : 1);
		}
	}
	return count;
}

static void make_container(struct test_prng *prng, struct model_value *value, uint8_t type)
{
	struct ky_buf elements;

	do {
		ky_buf_init(&elements, 0);
		value->count = make_elements(prng, &elements, type, 0);
		value->byte_count = (uint32_t)elements.used;
		if (elements.used <= sizeof(value->bytes) && elements.used)
			memcpy(value->bytes, elements.bytes, elements.used);
		ky_buf_release(&elements);
	} while (value->byte_count > sizeof(value->bytes));
}

static void make_value(struct test_prng *prng, struct model_value *value, uint8_t type)
{
	value->is_present = !(type & KY_TYPE_OPTIONAL) || test_below(prng, 2);
	type &= (uint8_t)~KY_TYPE_OPTIONAL;
	value->number = test_random_length(prng);
	value->byte_count = test_below(prng, 40);
	value->count = test_below(prng, 6);
	switch (type) {
	case KY_TYPE_BOOL:
		value->number &= 1;
		break;
	case KY_TYPE_U8:
		value->number &= 0xff;
		break;
	case KY_TYPE_U16:
		value->number &= 0xffff;
		break;
	case KY_TYPE_U32:
		value->number &= 0xffffffff;
		break;
	case KY_TYPE_STACK:
	case KY_TYPE_POOLED_STACK:
		value->byte_count = 8 * value->count;
		break;
	case KY_TYPE_STRING_MAP:
	case KY_TYPE_LIST:
	case KY_TYPE_MAP:
		make_container(prng, value, type);
		return;
	default:
		break;
	}
	for (uint32_t i = 0; i < value->byte_count; i++)
		value->bytes[i] = (uint8_t)('a' + test_below(prng, 4));
}

static void encode_value(struct ky_trc_enc *enc, const struct model_value *value, uint8_t type,
			 uint32_t pool_id)
{
	uint64_t frames[8];
	double real;

	if (type & KY_TYPE_OPTIONAL)
		ky_trc_enc_u8(enc, value->is_present);
	if (!value->is_present)
		return;
	switch (type & ~KY_TYPE_OPTIONAL) {
	case KY_TYPE_I64:
		ky_trc_enc_i64(enc, (int64_t)value->number);
		break;
	case KY_TYPE_F64:
		memcpy(&real, &value->number, sizeof(real));
		ky_trc_enc_f64(enc, real);
		break;
	case KY_TYPE_BOOL:
	case KY_TYPE_U8:
		ky_trc_enc_u8(enc, (uint8_t)value->number);
		break;
	case KY_TYPE_U16:
		ky_trc_enc_u16(enc, (uint16_t)value->number);
		break;
	case KY_TYPE_U32:
		ky_trc_enc_u32(enc, (uint32_t)value->number);
		break;
	case KY_TYPE_VARINT:
		ky_trc_enc_varint(enc, value->number);
		break;
	case KY_TYPE_STRING:
		ky_trc_enc_text(enc, (const char *)value->bytes, value->byte_count);
		break;
	case KY_TYPE_BYTES:
		ky_trc_enc_bytes(enc, value->bytes, value->byte_count);
		break;
	case KY_TYPE_STACK:
		memcpy(frames, value->bytes, value->byte_count);
		ky_trc_enc_frames(enc, frames, value->count);
		break;
	case KY_TYPE_STRING_MAP:
	case KY_TYPE_LIST:
	case KY_TYPE_MAP:
		ky_trc_enc_count(enc, value->count);
		ky_buf_append(enc->out, value->bytes, value->byte_count);
		break;
	default:
		ky_trc_enc_u32(enc, pool_id);
	}
}

static uint32_t encode_pool(struct ky_trc_enc *enc, const struct model_value *value, uint8_t type)
{
	uint64_t frames[8];

	if ((type & 0x7f) == KY_TYPE_POOLED_STRING)
		return ky_trc_enc_string(enc, 0, (const char *)value->bytes, value->byte_count);
	if ((type & 0x7f) != KY_TYPE_POOLED_STACK)
		return 0;
	memcpy(frames, value->bytes, value->byte_count);
	return ky_trc_enc_stack(enc, frames, value->count);
}

static uint64_t next_time(struct test_prng *prng, uint64_t time_ns)
{
	switch (test_below(prng, 8)) {
	case 0:
		return test_random(prng); /* anywhere, also back */
	case 1:
		return time_ns + KY_TRC_DELTA_MAX > time_ns ? time_ns + KY_TRC_DELTA_MAX : time_ns;
	default:
		return time_ns > UINT64_MAX / 2 ? time_ns / 2 : time_ns + test_below(prng, 100000);
	}
}

static void encode_trace(uint64_t seed, struct ky_trc_enc *enc, struct model_schema *schemas)
{
	struct test_prng prng = {seed};
	bool is_known[SCHEMAS] = {false};
	uint64_t time_ns = 0;

	for (int i = 0; i < SCHEMAS; i++)
		make_schema(&prng, &schemas[i], i);
	ky_trc_enc_begin(enc);
	for (int i = 0; i < EVENTS; i++) {
		uint32_t s = test_below(&prng, SCHEMAS);
		struct model_schema *schema = &schemas[s];
		static struct model_value values[16];
		uint32_t ids[16];

		if (test_below(&prng, 50) == 0) {
			ky_trc_enc_begin(enc);
			memset(is_known, 0, sizeof(is_known));
		}
		for (uint32_t f = 0; f < schema->field_count; f++) {
			schema->fields[f].name = schema->field_names[f];
			make_value(&prng, &values[f], schema->fields[f].type);
			ids[f] = encode_pool(enc, &values[f], schema->fields[f].type);
		}
		if (!is_known[s])
			ky_trc_enc_schema(enc, (uint16_t)(s * 5000), schema->name,
					  strlen(schema->name), schema->has_timestamp,
					  schema->fields, schema->field_count);
		is_known[s] = true;
		time_ns = next_time(&prng, time_ns);
		ky_trc_enc_raw_event(enc, (uint16_t)(s * 5000), schema->has_timestamp, time_ns);
		for (uint32_t f = 0; f < schema->field_count; f++)
			encode_value(enc, &values[f], schema->fields[f].type, ids[f]);
	}
	assert_int_equal(enc->out->failed, 0);
}

static uint32_t walk_count(struct ky_trc_dec *dec, const struct ky_value *container)
{
	struct ky_value key, value;
	struct ky_trc_walk walk;
	uint32_t count = 0;
	int more;

	ky_trc_walk_begin(&walk, container);
	while ((more = ky_trc_walk_next(dec, &walk, &key, &value)) == 1) {
		count++;
		if (value.type >= KY_TYPE_LIST)
			assert_int_equal(walk_count(dec, &value), value.frame_count);
	}
	assert_int_equal(more, 0);
	assert_ptr_equal(walk.at, walk.end);
	return count;
}

static void check_value(struct ky_trc_dec *dec, const struct ky_value *seen,
			const struct model_value *value, uint8_t type)
{
	type &= (uint8_t)~KY_TYPE_OPTIONAL;
	assert_int_equal(seen->type, type);
	assert_int_equal(seen->is_present, value->is_present);
	if (!value->is_present)
		return;
	assert_int_equal(seen->is_resolved, 1);
	switch (type) {
	case KY_TYPE_STRING:
	case KY_TYPE_BYTES:
	case KY_TYPE_POOLED_STRING:
		assert_int_equal(seen->text.count, value->byte_count);
		assert_memory_equal(seen->text.bytes, value->bytes, value->byte_count);
		break;
	case KY_TYPE_STACK:
	case KY_TYPE_POOLED_STACK:
		assert_int_equal(seen->frame_count, value->count);
		assert_memory_equal(seen->frames, value->bytes, value->byte_count);
		break;
	case KY_TYPE_STRING_MAP:
	case KY_TYPE_LIST:
	case KY_TYPE_MAP:
		assert_int_equal(seen->frame_count, value->count);
		assert_int_equal(seen->text.count, value->byte_count);
		assert_memory_equal(seen->text.bytes, value->bytes, value->byte_count);
		assert_int_equal(walk_count(dec, seen), value->count);
		break;
	default:
		assert_true(seen->as.number == value->number);
	}
}

static void next_event(struct ky_trc_dec *dec, const struct ky_buf *bytes, size_t *at,
		       struct ky_frame *frame)
{
	do {
		int64_t used = ky_trc_dec_next(dec, bytes->bytes + *at, bytes->used - *at, frame);

		if (used <= 0)
			fail_msg("byte %zu: %s", *at, ky_trc_dec_error(dec, NULL));
		assert_int_equal(frame->bytes, used);
		*at += (size_t)used;
	} while (frame->kind != KY_FRAME_EVENT);
}

static void check_trace(uint64_t seed, struct ky_trc_dec *dec, const struct ky_buf *bytes)
{
	static struct model_schema schemas[SCHEMAS];
	struct test_prng prng = {seed};
	struct ky_frame frame;
	uint64_t time_ns = 0;
	size_t at = 0;

	for (int i = 0; i < SCHEMAS; i++)
		make_schema(&prng, &schemas[i], i);
	for (int i = 0; i < EVENTS; i++) {
		uint32_t s = test_below(&prng, SCHEMAS);
		const struct model_schema *schema = &schemas[s];
		static struct model_value values[16];

		test_below(&prng, 50);
		for (uint32_t f = 0; f < schema->field_count; f++)
			make_value(&prng, &values[f], schema->fields[f].type);
		time_ns = next_time(&prng, time_ns);
		next_event(dec, bytes, &at, &frame);
		assert_int_equal(frame.schema->type_id, s * 5000);
		assert_int_equal(frame.schema->field_count, schema->field_count);
		assert_int_equal(frame.schema->has_timestamp, schema->has_timestamp);
		if (schema->has_timestamp)
			assert_true(frame.timestamp_ns == time_ns);
		for (uint32_t f = 0; f < schema->field_count; f++)
			check_value(dec, &frame.values[f], &values[f], schema->fields[f].type);
	}
	assert_int_equal(at, bytes->used);
}

static void roundtrip__random_traces_decode_to_what_was_encoded(void **state)
{
	static struct model_schema schemas[SCHEMAS];
	struct ky_trc_enc enc;
	struct ky_buf bytes;

	(void)state;
	ky_buf_init(&bytes, 0);
	assert_int_equal(ky_trc_enc_init(&enc, &bytes), 0);
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct ky_trc_dec *dec;

		encode_trace(seed, &enc, schemas);
		assert_int_equal(ky_trc_dec_open(&dec, NULL), 0);
		check_trace(seed, dec, &bytes);
		ky_trc_dec_close(dec);
		ky_buf_clear(&bytes);
	}
	ky_trc_enc_release(&enc);
	ky_buf_release(&bytes);
}

static void roundtrip__one_decoder_takes_many_traces_in_a_row(void **state)
{
	static struct model_schema schemas[SCHEMAS];
	struct ky_trc_limits limits = {.schemas_max = 20 * SCHEMAS};
	struct ky_trc_dec *dec;
	struct ky_trc_enc enc;
	struct ky_buf bytes;

	(void)state;
	ky_buf_init(&bytes, 0);
	assert_int_equal(ky_trc_enc_init(&enc, &bytes), 0);
	assert_int_equal(ky_trc_dec_open(&dec, &limits), 0);
	for (uint64_t round = 0; round < 60; round++) {
		uint64_t seed = 100 + round % 20;

		encode_trace(seed, &enc, schemas);
		check_trace(seed, dec, &bytes);
		ky_buf_clear(&bytes);
	}
	ky_trc_dec_close(dec);
	ky_trc_enc_release(&enc);
	ky_buf_release(&bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(roundtrip__random_traces_decode_to_what_was_encoded),
		cmocka_unit_test(roundtrip__one_decoder_takes_many_traces_in_a_row),
	};

	return cmocka_run_group_tests_name("trc_roundtrip", tests, NULL, NULL);
}
