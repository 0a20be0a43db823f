/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <export/proto.h>

#include <base/bytes.h>
#include <base/utf8.h>
#include <string.h>

enum wire_type {
	WIRE_VARINT = 0,
	WIRE_FIXED64 = 1,
	WIRE_BYTES = 2
};

void ky_proto_varint(struct ky_buf *out, uint64_t value)
{
	uint8_t bytes[KY_VARINT_BYTES_MAX];

	ky_buf_append(out, bytes, (size_t)(ky_varint_put(bytes, value) - bytes));
}

static void put_key(struct ky_buf *out, uint32_t field, enum wire_type type)
{
	ky_proto_varint(out, (uint64_t)field << 3 | (uint64_t)type);
}

void ky_proto_number_always(struct ky_buf *out, uint32_t field, uint64_t value)
{
	put_key(out, field, WIRE_VARINT);
	ky_proto_varint(out, value);
}

void ky_proto_number(struct ky_buf *out, uint32_t field, uint64_t value)
{
	if (value)
		ky_proto_number_always(out, field, value);
}

void ky_proto_signed(struct ky_buf *out, uint32_t field, int64_t value)
{
	ky_proto_number(out, field, (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0));
}

void ky_proto_fixed64(struct ky_buf *out, uint32_t field, uint64_t value)
{
	uint8_t bytes[8];

	put_key(out, field, WIRE_FIXED64);
	ky_put_u64(bytes, value);
	ky_buf_append(out, bytes, sizeof(bytes));
}

void ky_proto_double(struct ky_buf *out, uint32_t field, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	ky_proto_fixed64(out, field, bits);
}

void ky_proto_bytes(struct ky_buf *out, uint32_t field, const void *bytes, size_t count)
{
	put_key(out, field, WIRE_BYTES);
	ky_proto_varint(out, count);
	ky_buf_append(out, bytes, count);
}

void ky_proto_text(struct ky_buf *out, uint32_t field, const char *text)
{
	size_t count = strlen(text);

	ky_proto_bytes(out, field, text, count);
	if (!out->failed)
		ky_utf8_clean(out->bytes + out->used - count, count);
}

void ky_proto_message(struct ky_buf *out, uint32_t field, struct ky_buf *message)
{
	ky_proto_bytes(out, field, message->bytes, message->used);
	if (message->failed && !out->failed)
		out->failed = message->failed;
	ky_buf_clear(message);
}
