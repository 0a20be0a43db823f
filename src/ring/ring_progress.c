/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ring/ring_progress.h>

#include <ring/ring_view.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- who streams ---- */

/* Through the file, not a mapping: what is full or cut must not become a fault of ours. A write
 * that fails costs exactness of a recovery, nothing else. */
static void put(const struct ky_ring_progress *progress, size_t at, const void *bytes, size_t count)
{
	ssize_t written = pwrite(progress->fd, bytes, count, (off_t)(progress->at + at));

	(void)written;
}

void ky_ring_progress_init(struct ky_ring_progress *progress, int fd, uint64_t side_offset,
			   uint64_t side_bytes)
{
	memset(progress, 0, sizeof(*progress));
	progress->fd = side_offset != 0 && side_bytes >= sizeof(struct ky_ring_side) ? fd : -1;
	progress->at = side_offset + offsetof(struct ky_ring_side, drained);
}

void ky_ring_progress_path(struct ky_ring_progress *progress, const char *path)
{
	char *resolved = progress->fd >= 0 ? realpath(path, NULL) : NULL;
	size_t length = resolved != NULL ? strlen(resolved) : 0;
	uint32_t bytes = (uint32_t)length, none = 0;

	if (length > 0 && length < KY_DRAINED_PATH_BYTES) {
		put(progress, offsetof(struct ky_ring_drained, path_bytes), &none, sizeof(none));
		put(progress, offsetof(struct ky_ring_drained, path), resolved, length);
		put(progress, offsetof(struct ky_ring_drained, path_bytes), &bytes, sizeof(bytes));
	}
	free(resolved);
}

void ky_ring_progress_chunk(struct ky_ring_progress *progress, const struct ky_chunk *chunk)
{
	uint64_t note[3] = {chunk->last_ns, chunk->last_ticks, chunk->last_ties};
	uint64_t hand = progress->chunk_count + 1;

	if (progress->fd < 0)
		return;
	put(progress,
	    offsetof(struct ky_ring_drained, chunks) +
		    progress->chunk_count % KY_DRAINED_CHUNKS * sizeof(note),
	    note, sizeof(note));
	put(progress, offsetof(struct ky_ring_drained, chunk_hand), &hand, sizeof(hand));
	progress->chunk_count = hand;
}

/* ---- who recovers ---- */

/* The oldest sub-buffer of the hand's last round; 0: nothing was overwritten. */
static uint64_t horizon_of(const struct ky_ring_view *view)
{
	uint64_t hand = atomic_load_explicit(&view->header->hand, memory_order_relaxed);
	uint32_t usable = ky_ring_view_usable(view), populated = ky_ring_view_populated(view);
	uint64_t oldest = UINT64_MAX, ticks = UINT64_MAX;

	if (hand <= usable)
		return 0;
	for (uint32_t slot = 0; slot < populated; slot++) {
		uint64_t number = KY_CLAIM_NUMBER(ky_ring_view_claim(view, slot));
		struct ky_slot_head head;

		if (number <= hand - usable || number >= oldest ||
		    ky_ring_view_head(view, slot, number, &head) != 0)
			continue;
		oldest = number;
		ticks = head.start_ticks;
	}
	return ticks;
}

void ky_ring_progress_read(struct ky_ring_tail *tail, const struct ky_open_ring *ring)
{
	const struct ky_ring_drained *drained;
	struct ky_ring_view view;
	uint64_t hand;
	uint32_t bytes, i;

	memset(tail, 0, sizeof(*tail));
	if (ky_ring_view_open(&view, ring->image, ring->image_bytes) < 0 || view.side == NULL)
		return;
	drained = &view.side->drained;
	bytes = atomic_load_explicit(&drained->path_bytes, memory_order_acquire);
	if (bytes == 0 || bytes >= KY_DRAINED_PATH_BYTES || drained->path[0] != '/')
		return;
	memcpy(tail->path, drained->path, bytes);
	tail->horizon_ticks = horizon_of(&view);
	hand = atomic_load_explicit(&drained->chunk_hand, memory_order_acquire);
	tail->note_count = hand < KY_DRAINED_CHUNKS ? (uint32_t)hand : KY_DRAINED_CHUNKS;
	for (i = 0; i < tail->note_count; i++) {
		tail->notes[i].last_ns = atomic_load_explicit(&drained->chunks[i].last_ns,
							      memory_order_relaxed);
		tail->notes[i].last_ticks = atomic_load_explicit(&drained->chunks[i].last_ticks,
								 memory_order_relaxed);
		tail->notes[i].last_ties = atomic_load_explicit(&drained->chunks[i].last_ties,
								memory_order_relaxed);
	}
}
