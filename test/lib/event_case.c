/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "event_case.h"

#include <string.h>
#include <wire/trc_enc.h>

#define TEXT(text) text, sizeof(text) - 1

static void write_schemas(struct ky_trc_enc *enc)
{
	static const struct ky_trc_field_def all[] = {
		{TEXT("i64"), KY_TYPE_I64},
		{TEXT("f64"), KY_TYPE_F64},
		{TEXT("bool"), KY_TYPE_BOOL},
		{TEXT("string"), KY_TYPE_STRING},
		{TEXT("bytes"), KY_TYPE_BYTES},
		{TEXT("pooled_stack"), KY_TYPE_POOLED_STACK},
		{TEXT("pooled_string"), KY_TYPE_POOLED_STRING},
		{TEXT("stack"), KY_TYPE_STACK},
		{TEXT("varint"), KY_TYPE_VARINT},
		{TEXT("map"), KY_TYPE_STRING_MAP},
		{TEXT("u8"), KY_TYPE_U8},
		{TEXT("u16"), KY_TYPE_U16},
		{TEXT("u32"), KY_TYPE_U32},
		{TEXT("list"), KY_TYPE_LIST},
		{TEXT("tree"), KY_TYPE_MAP},
		{TEXT("maybe"), KY_TYPE_OPT_VARINT},
	};
	static const struct ky_trc_field_def none[] = {{TEXT("undefined"), KY_TYPE_POOLED_STRING}};

	ky_trc_enc_schema(enc, 7, TEXT("Odd, \"event\""), true, all, sizeof(all) / sizeof(all[0]));
	ky_trc_enc_annotation(enc, 7, 8, TEXT("metrique.unit"), TEXT("microseconds"));
	ky_trc_enc_annotation(enc, 7, 8, TEXT("unit"), TEXT("us"));
	ky_trc_enc_annotation(enc, 7, 10, TEXT("kind"), TEXT("gauge"));
	ky_trc_enc_schema(enc, 9, TEXT("Timeless"), false, none, 1);
}

/* [ "pooled", [ 1, { "k": [0x10, 0x20] } ] ] with the string and the stack from the pools. */
static void write_list(struct ky_trc_enc *enc, uint32_t string, uint32_t stack)
{
	ky_trc_enc_count(enc, 2);
	ky_trc_enc_u8(enc, KY_TYPE_POOLED_STRING);
	ky_trc_enc_u32(enc, string);
	ky_trc_enc_u8(enc, KY_TYPE_LIST);
	ky_trc_enc_count(enc, 2);
	ky_trc_enc_u8(enc, KY_TYPE_VARINT);
	ky_trc_enc_varint(enc, 1);
	ky_trc_enc_u8(enc, KY_TYPE_MAP);
	ky_trc_enc_count(enc, 1);
	ky_trc_enc_u8(enc, KY_TYPE_STRING);
	ky_trc_enc_bytes(enc, TEXT("k"));
	ky_trc_enc_u8(enc, KY_TYPE_POOLED_STACK);
	ky_trc_enc_u32(enc, stack);
}

/* { 5: "pooled", "after": true } */
static void write_tree(struct ky_trc_enc *enc, uint32_t string)
{
	ky_trc_enc_count(enc, 2);
	ky_trc_enc_u8(enc, KY_TYPE_U8);
	ky_trc_enc_u8(enc, 5);
	ky_trc_enc_u8(enc, KY_TYPE_POOLED_STRING);
	ky_trc_enc_u32(enc, string);
	ky_trc_enc_u8(enc, KY_TYPE_STRING);
	ky_trc_enc_bytes(enc, TEXT("after"));
	ky_trc_enc_u8(enc, KY_TYPE_BOOL);
	ky_trc_enc_u8(enc, 1);
}

static void write_odd(struct ky_trc_enc *enc, uint64_t time_ns, bool is_present)
{
	static const uint64_t frames[] = {0x10, 0x20};
	uint32_t other = ky_trc_enc_string(enc, 0, TEXT("other"));
	uint32_t string = ky_trc_enc_string(enc, 0, TEXT("pooled"));
	uint32_t stack = ky_trc_enc_stack(enc, frames, 2);

	(void)other; /* so that ids differ from those of a rewritten trace */
	ky_trc_enc_raw_event(enc, 7, true, time_ns);
	ky_trc_enc_i64(enc, -5);
	ky_trc_enc_f64(enc, 0.1);
	ky_trc_enc_u8(enc, 1);
	ky_trc_enc_bytes(enc, TEXT("a,\"b\"\n"));
	ky_trc_enc_bytes(enc, "\x00\xff", 2);
	ky_trc_enc_u32(enc, stack);
	ky_trc_enc_u32(enc, string);
	ky_trc_enc_frames(enc, frames, 2);
	ky_trc_enc_varint(enc, UINT64_MAX);
	ky_trc_enc_count(enc, 1);
	ky_trc_enc_bytes(enc, TEXT("key"));
	ky_trc_enc_bytes(enc, TEXT("value"));
	ky_trc_enc_u8(enc, 8);
	ky_trc_enc_u16(enc, 16);
	ky_trc_enc_u32(enc, 32);
	write_list(enc, string, stack);
	write_tree(enc, string);
	ky_trc_enc_opt_varint(enc, is_present, 77);
}

void event_case_write(struct ky_buf *out)
{
	struct ky_trc_enc enc;

	if (ky_trc_enc_init(&enc, out))
		return;
	ky_trc_enc_begin(&enc);
	write_schemas(&enc);
	write_odd(&enc, 2000, true);
	write_odd(&enc, 1000, false); /* out of order */
	ky_trc_enc_raw_event(&enc, 9, false, 0);
	ky_trc_enc_u32(&enc, 12345);
	ky_trc_enc_release(&enc);
}
