/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_areas.h - a ring image whose sample area and place table a fuzz target fills.
 *
 * Header, control page, directory and one sub-buffer are sound and empty, so that every input gets
 * to the areas behind them. The image ends with the last area, in front of a page that nobody may
 * touch, and is not writable while it is read.
 */
#ifndef KY_FUZZ_RING_AREAS_H
#define KY_FUZZ_RING_AREAS_H

#include "fuzz_target.h"

#include <base/alloc.h>
#include <drain/cut.h>
#include <string.h>
#include <sys/mman.h>
#include <wire/place_table.h>
#include <wire/ring_image.h>
#include <wire/sample_area.h>
#include <wire/trc_dec.h>

#define PAGE 4096u
#define DIRECTORY_OFFSET (2 * PAGE)
#define SLOTS_OFFSET (2 * KY_SLOT_BYTES)
#define SAMPLE_OFFSET (SLOTS_OFFSET + KY_SLOT_BYTES)
#define PLACE_OFFSET (SAMPLE_OFFSET + (uint32_t)KY_SAMPLE_BYTES_MIN)
#define NOW_NS UINT64_C(2000000000)

struct fuzz_image {
	uint8_t *bytes;
	size_t byte_count;
	struct ky_ring_header *header;
};

/* What a cut or a drain told. */
struct fuzz_reported {
	struct ky_trc_dec *dec;
	uint64_t digest, now_ns;
	uint32_t place_count, sample_count;
};

/* The input, from its begin to its end. */
struct fuzz_words {
	const uint8_t *at;
	size_t left;
};

static inline bool fuzz_take(struct fuzz_words *in, void *out, size_t count)
{
	if (count > in->left)
		return false;
	memcpy(out, in->at, count);
	in->at += count;
	in->left -= count;
	return true;
}

static inline bool fuzz_is_modest(size_t bytes)
{
	FUZZ_CHECK(bytes <= 128u << 20);
	return true;
}

static inline void fuzz_image_open(struct fuzz_image *image, size_t byte_count)
{
	struct ky_ring_header *header;

	image->byte_count = byte_count;
	image->bytes = mmap(NULL, byte_count + PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	FUZZ_CHECK(image->bytes != MAP_FAILED);
	FUZZ_CHECK(mprotect(image->bytes + byte_count, PAGE, PROT_NONE) == 0);
	image->header = header = (struct ky_ring_header *)(void *)image->bytes;
	header->version = KY_RING_VERSION;
	header->page_bytes = PAGE;
	header->file_bytes = byte_count;
	header->directory_offset = DIRECTORY_OFFSET;
	header->directory_bytes = PAGE;
	header->slots_offset = SLOTS_OFFSET;
	header->slot_count = 1;
	header->slot_bytes = KY_SLOT_BYTES;
	header->pid = 501;
	header->ticks_per_second = 2 * UINT64_C(1000000000);
	header->open_anchor = (struct ky_clock_anchor){NOW_NS, NOW_NS / 2, NOW_NS + 20, NOW_NS};
	atomic_store(&header->state, KY_RING_LIVE);
	atomic_store(&header->populated_count, 1);
	atomic_store(&header->usable_count, 1);
	atomic_store(&header->magic, KY_RING_MAGIC);
	ky_alloc_hook = fuzz_is_modest;
}

static inline void fuzz_image_protect(const struct fuzz_image *image, bool is_protected)
{
	int how = is_protected ? PROT_READ : PROT_READ | PROT_WRITE;

	FUZZ_CHECK(mprotect(image->bytes, image->byte_count, how) == 0);
}

static inline void fuzz_image_close(struct fuzz_image *image)
{
	munmap(image->bytes, image->byte_count + PAGE);
	ky_alloc_hook = NULL;
}

static inline int fuzz_take_chunk(void *ctx, const struct ky_chunk *chunk)
{
	struct fuzz_reported *reported = ctx;
	struct ky_frame frame;
	size_t at = 0;

	while (at < chunk->byte_count) {
		int64_t took = ky_trc_dec_next(reported->dec, chunk->bytes + at,
					       chunk->byte_count - at, &frame);
		uint32_t event = 0;

		FUZZ_CHECK(took > 0);
		at += (size_t)took;
		if (frame.kind == KY_FRAME_EVENT)
			event = frame.schema->event;
		reported->place_count += event == KY_EV_AWAIT_PLACE;
		reported->sample_count += event == KY_EV_CPU_SAMPLE || event == KY_EV_OFF_CPU ||
					  event == KY_EV_ALLOC || event == KY_EV_FREE;
		/* The report tells the CPU time of the drain, which no two runs share. */
		if (event != KY_EV_RECORDER_REPORT)
			reported->digest = fuzz_digest(reported->digest, frame.begin, frame.bytes);
	}
	return 0;
}

static inline int fuzz_anchor(void *ctx, struct ky_clock_anchor *out)
{
	struct fuzz_reported *reported = ctx;

	reported->now_ns += 30000000;
	*out = (struct ky_clock_anchor){reported->now_ns * 2, reported->now_ns,
					reported->now_ns * 2 + 20, reported->now_ns};
	return 0;
}

static inline void fuzz_cut(const struct fuzz_image *image, bool is_dead,
			    struct fuzz_reported *reported)
{
	static struct ky_cut_report report;
	struct ky_cut_options options = {.image = image->bytes,
					 .image_bytes = image->byte_count,
					 .is_dead = is_dead,
					 .chunk = fuzz_take_chunk,
					 .chunk_ctx = reported,
					 .anchor = fuzz_anchor,
					 .anchor_ctx = reported,
					 .hostname = "fuzz"};

	*reported = (struct fuzz_reported){.now_ns = NOW_NS};
	FUZZ_CHECK(ky_trc_dec_open(&reported->dec, NULL) == 0);
	if (ky_cut(&options, &report) == 0)
		FUZZ_CHECK(reported->digest != 0 && report.bytes_copied <= image->byte_count);
	ky_trc_dec_close(reported->dec);
}

/* between: called between two steps, NULL: never. */
static inline void fuzz_drain(struct fuzz_image *image, void (*between)(struct fuzz_image *),
			      struct fuzz_reported *reported)
{
	struct ky_drain_options options = {.image = image->bytes,
					   .image_bytes = image->byte_count,
					   .anchor = fuzz_anchor,
					   .anchor_ctx = reported,
					   .chunk = fuzz_take_chunk,
					   .chunk_ctx = reported,
					   .memory_bytes_max = 1u << 20,
					   .tracked_tasks_max = 2048,
					   .hostname = "fuzz"};
	struct ky_drain *drain;

	*reported = (struct fuzz_reported){.now_ns = NOW_NS};
	FUZZ_CHECK(ky_trc_dec_open(&reported->dec, NULL) == 0);
	if (ky_drain_open(&drain, &options) == 0) {
		ky_drain_step(drain, 0);
		if (between)
			between(image);
		ky_drain_step(drain, 0);
		ky_drain_step(drain, KY_DRAIN_FINAL);
		ky_drain_seal(drain);
		ky_drain_close(drain);
	}
	ky_trc_dec_close(reported->dec);
}

#endif
