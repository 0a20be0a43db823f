/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* bench_wire [--rounds N] [--events N] [--only encode|decode|FILE.trc] - ns and bytes per event of
 * the TRC encoder
 * and decoder: the minimum over the rounds. Under callgrind: --rounds 1. */
#include <errno.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wire/trc_dec.h>
#include <wire/trc_enc.h>

#define CHUNK_EVENTS 16384u
#define TASKS 1000u

struct result {
	uint64_t encode_ns, decode_ns; /* least of all rounds */
	uint64_t events, bytes;
};

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Polls, their ends and a wake in three, of 4 workers and 1,000 tasks with 20 names. */
static void encode_mix(struct ky_trc_enc *enc, uint64_t *time_ns, uint64_t *events)
{
	static const uint64_t frames[] = {0x1000, 0x2000, 0x3000}; /* who wakes */
	char name[64];

	ky_trc_enc_begin(enc);
	while (enc->event_count + 3 < CHUNK_EVENTS) {
		uint64_t task = 1 + *events % TASKS * 7 % TASKS + (*events / 1000000);
		uint32_t worker = (uint32_t)(*events / 3 % 4);
		uint64_t key = task % 20 + 1;
		size_t count = 0;
		uint32_t id, stack;

		if (enc->event_count < 200)
			count = (size_t)snprintf(name, sizeof(name),
						 "service::handler_%u::{closure}",
						 (unsigned int)key);
		id = ky_trc_enc_string(enc, key, name, count);
		*time_ns += 700;
		ky_trc_enc_poll_start(enc, *time_ns, worker, 0, task, id);
		*time_ns += 900;
		stack = ky_trc_enc_stack(enc, frames, sizeof(frames) / sizeof(frames[0]));
		ky_trc_enc_event(enc, KY_EV_WAKE, *time_ns);
		ky_trc_enc_varint(enc, task);
		ky_trc_enc_varint(enc, task + 1);
		ky_trc_enc_u8(enc, (uint8_t)worker);
		ky_trc_enc_u8(enc, 2);
		ky_trc_enc_u32(enc, stack);
		ky_trc_enc_varint(enc, 0);
		*time_ns += 400;
		ky_trc_enc_poll_end(enc, *time_ns, worker);
		*events += 3;
	}
}

static void encode_pairs(struct ky_trc_enc *enc, uint64_t *time_ns, uint64_t *events)
{
	uint32_t id;

	ky_trc_enc_begin(enc);
	id = ky_trc_enc_string(enc, 1, "task", 4);
	while (enc->event_count + 2 <= CHUNK_EVENTS) {
		*time_ns += 700;
		ky_trc_enc_poll_start(enc, *time_ns, 3, 0, 1 + *events % TASKS, id);
		*time_ns += 900;
		ky_trc_enc_poll_end(enc, *time_ns, 3);
		*events += 2;
	}
}

typedef void (*encode_fn)(struct ky_trc_enc *enc, uint64_t *time_ns, uint64_t *events);

static int encode(struct ky_buf *out, encode_fn chunk, uint64_t event_count, struct result *result)
{
	uint64_t time_ns = UINT64_C(5000000000), begin_ns, spent_ns;
	struct ky_trc_enc enc;
	int err = ky_trc_enc_init(&enc, out);

	if (err)
		return err;
	ky_buf_clear(out);
	result->events = 0;
	begin_ns = cpu_ns();
	while (result->events < event_count)
		chunk(&enc, &time_ns, &result->events);
	spent_ns = cpu_ns() - begin_ns;
	if (spent_ns < result->encode_ns)
		result->encode_ns = spent_ns;
	result->bytes = out->used;
	ky_trc_enc_release(&enc);
	return out->failed;
}

static int decode(const uint8_t *bytes, size_t count, struct result *result)
{
	uint64_t begin_ns = cpu_ns(), events = 0, sum = 0, spent_ns;
	struct ky_trc_dec *dec;
	struct ky_frame frame;
	int64_t used;
	size_t at = 0;
	int err = ky_trc_dec_open(&dec, NULL);

	if (err)
		return err;
	while ((used = ky_trc_dec_next(dec, bytes + at, count - at, &frame)) > 0) {
		at += (size_t)used;
		if (frame.kind == KY_FRAME_EVENT) {
			events++;
			sum += frame.timestamp_ns;
		}
	}
	spent_ns = cpu_ns() - begin_ns;
	if (used < 0)
		fprintf(stderr, "bench_wire: byte %zu: %s\n", at, ky_trc_dec_error(dec, NULL));
	ky_trc_dec_close(dec);
	if (spent_ns < result->decode_ns)
		result->decode_ns = spent_ns;
	result->events = events;
	result->bytes = count;
	return used < 0 ? (int)used : sum ? 0 : KYMO_E_NOT_TRACE;
}

static void print(const char *name, const struct result *result)
{
	double events = (double)result->events;

	printf("%-24s %10" PRIu64 " events  %6.2f B/event", name, result->events,
	       (double)result->bytes / events);
	if (result->encode_ns != UINT64_MAX)
		printf("  encode %6.2f ns", (double)result->encode_ns / events);
	if (result->decode_ns != UINT64_MAX)
		printf("  decode %6.2f ns", (double)result->decode_ns / events);
	printf("\n");
}

static int bench(const char *name, encode_fn chunk, uint64_t events, int rounds, const char *only)
{
	struct result result = {UINT64_MAX, UINT64_MAX, 0, 0};
	bool encodes = !only || !strcmp(only, "encode");
	bool decodes = !only || !strcmp(only, "decode");
	struct ky_buf out;
	int err = 0;

	ky_buf_init(&out, 0);
	for (int i = 0; i < rounds && !err; i++) {
		if (encodes || i == 0)
			err = encode(&out, chunk, events, &result);
		if (!err && decodes)
			err = decode(out.bytes, out.used, &result);
	}
	ky_buf_release(&out);
	if (err)
		fprintf(stderr, "bench_wire: %s: %s\n", name, kymo_error_text(err));
	else
		print(name, &result);
	return err;
}

static int bench_file(const char *path, int rounds)
{
	struct result result = {UINT64_MAX, UINT64_MAX, 0, 0};
	struct ky_buf bytes;
	FILE *file = fopen(path, "rb");
	int err = 0;

	ky_buf_init(&bytes, 0);
	while (file && !err && !feof(file) && !ferror(file)) {
		err = ky_buf_reserve(&bytes, 1u << 20);
		if (!err)
			bytes.used += fread(bytes.bytes + bytes.used, 1, 1u << 20, file);
	}
	if (!file || ferror(file))
		err = -errno;
	for (int i = 0; i < rounds && !err; i++)
		err = decode(bytes.bytes, bytes.used, &result);
	if (file)
		fclose(file);
	ky_buf_release(&bytes);
	if (err)
		fprintf(stderr, "bench_wire: %s: %s\n", path, kymo_error_text(err));
	else
		print(path, &result);
	return err;
}

int main(int argc, char **argv)
{
	uint64_t events = 3000000;
	const char *only = NULL;
	int rounds = 10, err;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--rounds"))
			rounds = (int)strtol(argv[i + 1], NULL, 10);
		else if (!strcmp(argv[i], "--events"))
			events = strtoull(argv[i + 1], NULL, 10);
		else if (!strcmp(argv[i], "--only"))
			only = argv[i + 1];
	}
	if (only && strcmp(only, "encode") != 0 && strcmp(only, "decode") != 0)
		return bench_file(only, rounds) ? 1 : 0;
	err = bench("poll pair", encode_pairs, events, rounds, only);
	if (!err)
		err = bench("poll pair + wake", encode_mix, events, rounds, only);
	return err ? 1 : 0;
}
