/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* proto.h - fields of a protobuf message, one after the other. A message inside a message is put
 * together in a buffer of its own, and appended as bytes.
 *
 * No library: the formats here need varints, strings and lengths, and a library would bring
 * generated code for each of them.
 * Errors:  out->failed.
 * Threads: owner.
 */
#ifndef KY_EXPORT_PROTO_H
#define KY_EXPORT_PROTO_H

#include <base/buf.h>
#include <stdint.h>

void ky_proto_varint(struct ky_buf *out, uint64_t value);
/* A field of type uint64, int64, enum or bool. The first leaves out 0, which is what a reader takes
 * a missing field for. */
void ky_proto_number(struct ky_buf *out, uint32_t field, uint64_t value);
void ky_proto_number_always(struct ky_buf *out, uint32_t field, uint64_t value);
void ky_proto_signed(struct ky_buf *out, uint32_t field, int64_t value); /* sint64: zigzag */
void ky_proto_fixed64(struct ky_buf *out, uint32_t field, uint64_t value);
void ky_proto_double(struct ky_buf *out, uint32_t field, double value);
void ky_proto_bytes(struct ky_buf *out, uint32_t field, const void *bytes, size_t count);
/* A string: bytes that are not UTF-8 become '?', because readers may refuse the whole message. */
void ky_proto_text(struct ky_buf *out, uint32_t field, const char *text);
/* Appends `message` as a field and empties it; its error becomes out's. */
void ky_proto_message(struct ky_buf *out, uint32_t field, struct ky_buf *message);

#endif
