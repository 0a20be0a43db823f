/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Any bytes as a ring file: opened, looked at twice, drained to the end. Promises: no crash, no
 * allocation beyond the limits, and whatever comes out is a trace that the decoder accepts;
 * the same input gives the same output.
 *
 * The same image is then cut: whole or a range of it, as of a living process and of a dead one.
 * What a cut promises besides: nothing is written to the image.
 *
 * A prefix byte says whether the magic is put right, so that the fuzzer gets past it, how often the
 * image changes between steps, and the range of the cut. */
#include "fuzz_target.h"

#include <base/alloc.h>
#include <drain/cut.h>
#include <string.h>
#include <wire/trc_dec.h>

#define MEMORY_MAX (1u << 20)
#define IMAGE_MAX (1u << 20)

struct outcome {
	struct ky_trc_dec *dec;
	uint64_t digest;
	uint64_t now_ns;
	uint64_t from_ns, to_ns; /* where the chunks may lie; 0: anywhere */
};

static _Bool is_modest(size_t bytes)
{
	FUZZ_CHECK(bytes <= 128u << 20);
	return 1;
}

static int take_chunk(void *ctx, const struct ky_chunk *chunk)
{
	struct outcome *outcome = ctx;
	struct ky_frame frame;
	uint64_t events = 0;
	size_t at = 0;

	while (at < chunk->byte_count) {
		int64_t took = ky_trc_dec_next(outcome->dec, chunk->bytes + at,
					       chunk->byte_count - at, &frame);

		FUZZ_CHECK(took > 0);
		at += (size_t)took;
		events += frame.kind == KY_FRAME_EVENT;
		/* The report tells the CPU time of the drain, which no two runs share. */
		if (frame.kind != KY_FRAME_EVENT || frame.schema->event != KY_EV_RECORDER_REPORT)
			outcome->digest = fuzz_digest(outcome->digest, frame.begin, frame.bytes);
	}
	FUZZ_CHECK(events == chunk->event_count);
	FUZZ_CHECK(!outcome->to_ns ||
		   (chunk->first_ns >= outcome->from_ns && chunk->last_ns <= outcome->to_ns));
	return 0;
}

static int anchor(void *ctx, struct ky_clock_anchor *out)
{
	struct outcome *outcome = ctx;

	outcome->now_ns += 30000000;
	*out = (struct ky_clock_anchor){outcome->now_ns * 2, outcome->now_ns,
					outcome->now_ns * 2 + 20, outcome->now_ns};
	return 0;
}

/* Bit 64 of `how`: a policy, beside whatever the image's settings say. */
static uint64_t drain_once(uint8_t *image, size_t count, uint8_t how)
{
	static const struct ky_retain_policy policy = {.rules = {[KY_RETAIN_POLL] = {1000000, 3},
								 [KY_RETAIN_WAKE] = {100000, 0},
								 [KY_RETAIN_PARK] = {0, 2},
								 [KY_RETAIN_BLOCKING] = {1000, 0}}};
	struct outcome outcome = {.now_ns = 2000000000};
	struct ky_drain_options options = {.image = image,
					   .image_bytes = count,
					   .anchor = anchor,
					   .anchor_ctx = &outcome,
					   .chunk = take_chunk,
					   .chunk_ctx = &outcome,
					   .memory_bytes_max = MEMORY_MAX,
					   .tracked_tasks_max = 2048,
					   .retain = how & 64 ? &policy : NULL,
					   .hostname = "fuzz"};
	struct ky_drain *drain;

	FUZZ_CHECK(ky_trc_dec_open(&outcome.dec, NULL) == 0);
	if (ky_drain_open(&drain, &options) == 0) {
		ky_drain_step(drain, 0);
		if (how & 2)
			ky_drain_seal(drain);
		if (how & 4 && count > 16384) /* it changes under our eyes */
			memset(image + count - 4096, how, 4096);
		ky_drain_step(drain, 0);
		ky_drain_step(drain, KY_DRAIN_FINAL);
		ky_drain_seal(drain);
		ky_drain_close(drain);
	}
	ky_trc_dec_close(outcome.dec);
	return outcome.digest;
}

/* Bits of `how`: 8 with a range, 16 of a dead process, 32 not more than a part of it. */
static uint64_t cut_once(const uint8_t *image, size_t count, uint8_t how)
{
	static const struct ky_stuck_note stuck = {.monotonic_ns = 2000000010, .tid = 501};
	static const struct ky_trigger_note trigger = {.monotonic_ns = 1, .rule = "poll>1ms"};
	static struct ky_cut_report report;
	struct outcome outcome = {.now_ns = 2000000000};
	struct ky_cut_options options = {.image = image,
					 .image_bytes = count,
					 .is_dead = how & 16,
					 .chunk = take_chunk,
					 .chunk_ctx = &outcome,
					 .copy_bytes_max = how & 32 ? 32768 : 0,
					 .stuck = &stuck,
					 .stuck_count = 1,
					 .triggers = &trigger,
					 .trigger_count = 1,
					 .anchor = anchor,
					 .anchor_ctx = &outcome,
					 .hostname = "fuzz"};

	if (how & 8) {
		options.from_ns = outcome.from_ns = 2000000000 + (uint64_t)(how >> 6) * 1000000;
		options.to_ns = outcome.to_ns = options.from_ns + 2000000;
	}
	FUZZ_CHECK(ky_trc_dec_open(&outcome.dec, NULL) == 0);
	if (ky_cut(&options, &report) == 0) {
		FUZZ_CHECK(report.bytes_copied <= count);
		FUZZ_CHECK(outcome.digest != 0); /* a trace, whatever is in it */
	}
	ky_trc_dec_close(outcome.dec);
	return outcome.digest;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	static const uint64_t magic = KY_RING_MAGIC;
	uint64_t digest[2], cut[2];
	uint8_t how;

	if (count < 9 || count > IMAGE_MAX)
		return 0;
	how = *bytes++;
	count--;
	ky_alloc_hook = is_modest;
	for (int i = 0; i < 2; i++) {
		uint8_t *image = aligned_alloc(64, (count + 63) / 64 * 64);

		FUZZ_CHECK(image);
		memcpy(image, bytes, count);
		if (how & 1)
			memcpy(image, &magic, sizeof(magic));
		cut[i] = cut_once(image, count, how);
		FUZZ_CHECK(memcmp(image + 8, bytes + 8, count - 8) == 0);
		digest[i] = drain_once(image, count, how);
		free(image);
	}
	FUZZ_CHECK(digest[0] == digest[1] && cut[0] == cut[1]);
	ky_alloc_hook = NULL;
	return 0;
}
