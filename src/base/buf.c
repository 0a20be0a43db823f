/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/buf.h>

#include <base/alloc.h>
#include <errno.h>
#include <kymo/base.h>
#include <string.h>

#define BYTES_MAX_DEFAULT ((size_t)1 << 30)

void ky_buf_init(struct ky_buf *buf, size_t bytes_max)
{
	memset(buf, 0, sizeof(*buf));
	buf->bytes_max = bytes_max ? bytes_max : BYTES_MAX_DEFAULT;
}

void ky_buf_release(struct ky_buf *buf)
{
	ky_free(buf->bytes);
	memset(buf, 0, sizeof(*buf));
}

void ky_buf_clear(struct ky_buf *buf)
{
	buf->used = 0;
	buf->failed = 0;
}

int ky_buf_reserve(struct ky_buf *buf, size_t count)
{
	size_t capacity = buf->capacity ? buf->capacity : 256;
	uint8_t *bytes;

	if (buf->failed)
		return buf->failed;
	if (count <= buf->capacity - buf->used)
		return 0;
	if (count > buf->bytes_max - buf->used)
		return buf->failed = KYMO_E_LIMIT;
	while (capacity - buf->used < count)
		capacity = capacity > buf->bytes_max / 2 ? buf->bytes_max : capacity * 2;
	bytes = ky_realloc(buf->bytes, capacity);
	if (!bytes)
		return buf->failed = -ENOMEM;
	buf->bytes = bytes;
	buf->capacity = capacity;
	return 0;
}

int ky_buf_append(struct ky_buf *buf, const void *bytes, size_t count)
{
	int err = ky_buf_reserve(buf, count);

	if (err)
		return err;
	if (count)
		memcpy(buf->bytes + buf->used, bytes, count);
	buf->used += count;
	return 0;
}
