/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <watch/watch_state.h>

#include <unistd.h>
#include <unwind/unwind_process.h>

/* Blocked, or stopped: of a thread that runs it is not known where it stands, and what its
 * registers were when it last entered the kernel says nothing about now. */
static bool stands_still(const struct ky_stuck_note *note)
{
	return note->sp && note->pc && note->state != 'R';
}

void ky_watch_stack(struct ky_watchdog *watchdog, struct ky_stuck_note *note)
{
	const struct ky_watchdog_options *options = &watchdog->options;
	const struct ky_walk_start start = {.pc = note->pc, .sp = note->sp};
	struct ky_walk walk = {.frames = note->frames, .frames_max = KY_STUCK_FRAMES_MAX};
	struct ky_unwind_view view;

	if (!stands_still(note) || (options->may_read && !options->may_read()))
		return;
	if (ky_unwind_view_of(options->image, options->image_bytes, &view)) {
		ky_unwind_process(&walk, &view, options->pid ? options->pid : (uint32_t)getpid(),
				  &start);
	} else {
		/* There are no tables yet: then it is where it stands, and no more. */
		walk.frames[0] = note->pc;
		walk.count = 1;
		walk.end = KY_WALK_UNKNOWN;
	}
	/* It may have gone on while it was read: then frames of two moments are mixed. */
	if (!ky_proc_reader_stands(&watchdog->proc, note->tid, note))
		return;
	note->frame_count = (uint16_t)walk.count;
	note->guessed_count = (uint16_t)walk.guessed_count;
	note->is_truncated = walk.end != KY_WALK_FIRST;
}
