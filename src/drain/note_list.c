/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <drain/note_list.h>

#include <base/alloc.h>
#include <errno.h>
#include <kymo/base.h>
#include <string.h>

int ky_note_init(struct ky_note_list *notes)
{
	notes->source = ky_thread_make_source();
	return notes->source ? 0 : -ENOMEM;
}

void ky_note_release(struct ky_note_list *notes)
{
	for (uint32_t i = 0; i < notes->count; i++)
		ky_free(notes->list[i].body);
	ky_free(notes->list);
	ky_thread_free(notes->source);
}

static int find_room(struct ky_note_list *notes, uint32_t *at)
{
	for (*at = 0; *at < notes->count; (*at)++) {
		if (notes->list[*at].kind == KY_NOTE_FREE)
			return 0;
	}
	if (notes->count == KY_NOTES_MAX)
		return KYMO_E_LIMIT;
	return ky_grow(&notes->list, &notes->count, notes->count + 1, sizeof(*notes->list));
}

int ky_note_add(struct ky_note_list *notes, struct ky_queue_sums *sums, const struct ky_note *note,
		uint64_t ticks)
{
	struct ky_queue *queue = &notes->source->queue;
	uint32_t at, to;
	int err = find_room(notes, &at);

	if (!err)
		err = ky_queue_push(queue, sums, &(struct ky_rec){ticks, at, KY_REC_NOTE, 0});
	if (err) {
		ky_free(note->body);
		return err;
	}
	notes->list[at] = *note;
	for (to = queue->tail - 1; to > queue->head && queue->recs[to - 1].ticks > ticks; to--)
		queue->recs[to] = queue->recs[to - 1];
	queue->recs[to] = (struct ky_rec){ticks, at, KY_REC_NOTE, 0};
	return 0;
}

void *ky_note_body(const void *bytes, size_t count)
{
	void *body = ky_alloc(count ? count : 1);

	if (body && count)
		memcpy(body, bytes, count);
	return body;
}

void ky_note_remove(struct ky_note *note)
{
	ky_free(note->body);
	memset(note, 0, sizeof(*note));
}
