/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_view.h - the ring image as untrusted input: every offset and count checked
 * once, changing words read atomically, slots copied with a second reading of their claim.
 *
 * Threads: any; never writes.
 */
#ifndef KY_RING_RING_VIEW_H
#define KY_RING_RING_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <wire/alloc_table.h>
#include <wire/place_table.h>
#include <wire/resource_area.h>
#include <wire/ring_image.h>
#include <wire/sample_area.h>

struct ky_ring_view {
	const uint8_t *image;
	const struct ky_ring_header *header;   /* only its atomic words are read again */
	const struct ky_ring_control *control; /* NULL when the image ends before it */
	const struct ky_ring_side *side;       /* NULL: none, or not whole in the image */
	uint64_t image_bytes;
	uint64_t sample_offset, sample_bytes; /* 0: none, or not whole in the image */
	uint64_t place_offset;                /* 0: none, or not whole in the image */
	uint64_t alloc_offset;                /* the same */

	uint64_t resource_offset; /* 0: none, or not whole in the image */
	uint64_t directory_offset;
	uint64_t directory_bytes; /* that lie inside the image */
	uint64_t slots_offset;
	uint32_t slot_count; /* that lie inside the image */
	uint32_t flags;
	uint32_t pid;
	uint64_t start_time_ticks;
	uint64_t ticks_per_second;
	struct ky_clock_anchor open_anchor;
	char boot_id[41];
	char service[65];
	char arch[17];
	char recorder_version[17];
};

/* What a slot says about itself, copied. */
struct ky_slot_head {
	uint64_t claim;
	uint32_t tid;
	uint32_t thread;
	uint64_t record_count;
	uint64_t start_ticks;
	struct ky_clock_anchor anchor;
	uint32_t gates;
	uint32_t carried_depth;
	uint64_t worker_task, worker_runtime, worker_identity, parked_on;
	struct {
		uint64_t task_word;
		uint64_t begin_ticks;
	} carried[KY_OPEN_DEPTH];
};

/* image: 64-byte aligned. Returns 0; -EINVAL misaligned; KYMO_E_NOT_TRACE, _VERSION, _TRUNCATED,
 * _CORRUPT. An image that was truncated after its header opens with the slots it still has. */
int ky_ring_view_init(struct ky_ring_view *view, const uint8_t *image, uint64_t image_bytes);

/* Slots whose memory may be read: reading beyond would create pages in the ring file. */
uint32_t ky_ring_view_populated(const struct ky_ring_view *view);

/* The claim index goes round so many slots, at least 1. */
uint32_t ky_ring_view_usable(const struct ky_ring_view *view);

/* Slots that were given out and lie after the end of a truncated image. */
uint32_t ky_ring_view_truncated(const struct ky_ring_view *view);

uint64_t ky_ring_view_claim(const struct ky_ring_view *view, uint32_t slot);

/* Busy flag and offset after the last record, in that order: a clear flag means that the offset
 * covers everything stamped before. Returns KYMO_E_CORRUPT for an impossible offset. */
int ky_ring_view_published(const struct ky_ring_view *view, uint32_t slot, bool *is_busy,
			   uint32_t *offset);

/* The slot's state word as it is. */
uint32_t ky_ring_view_state(const struct ky_ring_view *view, uint32_t slot);

/* Returns 0; KYMO_E_AGAIN when the slot is not (any more) under claim number `number`. */
int ky_ring_view_head(const struct ky_ring_view *view, uint32_t slot, uint64_t number,
		      struct ky_slot_head *out);

/* Copies the words from byte offset `from` up to `to`. Returns words; KYMO_E_AGAIN as above. */
int ky_ring_view_copy(const struct ky_ring_view *view, uint32_t slot, uint64_t number,
		      uint32_t from, uint32_t to, uint64_t *out);

/* Copies the slot's header and its records up to byte offset `to`, a multiple of 8. Returns false
 * when it is not under that number any more. */
bool ky_ring_view_copy_whole(const struct ky_ring_view *view, uint32_t slot, uint64_t number,
			     uint32_t to, uint64_t *out);

/* The class's part of the sample area. Returns false when there is none, or nothing was sampled
 * yet: then nothing of it may be read. The ring is not to be written through. */
bool ky_ring_view_samples(const struct ky_ring_view *view, uint32_t which,
			  struct ky_sample_ring *out);

/* Samples that the sources of all classes had no room for, since the process started. */
uint64_t ky_ring_view_samples_lost(const struct ky_ring_view *view);

/* Context switches are wanted, and no window has begun: their cells are not there yet. */
bool ky_ring_view_awaits_windows(const struct ky_ring_view *view);
/* Which sources the class has, "perf_event, timers", and "none" or "off". Returns out. */
const char *ky_ring_view_sources(const struct ky_ring_view *view, uint32_t which, char *out,
				 size_t capacity);

/* What was refused: "perf_event: Operation not permitted; ...". Empty: nothing. Returns out. */
const char *ky_ring_view_refusals(const struct ky_ring_view *view, uint32_t which, char *out,
				  size_t capacity);
/* Who samples the CPU now, and what made it so: "timers: 41000 switches a second, 1300 ns more each
 * by perf_event"; empty: not known. */
const char *ky_ring_view_choice(const struct ky_ring_view *view, char *out, size_t capacity);

enum ky_sample_read {
	KY_SAMPLE_WHOLE,
	KY_SAMPLE_UNFINISHED, /* its writer has it, or has not come to it */
	KY_SAMPLE_GONE        /* overwritten */
};

/* Copies the cell of this claim, KY_SAMPLE_CELL_BYTES, between two readings of its serial. */
enum ky_sample_read ky_ring_view_sample(const struct ky_sample_ring *ring, uint64_t claim,
					uint64_t *out);

/* The place table. Returns NULL when there is none, or no place was put yet: then nothing of it may
 * be read. */
const uint8_t *ky_ring_view_places(const struct ky_ring_view *view);

/* A task's last points, copied. */
struct ky_place_seen {
	uint64_t task;
	uint32_t name;
	uint64_t points; /* their word: wire/place_table.h; 0: none is known */
	/* End of its last poll, lower bits missing; 0: not known. */
	uint64_t polled_ticks;
	uint64_t since_ticks; /* of its older points; 0: not known */
};

/* The next way from `slot` on that some task has; KY_PLACE_ENTRIES: none. */
uint32_t ky_ring_view_next_place(const uint8_t *area, uint32_t slot);

/* Way `slot` of the table, 0 .. KY_PLACE_ENTRIES - 1. now_ticks: of this moment, or the last that
 * is known. False: no task has it, or it changes all the time. */
bool ky_ring_view_place(const uint8_t *area, uint32_t slot, uint64_t now_ticks,
			struct ky_place_seen *out);

/* Copies the way's row as it is at one moment; left at zeros when it changes all the time. */
void ky_ring_view_place_copy(const uint8_t *area, uint32_t slot, struct kymo_place_row *out);

/* The word of points of this number; 0: none. */
uint64_t ky_ring_view_points(const uint8_t *area, uint32_t number);

/* How many units of frames exist. */
uint64_t ky_ring_view_place_units(const uint8_t *area);

/* Frames of one of the stacks that are kept once, leaf first, all bounds checked. Returns their
 * number, 0: it is not there. */
uint32_t ky_ring_view_kept_stack(const struct ky_place_stack *stacks, uint32_t number,
				 const uint8_t *units, uint32_t unit_count, uint64_t *frames,
				 uint32_t frames_max);
uint32_t ky_ring_view_place_stack(const uint8_t *area, uint32_t number,
				  uint64_t frames[KYMO_PLACE_FRAMES_MAX]);

/* The table of allocations. Returns NULL when there is none, or none was reported yet: then nothing
 * of it may be read. */
const uint8_t *ky_ring_view_allocs(const struct ky_ring_view *view);

/* An allocation that was reported and lives, copied. */
struct ky_alloc_seen {
	uint64_t address, stamp, bytes, weight, about;
};

/* Entry 0 .. KY_ALLOC_ENTRIES - 1. False: nothing lies there, or it changes just now. */
bool ky_ring_view_alloc(const uint8_t *area, uint32_t entry, struct ky_alloc_seen *out);

/* How many units of frames exist. */
uint64_t ky_ring_view_alloc_units(const uint8_t *area);

/* Frames of a stack, leaf first. Returns their number, 0: it is not there. */
uint32_t ky_ring_view_alloc_stack(const uint8_t *area, uint32_t number,
				  uint64_t frames[KY_ALLOC_FRAMES_MAX]);

/* The resource area. Returns NULL when there is none, or no resources were read yet: then
 * nothing of it may be read. */
const uint8_t *ky_ring_view_resources(const struct ky_ring_view *view);

/* Copies the head's words, the path cut to what is there, a zero after it. */
struct ky_resource_about {
	uint64_t claim_index, interval_ns;
	uint32_t missing[KY_PART_COUNT];
	char path[KY_RESOURCE_PATH_BYTES + 1];
};
void ky_ring_view_resource_about(const uint8_t *area, struct ky_resource_about *out);

/* Copies row `number` between two readings of its serial. False: it is gone, or being written. */
bool ky_ring_view_resource(const uint8_t *area, uint64_t number, struct ky_resource_row *out);

/* The settings of the control page as they were at one moment. */
struct ky_ring_wish {
	uint32_t generation; /* even */
	uint32_t mode;       /* enum ky_ring_mode */
	uint64_t poll_threshold_ns;
	uint64_t wake_threshold_ns;
	uint32_t throttle[8];
	uint32_t sample_hz;   /* 0: as it was started; UINT32_MAX: off */
	uint32_t resource_ms; /* the same */
};

/* Reads the settings between two readings of their generation. Returns true and fills out when they
 * are whole and not the ones of out->generation; false: keep what you had. Start with out all
 * zeros, which is what a ring starts with. */
bool ky_ring_view_settings(const struct ky_ring_view *view, struct ky_ring_wish *out);

#endif
