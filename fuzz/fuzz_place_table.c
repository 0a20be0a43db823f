/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A place table that somebody filled with anything, as a reader outside finds it and as a cut tells
 * it. Promises: nothing outside of the table is read and nothing in it written; what is told of a
 * way is told of the task that has it, with a stack of at most so many frames, not in the future;
 * a cut tells exactly the places that a reader sees; the same bytes give the same.
 *
 * The input: a byte (1: of a dead process; 2: look and cut twice), then changes of an empty table:
 * a byte what (of `enum change`), two bytes which one, and its bytes. */
#include "ring_areas.h"

#include <ring/ring_view.h>

#define NOW_TICKS (2 * NOW_NS)

enum change {
	CHANGE_TASK = 0,   /* 8 bytes: who has the way */
	CHANGE_POINTS = 1, /* 8 bytes */
	CHANGE_ROW = 2,    /* 24 bytes */
	CHANGE_STACK = 3,  /* 16 bytes */
	CHANGE_UNITS = 4,  /* a byte how many, these bytes */
	CHANGE_HEAD = 5,   /* 48 bytes */
	CHANGE_AREA = 6    /* 24 bytes: where the header says that the table lies, and whether */
};

static void put(uint8_t *area, size_t at, size_t bytes, struct fuzz_words *in)
{
	if (bytes > KY_PLACE_AREA_BYTES - at)
		bytes = KY_PLACE_AREA_BYTES - at;
	if (!fuzz_take(in, area + at, bytes))
		in->left = 0;
}

static void put_header(struct ky_ring_header *header, struct fuzz_words *in)
{
	uint64_t words[3];

	if (!fuzz_take(in, words, sizeof(words))) {
		in->left = 0;
		return;
	}
	header->place_offset = words[0];
	header->place_bytes = words[1];
	atomic_store(&header->place_ready, (uint32_t)words[2]);
}

static void change(struct fuzz_image *image, struct fuzz_words *in, bool *is_moved)
{
	uint8_t *area = image->bytes + PLACE_OFFSET, what, count;
	size_t row = KY_PLACE_SETS_OFFSET;
	uint16_t which;

	if (!fuzz_take(in, &what, 1) || !fuzz_take(in, &which, 2)) {
		in->left = 0;
		return;
	}
	row += which % KY_PLACE_ENTRIES * sizeof(struct kymo_place_row);
	switch (what) {
	case CHANGE_TASK:
		put(area, row, 8, in);
		break;
	case CHANGE_POINTS:
		put(area, KY_PLACE_POINTS_OFFSET + which % KY_PLACE_POINTS * 8, 8, in);
		break;
	case CHANGE_ROW:
		put(area, row, 24, in);
		break;
	case CHANGE_STACK:
		put(area, KY_PLACE_STACKS_OFFSET + which % KY_PLACE_STACKS * 16, 16, in);
		break;
	case CHANGE_UNITS:
		if (fuzz_take(in, &count, 1))
			put(area,
			    KY_PLACE_UNITS_OFFSET + which % KY_PLACE_UNITS * KY_PLACE_UNIT_BYTES,
			    count, in);
		break;
	case CHANGE_HEAD:
		put(area, 0, 48, in);
		break;
	case CHANGE_AREA:
		put_header(image->header, in);
		*is_moved = true;
		break;
	default:
		break;
	}
}

/* One way as a reader sees it. Returns how many points a trace tells of it. */
static uint32_t check(const uint8_t *area, uint32_t way, uint64_t *digest)
{
	uint64_t frames[KYMO_PLACE_FRAMES_MAX];
	struct kymo_place_row row;
	struct ky_place_seen seen;
	uint32_t reported = 0;

	ky_ring_view_place_copy(area, way, &row);
	if (!ky_ring_view_place(area, way, NOW_TICKS, &seen))
		return 0;
	FUZZ_CHECK(seen.task && seen.task == (row.task & KY_PLACE_TASK_MASK));
	FUZZ_CHECK(seen.polled_ticks <= NOW_TICKS && seen.since_ticks <= NOW_TICKS);
	for (uint32_t i = 0; seen.points && i < KYMO_PLACE_STACKS_MAX; i++) {
		uint32_t stack = ky_points_stack(seen.points, i);
		uint32_t count = ky_ring_view_place_stack(area, stack, frames);

		FUZZ_CHECK(count <= KYMO_PLACE_FRAMES_MAX);
		*digest = fuzz_digest(*digest, frames, count * sizeof(frames[0]));
		if (stack == KY_PLACE_NO_STACK)
			break;
		reported++;
	}
	return reported;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	struct fuzz_words in = {bytes, count};
	struct fuzz_reported first, again;
	uint64_t digest[2] = {0, 0};
	struct fuzz_image image;
	struct ky_ring_view view;
	bool is_moved = false;
	uint32_t reported = 0;
	const uint8_t *area;
	uint8_t how;

	if (!fuzz_take(&in, &how, 1))
		return 0;
	fuzz_image_open(&image, PLACE_OFFSET + KY_PLACE_AREA_BYTES);
	image.header->place_offset = PLACE_OFFSET;
	image.header->place_bytes = KY_PLACE_AREA_BYTES;
	atomic_store(&image.header->place_ready, 1);
	while (in.left)
		change(&image, &in, &is_moved);
	fuzz_image_protect(&image, true);
	FUZZ_CHECK(ky_ring_view_init(&view, image.bytes, image.byte_count) == 0);
	area = ky_ring_view_places(&view);
	FUZZ_CHECK(area || is_moved);
	for (uint32_t i = 0; area && i < 1 + (how >> 1 & 1u); i++) {
		reported = 0;
		FUZZ_CHECK(ky_ring_view_place_units(area) <= KY_PLACE_UNITS);
		for (uint32_t way = 0; way < KY_PLACE_ENTRIES; way++)
			reported += check(area, way, &digest[i]);
	}
	FUZZ_CHECK(digest[0] == digest[1] || !(how & 2));
	fuzz_cut(&image, how & 1, &first);
	/* A table that lies over other parts of the image tells what those are. */
	FUZZ_CHECK(is_moved || first.place_count == reported);
	if (how & 2) {
		fuzz_cut(&image, how & 1, &again);
		FUZZ_CHECK(first.digest == again.digest);
	}
	fuzz_image_close(&image);
	return 0;
}
