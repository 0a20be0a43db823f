/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "making.h"

#include <errno.h>
#include <string.h>
#include <wire/chunk.h>

#define EVENTS_OF_STEP 16u /* at most */

static void begin_chunk(struct making *making)
{
	char name[64];
	int i;

	ky_trc_enc_begin(&making->enc);
	making->chunk_events = 0;
	for (i = 0; i < 16; i++) {
		snprintf(name, sizeof(name), "service::handlers::route_%d::{{closure}}", i);
		making->names[i] = ky_trc_enc_string(&making->enc, (uint64_t)i + 1, name,
						     strlen(name));
	}
}

static int end_chunk(struct making *making)
{
	if (making->buf.failed)
		return making->buf.failed;
	if (fwrite(making->buf.bytes, 1, making->buf.used, making->out) != making->buf.used)
		return -EIO;
	ky_buf_clear(&making->buf);
	return 0;
}

void add_wake(struct making *making, uint64_t waker, uint64_t woken, uint32_t worker,
	      uint8_t origin)
{
	const uint64_t who = 0x10000u + (uint64_t)origin * 0x1000u + woken % 8 * 16;
	uint32_t stack = ky_trc_enc_stack(&making->enc, &who, 1);

	ky_trc_enc_event(&making->enc, KY_EV_WAKE, making->time_ns);
	ky_trc_enc_varint(&making->enc, waker);
	ky_trc_enc_varint(&making->enc, woken);
	ky_trc_enc_u8(&making->enc, (uint8_t)worker);
	ky_trc_enc_u8(&making->enc, origin);
	ky_trc_enc_u32(&making->enc, stack);
	ky_trc_enc_varint(&making->enc, 0);
	count_event(making);
}

void add_park(struct making *making, uint32_t worker)
{
	ky_trc_enc_event(&making->enc, KY_EV_WORKER_PARK, making->time_ns);
	ky_trc_enc_varint(&making->enc, worker);
	ky_trc_enc_u8(&making->enc, 0);
	ky_trc_enc_varint(&making->enc, making->time_ns);
	ky_trc_enc_u32(&making->enc, 1000 + worker);
	ky_trc_enc_u8(&making->enc, 1);
	ky_trc_enc_opt_varint(&making->enc, true, 7);
	count_event(making);
}

void add_unpark(struct making *making, uint32_t worker)
{
	ky_trc_enc_event(&making->enc, KY_EV_WORKER_UNPARK, making->time_ns);
	ky_trc_enc_varint(&making->enc, worker);
	ky_trc_enc_u8(&making->enc, 0);
	ky_trc_enc_varint(&making->enc, making->time_ns);
	ky_trc_enc_opt_varint(&making->enc, false, 0);
	ky_trc_enc_u32(&making->enc, 1000 + worker);
	ky_trc_enc_varint(&making->enc, 1);
	ky_trc_enc_opt_varint(&making->enc, false, 0);
	count_event(making);
}

int make_trace(const char *path, uint64_t events,
	       void (*step)(struct making *making, void *context), void *context)
{
	struct making making = {.random = UINT64_C(88172645463325252), .time_ns = 1000000000};
	int result = 0;

	making.out = fopen(path, "wb");
	if (!making.out)
		return -errno;
	ky_buf_init(&making.buf, 0);
	if (ky_trc_enc_init(&making.enc, &making.buf) < 0)
		return -ENOMEM;
	begin_chunk(&making);
	while (making.events < events && result == 0) {
		step(&making, context);
		if (making.chunk_events >= KY_CHUNK_EVENTS_MAX - EVENTS_OF_STEP ||
		    making.buf.used > KY_CHUNK_BYTES_MAX - 4096) {
			result = end_chunk(&making);
			begin_chunk(&making);
		}
	}
	if (result == 0)
		result = end_chunk(&making);
	ky_trc_enc_release(&making.enc);
	ky_buf_release(&making.buf);
	if (fclose(making.out) != 0 && result == 0)
		result = -errno;
	return result;
}
