/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A sample area that somebody filled with anything: a live ring drained while it changes, and cut.
 * Promises: nothing outside of the image is read, nothing in it written, no allocation beyond the
 * limits; whatever comes out is a trace, with no more samples than the area has cells; the
 * same bytes give the same.
 *
 * The input: a byte (1: of a dead process; 2: half of the changes come between two steps; 4: all of
 * it twice), then changes of an area without samples: a byte what (class, | of `enum change` << 2),
 * two bytes which cell, and its bytes. */
#include "ring_areas.h"

enum change {
	CHANGE_PUT = 0,  /* a sample, as its writers put it: 1 + 1 + 4 + 5 * 8 bytes, frames */
	CHANGE_CELL = 1, /* a byte how many, these bytes behind the serial, which fits */
	CHANGE_RAW = 2,  /* a byte how many, these bytes */
	CHANGE_HEAD = 3  /* 8 bytes, at the word of the class's head that `which` says */
};

static struct fuzz_words later;

static struct ky_sample_ring ring_of(struct fuzz_image *image, uint32_t which)
{
	uint8_t *area = image->bytes + SAMPLE_OFFSET;
	struct ky_sample_head *head = (void *)area;
	struct ky_sample_ring ring = {.head = &head->classes[which]};
	uint64_t offset;

	ring.cell_count = ky_sample_range(KY_SAMPLE_BYTES_MIN, which, &offset);
	ring.cells = area + offset;
	atomic_fetch_or(&image->header->sample_classes, 1u << which);
	return ring;
}

static void put_sample(const struct ky_sample_ring *ring, struct fuzz_words *in)
{
	uint64_t frames[KY_SAMPLE_FRAMES_MAX], words[5];
	struct ky_sample sample = {.frames = frames, .syscall = -1};
	uint8_t frame_count;

	if (!fuzz_take(in, &sample.kind, 1) || !fuzz_take(in, &sample.flags, 1) ||
	    !fuzz_take(in, &sample.tid, 4) || !fuzz_take(in, words, sizeof(words)) ||
	    !fuzz_take(in, &frame_count, 1)) {
		in->left = 0;
		return;
	}
	sample.stamp = words[0];
	sample.value = words[1];
	sample.more = words[2];
	sample.other = words[3];
	sample.weight = words[4];
	sample.frame_count = frame_count < KY_SAMPLE_FRAMES_MAX ? frame_count :
								  KY_SAMPLE_FRAMES_MAX;
	for (uint32_t i = 0; i < sample.frame_count; i++)
		frames[i] = UINT64_C(0x5500000000) + i * frame_count;
	(void)ky_sample_put(ring, &sample);
}

static void put_bytes(const struct ky_sample_ring *ring, uint16_t which, bool is_raw,
		      struct fuzz_words *in)
{
	uint64_t claim = which % ring->cell_count;
	uint8_t *cell = ring->cells + claim * KY_SAMPLE_CELL_BYTES, count;
	size_t from = is_raw ? 0 : 8;

	if (!fuzz_take(in, &count, 1))
		return;
	if (count > KY_SAMPLE_CELL_BYTES - from)
		count = (uint8_t)(KY_SAMPLE_CELL_BYTES - from);
	if (!fuzz_take(in, cell + from, count)) {
		in->left = 0;
		return;
	}
	if (is_raw)
		return;
	/* The cell is whole under the newest claim that it can have. */
	if (KY_SAMPLE_CLAIM(atomic_load(&ring->head->claim_index)) > ring->cell_count)
		claim += ring->cell_count;
	atomic_store((_Atomic uint64_t *)(void *)cell, (claim + 1) * 2);
	if (KY_SAMPLE_CLAIM(atomic_load(&ring->head->claim_index)) <= claim)
		atomic_store(&ring->head->claim_index, claim + 1);
}

static void change(struct fuzz_image *image, struct fuzz_words *in)
{
	struct ky_sample_ring ring;
	uint16_t which;
	uint8_t what;

	if (!fuzz_take(in, &what, 1) || !fuzz_take(in, &which, 2)) {
		in->left = 0;
		return;
	}
	ring = ring_of(image, what % KY_SAMPLE_CLASSES);
	switch (what >> 2 & 3u) {
	case CHANGE_PUT:
		put_sample(&ring, in);
		break;
	case CHANGE_CELL:
		put_bytes(&ring, which, false, in);
		break;
	case CHANGE_RAW:
		put_bytes(&ring, which, true, in);
		break;
	default:
		if (!fuzz_take(in, (uint8_t *)ring.head + which % (sizeof(*ring.head) / 8) * 8, 8))
			in->left = 0;
		break;
	}
}

static void change_all(struct fuzz_image *image)
{
	struct fuzz_words in = later;

	fuzz_image_protect(image, false);
	while (in.left)
		change(image, &in);
	fuzz_image_protect(image, true);
}

static void run(struct fuzz_words in, uint8_t how, struct fuzz_reported *drained,
		struct fuzz_reported *cut)
{
	struct fuzz_words now = in;
	struct fuzz_image image;

	later = (struct fuzz_words){in.at + in.left, 0};
	if (how & 2) {
		now.left = in.left / 2;
		later = (struct fuzz_words){in.at + now.left, in.left - now.left};
	}
	fuzz_image_open(&image, SAMPLE_OFFSET + KY_SAMPLE_BYTES_MIN);
	image.header->sample_offset = SAMPLE_OFFSET;
	image.header->sample_bytes = KY_SAMPLE_BYTES_MIN;
	while (now.left)
		change(&image, &now);
	fuzz_image_protect(&image, true);
	fuzz_cut(&image, how & 1, cut);
	fuzz_drain(&image, change_all, drained);
	fuzz_image_close(&image);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	uint32_t cells_max = 2 * (uint32_t)(KY_SAMPLE_BYTES_MIN / KY_SAMPLE_CELL_BYTES);
	struct fuzz_words in = {bytes, count};
	struct fuzz_reported drained[2], cut[2];
	uint8_t how;

	if (!fuzz_take(&in, &how, 1))
		return 0;
	for (uint32_t i = 0; i < 1 + (how >> 2 & 1u); i++) {
		run(in, how, &drained[i], &cut[i]);
		FUZZ_CHECK(cut[i].sample_count + cut[i].place_count <= cells_max / 2);
		FUZZ_CHECK(drained[i].sample_count + drained[i].place_count <= cells_max);
	}
	FUZZ_CHECK(!(how & 4) ||
		   (drained[0].digest == drained[1].digest && cut[0].digest == cut[1].digest));
	return 0;
}
