/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <edit/ring_tail.h>

#include <edit/trace_end.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static bool is_after(const struct ky_drained_note *a, const struct ky_drained_note *b)
{
	return a->last_ticks != b->last_ticks ? a->last_ticks > b->last_ticks :
						a->last_ties > b->last_ties;
}

static void continue_after(struct ky_ring_tail *tail, const struct ky_drained_note *note)
{
	tail->from_ticks = note->last_ticks;
	tail->from_ties = (uint32_t)note->last_ties;
}

/* The note of the last whole chunk on disk, which ends at last_ns. So do several where a segment
 * begins with more tasks than one chunk lists: then as many of them count as are there. NULL: it
 * has none. */
static const struct ky_drained_note *note_at(const struct ky_ring_tail *tail, uint64_t last_ns)
{
	const struct ky_drained_note *found[KY_DRAINED_CHUNKS];
	uint32_t count = 0, at, on_disk;

	for (uint32_t i = 0; i < tail->note_count; i++) {
		const struct ky_drained_note *note = &tail->notes[i];

		if (note->last_ns != last_ns)
			continue;
		/* In the order in which they were written. */
		for (at = count++; at > 0 && is_after(found[at - 1], note); at--)
			found[at] = found[at - 1];
		found[at] = note;
	}
	if (count == 0)
		return NULL;
	if (!is_after(found[count - 1], found[0]))
		return found[0];
	on_disk = ky_trace_chunks_at(tail->path, tail->torn_path, tail->torn_from_bytes, last_ns);
	return found[on_disk == 0 || on_disk > count ? count - 1 : on_disk - 1];
}

/* A chunk that was being written when its writer was killed may be there in part, or but for the
 * last bytes of its frame. Where the ring still has all of it, it counts as not there. False: it
 * has not, or the notes do not fit what is on disk. */
static bool leave_out_torn(struct ky_ring_tail *tail)
{
	uint64_t whole_ns = ky_trace_whole_ns(tail->path, tail->torn_path, tail->torn_from_bytes);
	const struct ky_drained_note *whole;

	if (whole_ns == 0) { /* there is nothing else on disk */
		if (tail->horizon_ticks != 0)
			return false;
		tail->from_ns = 0;
		tail->path[0] = '\0';
		return true;
	}
	whole = note_at(tail, whole_ns);
	if (whole == NULL || whole->last_ticks < tail->horizon_ticks)
		return false;
	continue_after(tail, whole);
	return true;
}

/* Where the last event on disk lies on the ring's own counter. Inside a chunk that is there in part
 * time is a straight line, which is right to a record or two. */
static void find_ticks(struct ky_ring_tail *tail, uint64_t last_ns)
{
	const struct ky_drained_note *before = NULL, *after = NULL;
	uint32_t i;

	for (i = 0; i < tail->note_count; i++) {
		const struct ky_drained_note *note = &tail->notes[i];

		if (note->last_ns <= last_ns &&
		    (before == NULL || note->last_ticks >= before->last_ticks))
			before = note;
		if (note->last_ns > last_ns &&
		    (after == NULL || note->last_ticks < after->last_ticks))
			after = note;
	}
	if (before == NULL)
		return;
	if (before->last_ns == last_ns) {
		continue_after(tail, note_at(tail, last_ns));
	} else if (after != NULL && after->last_ticks > before->last_ticks) {
		tail->from_ticks = before->last_ticks + 1u +
				   (uint64_t)((double)(after->last_ticks - before->last_ticks) *
					      (double)(last_ns - before->last_ns) /
					      (double)(after->last_ns - before->last_ns));
	}
}

/* Was it begun when its writer was killed, so that nothing of it can be read? The ring has all. */
static bool is_only_begun(const struct ky_ring_tail *tail)
{
	uint64_t whole_bytes;
	bool is_chunk;

	return strcmp(tail->begun_path, tail->torn_path) != 0 &&
	       ky_trace_is_torn(tail->begun_path, &whole_bytes, &is_chunk) && whole_bytes == 0;
}

void ky_ring_tail_settle(struct ky_ring_tail *tail)
{
	bool is_torn, is_chunk;
	uint64_t last_ns;

	if (tail->path[0] == '\0')
		return;
	last_ns = ky_trace_end_ns(tail->path, tail->torn_path, tail->begun_path,
				  sizeof(tail->torn_path));
	if (last_ns == 0) {
		tail->path[0] = tail->begun_path[0] = '\0'; /* whatever was written is gone */
		return;
	}
	tail->from_ns = last_ns + 1;
	if (!is_only_begun(tail))
		tail->begun_path[0] = '\0';
	is_torn = ky_trace_is_torn(tail->torn_path, &tail->torn_from_bytes, &is_chunk);
	if (is_torn && is_chunk && leave_out_torn(tail))
		return;
	find_ticks(tail, last_ns);
	tail->torn_path[0] = '\0';
}

int ky_ring_tail_trim(const struct ky_ring_tail *tail)
{
	int err = 0, fd;

	if (tail->begun_path[0] != '\0' && unlink(tail->begun_path) != 0 && errno != ENOENT)
		return -errno;
	if (tail->torn_path[0] == '\0')
		return 0;
	if (tail->torn_from_bytes == 0) /* an empty file would be no trace */
		return unlink(tail->torn_path) == 0 || errno == ENOENT ? 0 : -errno;
	fd = open(tail->torn_path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || ftruncate(fd, (off_t)tail->torn_from_bytes) != 0 || fsync(fd) != 0)
		err = -errno;
	if (fd >= 0)
		close(fd);
	return err;
}
