/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The committed traces come from make_golden.py, which shares no code with src/wire: what our
 * encoder writes and what our decoder sees must be those bytes and those lines. */
#include "../lib/cmocka_all.h"
#include "../lib/trace_dump.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wire/trc_enc.h>

static void read_golden(struct ky_buf *out, const char *name, const char *suffix)
{
	char path[512];
	char bytes[2048];
	size_t count;
	FILE *file;

	snprintf(path, sizeof(path), "%s/test/golden/traces/%s.%s", getenv("MESON_SOURCE_ROOT"),
		 name, suffix);
	ky_buf_init(out, 0);
	file = fopen(path, "rb");
	if (!file)
		fail_msg("%s is missing: run test/golden/make_golden.py", path);
	while ((count = fread(bytes, 1, sizeof(bytes), file)) > 0)
		ky_buf_append(out, bytes, count);
	fclose(file);
}

static void check_dump(const char *name, size_t window_bytes)
{
	struct ky_buf bytes, expected, seen;

	read_golden(&bytes, name, "trc");
	read_golden(&expected, name, "txt");
	ky_buf_append(&expected, "", 1);
	ky_buf_init(&seen, 0);
	assert_int_equal(test_trace_dump(&seen, bytes.bytes, bytes.used, window_bytes), 0);
	assert_string_equal((const char *)seen.bytes, (const char *)expected.bytes);
	ky_buf_release(&bytes);
	ky_buf_release(&expected);
	ky_buf_release(&seen);
}

/* ---- the rule of make_golden.py's value(), for the encoder ---- */

static uint64_t number_of(uint8_t type, uint64_t number, int step)
{
	unsigned int bits = type == KY_TYPE_U8 ? 8 : type == KY_TYPE_U16 ? 16 : 32;
	uint64_t mask = type == KY_TYPE_VARINT ? UINT64_MAX : (UINT64_C(1) << bits) - 1;

	return step == 0 ? 0 : step == 1 ? (number * 65537) & mask : mask;
}

static size_t text_of(char *out, size_t capacity, uint32_t event, uint32_t field, int step)
{
	if (step == 0)
		return 0;
	if (step == 2)
		return (size_t)snprintf(out, capacity, "%s",
					"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"\\");
	return (size_t)snprintf(out, capacity, "text-%u-%u", event, field);
}

static size_t bytes_of(uint8_t *out, uint32_t event, uint32_t field, int step)
{
	const uint8_t typical[4] = {(uint8_t)event, (uint8_t)field, 0, 255};

	if (step == 1)
		memcpy(out, typical, 4);
	for (size_t i = 0; step == 2 && i < 256; i++)
		out[i] = (uint8_t)i;
	return step == 0 ? 0 : step == 1 ? 4 : 256;
}

static size_t frames_of(uint64_t *out, uint64_t number, int step)
{
	if (step == 1) {
		out[0] = number;
		out[1] = number << 32;
		out[2] = UINT64_MAX;
	}
	for (size_t i = 0; step == 2 && i < 64; i++)
		out[i] = number + i;
	return step == 0 ? 0 : step == 1 ? 3 : 64;
}

static void put_map(struct ky_trc_enc *enc, uint32_t event, uint32_t field, int step)
{
	char text[64];

	ky_trc_enc_count(enc, step == 0 ? 0 : step == 1 ? 1 : 3);
	if (step == 1) {
		ky_trc_enc_text(enc, "key", 3);
		ky_trc_enc_text(enc, text, text_of(text, sizeof(text), event, field, 1));
	}
	if (step == 2) {
		ky_trc_enc_text(enc, "", 0);
		ky_trc_enc_text(enc, "", 0);
		ky_trc_enc_text(enc, "a", 1);
		ky_trc_enc_text(enc, "1", 1);
		ky_trc_enc_text(enc, "a", 1);
		ky_trc_enc_text(enc, "\xe2\x82\xac", 3);
	}
}

static void put_number(struct ky_trc_enc *enc, uint8_t type, uint64_t value)
{
	if (type == KY_TYPE_VARINT)
		ky_trc_enc_varint(enc, value);
	else if (type == KY_TYPE_U8)
		ky_trc_enc_u8(enc, (uint8_t)value);
	else if (type == KY_TYPE_U16)
		ky_trc_enc_u16(enc, (uint16_t)value);
	else
		ky_trc_enc_u32(enc, (uint32_t)value);
}

static void put_value(struct ky_trc_enc *enc, uint32_t event, uint32_t field, int step,
		      uint32_t pool_id)
{
	uint8_t type = ky_event_table[event].fields[field].type;
	uint64_t number = (event + 1) * UINT64_C(1000) + field;
	uint64_t frames[64];
	uint8_t bytes[256];
	char text[64];

	if (type & KY_TYPE_OPTIONAL) {
		ky_trc_enc_u8(enc, step != 0);
		if (step == 0)
			return;
		type &= (uint8_t)~KY_TYPE_OPTIONAL;
	}
	switch (type) {
	case KY_TYPE_BOOL:
		ky_trc_enc_u8(enc, step == 0 ? 0 : step == 1 ? field & 1 : 1);
		break;
	case KY_TYPE_I64:
		ky_trc_enc_i64(enc, step == 0 ? 0 : step == 1 ? -(int64_t)number : INT64_MIN);
		break;
	case KY_TYPE_F64:
		ky_trc_enc_f64(enc, step == 0 ? 0.0 :
				    step == 1 ? (double)number + 0.5 :
						-(double)INFINITY);
		break;
	case KY_TYPE_STRING:
		ky_trc_enc_text(enc, text, text_of(text, sizeof(text), event, field, step));
		break;
	case KY_TYPE_BYTES:
		ky_trc_enc_bytes(enc, bytes, bytes_of(bytes, event, field, step));
		break;
	case KY_TYPE_STACK:
		ky_trc_enc_frames(enc, frames, frames_of(frames, number, step));
		break;
	case KY_TYPE_STRING_MAP:
		put_map(enc, event, field, step);
		break;
	case KY_TYPE_POOLED_STRING:
	case KY_TYPE_POOLED_STACK:
		ky_trc_enc_u32(enc, pool_id);
		break;
	default:
		put_number(enc, type, number_of(type, number, step));
	}
}

static uint32_t pool_value(struct ky_trc_enc *enc, uint32_t event, uint32_t field, int step)
{
	uint8_t type = ky_event_table[event].fields[field].type;
	uint64_t frames[64];
	char text[64];

	if (type & KY_TYPE_OPTIONAL && step == 0)
		return 0;
	if ((type & 0x7f) == KY_TYPE_POOLED_STRING)
		return ky_trc_enc_string(enc, 0, text,
					 text_of(text, sizeof(text), event, field, step));
	if ((type & 0x7f) == KY_TYPE_POOLED_STACK)
		return ky_trc_enc_stack(
			enc, frames, frames_of(frames, (event + 1) * UINT64_C(1000) + field, step));
	return 0;
}

static void put_full_schema(struct ky_trc_enc *enc, uint32_t event, uint16_t type_id)
{
	const struct ky_event_desc *desc = &ky_event_table[event];
	struct ky_trc_field_def fields[KY_TRC_FIELDS_MAX];

	for (uint32_t i = 0; i < desc->field_count; i++) {
		fields[i].name = desc->fields[i].name;
		fields[i].name_bytes = strlen(fields[i].name);
		fields[i].type = desc->fields[i].type;
	}
	ky_trc_enc_schema(enc, type_id, desc->name, strlen(desc->name), true, fields,
			  desc->field_count);
}

/* The raw call writes one frame per annotation, the golden has one frame: so by hand. */
static void put_full_annotations(struct ky_trc_enc *enc, uint32_t event, uint16_t type_id)
{
	const struct ky_event_desc *desc = &ky_event_table[event];
	uint16_t count = 0;

	for (uint32_t i = 0; i < desc->field_count; i++)
		count = (uint16_t)(count + (desc->fields[i].unit[0] != 0) +
				   (desc->fields[i].kind[0] != 0));
	if (!count)
		return;
	ky_trc_enc_u8(enc, KY_TAG_ANNOTATIONS);
	ky_trc_enc_varint(enc, type_id);
	ky_trc_enc_u16(enc, count);
	for (uint16_t i = 0; i < desc->field_count; i++) {
		const char *const pairs[] = {"unit", desc->fields[i].unit, "kind",
					     desc->fields[i].kind};

		for (int k = 0; k < 4; k += 2) {
			if (!pairs[k + 1][0])
				continue;
			ky_trc_enc_u16(enc, i);
			ky_trc_enc_u16(enc, 4);
			ky_buf_append(enc->out, pairs[k], 4);
			ky_trc_enc_bytes(enc, pairs[k + 1], strlen(pairs[k + 1]));
		}
	}
}

static void put_stream(struct ky_trc_enc *enc, uint32_t event, bool is_full)
{
	const struct ky_event_desc *desc = &ky_event_table[event];
	uint64_t start_ns = (event + 1) * UINT64_C(1000000000);
	const uint64_t times_ns[3] = {start_ns, start_ns + KY_TRC_DELTA_MAX, start_ns + 5};
	uint16_t type_id = (uint16_t)(300 + event);

	ky_trc_enc_begin(enc);
	for (int step = 0; step < 3; step++) {
		uint32_t ids[KY_TRC_FIELDS_MAX] = {0};

		for (uint32_t i = 0; i < desc->field_count; i++) {
			if (is_full || desc->fields[i].is_written)
				ids[i] = pool_value(enc, event, i, step);
		}
		if (is_full && step == 0) {
			put_full_schema(enc, event, type_id);
			put_full_annotations(enc, event, type_id);
		}
		if (is_full)
			ky_trc_enc_raw_event(enc, type_id, true, times_ns[step]);
		else
			ky_trc_enc_event(enc, (enum ky_event_id)event, times_ns[step]);
		for (uint32_t i = 0; i < desc->field_count; i++) {
			if (is_full || desc->fields[i].is_written)
				put_value(enc, event, i, step, ids[i]);
		}
	}
}

static void encode_event(struct ky_buf *out, uint32_t event)
{
	const struct ky_event_desc *desc = &ky_event_table[event];
	uint32_t written_count = 0;
	struct ky_trc_enc enc;

	for (uint32_t i = 0; i < desc->field_count; i++)
		written_count += desc->fields[i].is_written;
	ky_buf_init(out, 0);
	assert_int_equal(ky_trc_enc_init(&enc, out), 0);
	if (written_count)
		put_stream(&enc, event, false);
	if (written_count < desc->field_count)
		put_stream(&enc, event, true);
	assert_int_equal(out->failed, 0);
	ky_trc_enc_release(&enc);
}

static void golden__encoder_writes_these_bytes_for_every_event(void **state)
{
	(void)state;
	for (uint32_t event = 0; event < KY_EV_COUNT; event++) {
		struct ky_buf expected, written;

		read_golden(&expected, ky_event_table[event].name, "trc");
		encode_event(&written, event);
		if (written.used != expected.used ||
		    memcmp(written.bytes, expected.bytes, written.used) != 0)
			fail_msg("%s: the encoder writes other bytes than the golden trace",
				 ky_event_table[event].name);
		ky_buf_release(&expected);
		ky_buf_release(&written);
	}
}

static void golden__hot_pair_writes_the_generic_bytes(void **state)
{
	struct ky_buf expected, written;
	struct ky_trc_enc enc;
	uint64_t start_ns = UINT64_C(1000000000);

	(void)state;
	read_golden(&expected, "PollStartEvent", "trc");
	ky_buf_init(&written, 0);
	assert_int_equal(ky_trc_enc_init(&enc, &written), 0);
	ky_trc_enc_begin(&enc);
	ky_trc_enc_poll_start(&enc, start_ns, 0, 0, 0, ky_trc_enc_string(&enc, 0, "", 0));
	ky_trc_enc_poll_start(&enc, start_ns + KY_TRC_DELTA_MAX, 65537000, 233, 65668074,
			      ky_trc_enc_string(&enc, 0, "text-0-3", 8));
	assert_int_equal(written.failed, 0);
	assert_memory_equal(written.bytes, expected.bytes, written.used);
	ky_buf_release(&expected);
	ky_buf_clear(&written);

	read_golden(&expected, "PollEndEvent", "trc");
	ky_trc_enc_begin(&enc);
	ky_trc_enc_poll_end(&enc, 2 * start_ns, 0);
	ky_trc_enc_poll_end(&enc, 2 * start_ns + KY_TRC_DELTA_MAX, (uint32_t)(2000 * 65537));
	assert_memory_equal(written.bytes, expected.bytes, written.used);
	ky_buf_release(&expected);
	ky_buf_release(&written);
	ky_trc_enc_release(&enc);
}

static void golden__decoder_sees_these_frames_for_every_event(void **state)
{
	(void)state;
	for (uint32_t event = 0; event < KY_EV_COUNT; event++)
		check_dump(ky_event_table[event].name, 0);
}

static void golden__decoder_sees_all_frames_and_types_through_any_window(void **state)
{
	(void)state;
	check_dump("all_frames", 0);
	check_dump("all_frames", 1);
	check_dump("all_frames", 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden__encoder_writes_these_bytes_for_every_event),
		cmocka_unit_test(golden__hot_pair_writes_the_generic_bytes),
		cmocka_unit_test(golden__decoder_sees_these_frames_for_every_event),
		cmocka_unit_test(golden__decoder_sees_all_frames_and_types_through_any_window),
	};

	return cmocka_run_group_tests_name("golden", tests, NULL, NULL);
}
