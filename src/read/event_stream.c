/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Sorting needs to hold back only as much as the trace steps back in time: a first pass over each
 * source measures that, then every source gives its events in order through a heap of copies, and
 * the earliest of all sources is next.
 */
#include <base/alloc.h>
#include <errno.h>
#include <kymo/base.h>
#include <read/event_stream.h>
#include <read/frame_reader.h>
#include <base/text.h>
#include <string.h>

#define RAW_BYTES_MAX_DEFAULT (UINT64_C(16) << 30)
#define HOT_EVENTS 32u /* at once */
#define REORDER_BYTES_MAX_DEFAULT (UINT64_C(256) << 20)
#define NOTICES_MAX 1000u

/* A copy of an event; values and the bytes they point to follow it in the same allocation. */
struct held {
	struct ky_event event;
	uint64_t serial; /* order within the source */
	uint64_t stream; /* whose pools its containers refer to */
	size_t bytes;
};

struct feed {
	struct ky_frame_reader reader;
	uint64_t reorder_ns; /* how far it steps back at most */
	uint64_t max_ns;     /* latest time stamp read so far */
	uint64_t given_ns;   /* time of the last event given */
	uint64_t serial;
	uint64_t stream; /* streams begun so far */
	struct held **heap;
	uint32_t count, capacity;
	struct ky_frame frame; /* stored order, or an event without a moment: not copied */
	bool is_open, is_done, has_frame;
};

struct ky_event_stream {
	struct ky_byte_source *sources;
	struct ky_copies *copies; /* NULL: there are none */
	struct feed *feeds;
	uint32_t *order; /* sorted: feeds with something to give, as a heap by their first event */
	uint32_t order_count;
	uint32_t feed_count;
	uint32_t current; /* stored order: source being read */
	struct ky_event event;
	struct held *last; /* given to the caller: freed by the next call */
	struct ky_event_stream_options options;
	uint64_t held_bytes, passed_ns;
	char **notices;
	uint32_t notice_count;
	uint32_t left_out_count; /* sources that are no trace */
	int left_out_code;       /* of the first of them */
	bool is_measuring, is_damaged;
};

static int add_notice(void *ctx, uint64_t offset, int code, const char *text)
{
	struct ky_event_stream *stream = ctx;
	size_t bytes = strlen(text) + 1;
	char **list, *copy;

	(void)offset;
	stream->is_damaged |= code != 0 && code != KYMO_E_TRUNCATED;
	if (stream->is_measuring || stream->notice_count == NOTICES_MAX)
		return 0;
	list = ky_realloc(stream->notices, (stream->notice_count + 1) * sizeof(*list));
	if (!list)
		return -ENOMEM;
	stream->notices = list;
	copy = ky_alloc(bytes);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, text, bytes);
	list[stream->notice_count++] = copy;
	return 0;
}

static int open_feed(struct ky_event_stream *stream, uint32_t index)
{
	struct feed *feed = &stream->feeds[index];
	int result;

	result = ky_frame_reader_init(&feed->reader, &stream->sources[index],
				      &stream->options.limits, stream->options.raw_bytes_max,
				      add_notice, stream);
	feed->is_open = result == 0;
	if (feed->is_open)
		ky_frame_reader_leave_out(&feed->reader, ky_copies_source(stream->copies, index));
	return result;
}

/* A source that is no trace gives nothing and a notice. */
static int left_out(struct ky_event_stream *stream, uint32_t index, int code)
{
	struct ky_buf text;
	int result;

	if (stream->is_measuring)
		return 0;
	if (stream->left_out_count++ == 0)
		stream->left_out_code = code;
	ky_buf_init(&text, 64u << 10);
	ky_text(&text, stream->sources[index].name ? stream->sources[index].name : "(memory)");
	ky_text(&text, ": byte 0: ");
	ky_text(&text, code == KYMO_E_NOT_TRACE ?
			       "this is not a trace: it does not begin with TRC" :
			       kymo_error_text(code));
	ky_text(&text, "; left out");
	ky_buf_append(&text, "", 1);
	result = text.failed ? -ENOMEM : add_notice(stream, 0, code, (const char *)text.bytes);
	ky_buf_release(&text);
	return result;
}

/* The next event of a source, at its place in the file. Returns 1, 0 at the end, -ENOMEM. */
static void pass_hot(struct ky_event_stream *stream, struct ky_frame_reader *reader)
{
	struct ky_hot_event events[HOT_EVENTS];
	uint32_t count;

	while ((count = ky_frame_reader_hot(reader, events, HOT_EVENTS)) > 0)
		for (uint32_t i = 0; i < count; i++)
			if (events[i].timestamp_ns > stream->passed_ns)
				stream->passed_ns = events[i].timestamp_ns;
}

static int read_event(struct ky_event_stream *stream, uint32_t index)
{
	struct feed *feed = &stream->feeds[index];
	int result;

	if (feed->is_done)
		return 0;
	do {
		if (stream->options.is_without_hot)
			pass_hot(stream, &feed->reader);
		result = ky_frame_reader_next(&feed->reader, &feed->frame);
		feed->stream += result == 1 && feed->frame.kind == KY_FRAME_HEADER;
	} while (result == 1 && feed->frame.kind != KY_FRAME_EVENT);
	if (result == 1)
		return 1;
	feed->is_done = true;
	if (result == 0 || result == -ENOMEM)
		return result;
	return left_out(stream, index, result);
}

static void describe(const struct ky_event_stream *stream, uint32_t index, struct ky_event *event)
{
	const struct feed *feed = &stream->feeds[index];

	event->schema = feed->frame.schema;
	event->values = feed->frame.values;
	event->timestamp_ns = feed->frame.schema->has_timestamp ? feed->frame.timestamp_ns : 0;
	event->has_timestamp = feed->frame.schema->has_timestamp != 0;
	event->is_late = false;
	event->source = index;
	event->offset = feed->reader.frame_offset;
}

/* ---- how far does each source step back? ---- */

static int measure(struct ky_event_stream *stream, uint32_t index)
{
	struct feed *feed = &stream->feeds[index];
	uint64_t max_ns = 0;
	int result;

	result = open_feed(stream, index);
	if (result < 0)
		return result;
	while ((result = read_event(stream, index)) == 1) {
		uint64_t time_ns = feed->frame.timestamp_ns;

		if (!feed->frame.schema->has_timestamp || time_ns == 0)
			continue;
		if (time_ns >= max_ns)
			max_ns = time_ns;
		else if (max_ns - time_ns > feed->reorder_ns)
			feed->reorder_ns = max_ns - time_ns;
	}
	ky_frame_reader_release(&feed->reader);
	feed->is_open = false;
	feed->is_done = false;
	return result;
}

/* ---- copies ---- */

static size_t value_bytes(const struct ky_value *value)
{
	if (!value->is_present)
		return 0;
	if (value->type == KY_TYPE_STACK || value->type == KY_TYPE_POOLED_STACK)
		return value->frames ? (size_t)value->frame_count * 8 : 0;
	return value->text.bytes ? value->text.count : 0;
}

static struct held *copy_event(const struct ky_event_stream *stream, uint32_t index)
{
	const struct feed *feed = &stream->feeds[index];
	uint32_t i, count = feed->frame.schema->field_count;
	size_t bytes = sizeof(struct held) + count * sizeof(struct ky_value);
	struct ky_value *values;
	struct held *held;
	uint8_t *at;

	for (i = 0; i < count; i++)
		bytes += value_bytes(&feed->frame.values[i]);
	held = ky_alloc(bytes);
	if (!held)
		return NULL;
	held->bytes = bytes;
	values = (struct ky_value *)(void *)(held + 1);
	at = (uint8_t *)(values + count);
	for (i = 0; i < count; i++) {
		size_t used = value_bytes(&feed->frame.values[i]);

		values[i] = feed->frame.values[i];
		if (used == 0)
			continue;
		if (values[i].type == KY_TYPE_STACK || values[i].type == KY_TYPE_POOLED_STACK) {
			memcpy(at, values[i].frames, used);
			values[i].frames = at;
		} else {
			memcpy(at, values[i].text.bytes, used);
			values[i].text.bytes = at;
		}
		at += used;
	}
	describe(stream, index, &held->event);
	held->event.values = values;
	return held;
}

static bool is_held_before(const struct held *a, const struct held *b)
{
	if (a->event.timestamp_ns != b->event.timestamp_ns)
		return a->event.timestamp_ns < b->event.timestamp_ns;
	return a->serial < b->serial;
}

static bool push_held(struct feed *feed, struct held *held)
{
	uint32_t at = feed->count;

	if (ky_grow(&feed->heap, &feed->capacity, feed->count + 1, sizeof(struct held *)))
		return false;
	feed->count++;
	while (at > 0 && is_held_before(held, feed->heap[(at - 1) / 2])) {
		feed->heap[at] = feed->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	feed->heap[at] = held;
	return true;
}

static struct held *pop_held(struct feed *feed)
{
	struct held *first = feed->heap[0], *moved = feed->heap[--feed->count];
	uint32_t at = 0, child;

	while ((child = 2 * at + 1) < feed->count) {
		if (child + 1 < feed->count &&
		    is_held_before(feed->heap[child + 1], feed->heap[child]))
			child++;
		if (!is_held_before(feed->heap[child], moved))
			break;
		feed->heap[at] = feed->heap[child];
		at = child;
	}
	feed->heap[at] = moved;
	return first;
}

/* ---- sorted order ---- */

static uint64_t next_ns(const struct feed *feed)
{
	return feed->has_frame ? 0 : feed->heap[0]->event.timestamp_ns;
}

static bool is_feed_before(const struct ky_event_stream *stream, uint32_t a, uint32_t b)
{
	uint64_t time_a = next_ns(&stream->feeds[a]), time_b = next_ns(&stream->feeds[b]);

	return time_a != time_b ? time_a < time_b : a < b;
}

/* Reads on until the earliest event of a source is known. Returns 1, 0 when it has none,
 * -ENOMEM. */
static int fill(struct ky_event_stream *stream, uint32_t index)
{
	struct feed *feed = &stream->feeds[index];
	struct held *held;
	int result;

	for (;;) {
		if (feed->count > 0 &&
		    (feed->is_done || stream->held_bytes > stream->options.reorder_bytes_max ||
		     feed->max_ns - feed->heap[0]->event.timestamp_ns >= feed->reorder_ns))
			return 1;
		result = read_event(stream, index);
		if (result < 0)
			return result;
		if (result == 0)
			return feed->count > 0;
		if (!feed->frame.schema->has_timestamp || feed->frame.timestamp_ns == 0) {
			feed->has_frame = true;
			return 1;
		}
		held = copy_event(stream, index);
		if (!held)
			return -ENOMEM;
		held->serial = feed->serial++;
		held->stream = feed->stream;
		if (!push_held(feed, held)) {
			ky_free(held);
			return -ENOMEM;
		}
		stream->held_bytes += held->bytes;
		if (held->event.timestamp_ns > feed->max_ns)
			feed->max_ns = held->event.timestamp_ns;
	}
}

static void sift_order(struct ky_event_stream *stream, uint32_t at)
{
	for (;;) {
		uint32_t child = 2 * at + 1, moved = stream->order[at];

		if (child >= stream->order_count)
			return;
		if (child + 1 < stream->order_count &&
		    is_feed_before(stream, stream->order[child + 1], stream->order[child]))
			child++;
		if (!is_feed_before(stream, stream->order[child], moved))
			return;
		stream->order[at] = stream->order[child];
		stream->order[child] = moved;
		at = child;
	}
}

static int next_sorted(struct ky_event_stream *stream)
{
	uint32_t index;
	struct feed *feed;
	int result;

	/* The source that gave the last event stands at the root with what it has next. */
	if (stream->order_count > 0 && stream->current != UINT32_MAX) {
		result = fill(stream, stream->order[0]);
		if (result < 0)
			return result;
		if (result == 0)
			stream->order[0] = stream->order[--stream->order_count];
		if (stream->order_count > 0)
			sift_order(stream, 0);
	}
	if (stream->order_count == 0)
		return 0;
	index = stream->order[0];
	stream->current = index;
	feed = &stream->feeds[index];
	if (feed->has_frame) {
		feed->has_frame = false;
		describe(stream, index, &stream->event);
		return 1;
	}
	stream->last = pop_held(feed);
	stream->held_bytes -= stream->last->bytes;
	stream->event = stream->last->event;
	stream->event.is_late = stream->event.timestamp_ns < feed->given_ns;
	if (stream->event.timestamp_ns > feed->given_ns)
		feed->given_ns = stream->event.timestamp_ns;
	return 1;
}

static int next_stored(struct ky_event_stream *stream)
{
	int result;

	for (; stream->current < stream->feed_count; stream->current++) {
		struct feed *feed = &stream->feeds[stream->current];

		if (!feed->is_open && !feed->is_done) {
			result = open_feed(stream, stream->current);
			if (result < 0)
				return result;
		}
		result = read_event(stream, stream->current);
		if (result < 0)
			return result;
		if (result == 1) {
			describe(stream, stream->current, &stream->event);
			return 1;
		}
		ky_frame_reader_release(&feed->reader);
		feed->is_open = false;
	}
	return stream->left_out_count == stream->feed_count ? stream->left_out_code : 0;
}

static int open_sorted(struct ky_event_stream *stream)
{
	uint32_t i;
	int result;

	for (i = 0; i < stream->feed_count; i++) {
		if (!stream->sources[i].seek) { /* one reading only: hold what fits */
			stream->feeds[i].reorder_ns = UINT64_MAX;
			continue;
		}
		stream->is_measuring = true;
		result = measure(stream, i);
		stream->is_measuring = false;
		if (result < 0)
			return result;
	}
	for (i = 0; i < stream->feed_count; i++) {
		result = open_feed(stream, i);
		if (result == 0)
			result = fill(stream, i);
		if (result < 0)
			return result;
		if (result == 1)
			stream->order[stream->order_count++] = i;
	}
	for (i = stream->order_count / 2; i-- > 0;)
		sift_order(stream, i);
	stream->current = UINT32_MAX;
	return stream->left_out_count == stream->feed_count ? stream->left_out_code : 0;
}

int ky_event_stream_open(struct ky_event_stream **out, struct ky_byte_source *sources,
			 size_t source_count, const struct ky_event_stream_options *options)
{
	struct ky_event_stream *stream;
	int result = 0;

	*out = NULL;
	if (source_count == 0 || source_count > UINT32_MAX)
		return -EINVAL;
	stream = ky_alloc(sizeof(*stream));
	if (!stream)
		return -ENOMEM;
	if (options)
		stream->options = *options;
	if (stream->options.raw_bytes_max == 0)
		stream->options.raw_bytes_max = RAW_BYTES_MAX_DEFAULT;
	if (stream->options.reorder_bytes_max == 0)
		stream->options.reorder_bytes_max = REORDER_BYTES_MAX_DEFAULT;
	stream->sources = sources;
	stream->feeds = ky_alloc(source_count * sizeof(*stream->feeds));
	stream->order = ky_alloc(source_count * sizeof(*stream->order));
	stream->feed_count = stream->feeds ? (uint32_t)source_count : 0;
	if (!stream->feeds || !stream->order)
		result = -ENOMEM;
	if (!result)
		result = ky_copies_open(&stream->copies, sources, stream->feed_count,
					&stream->options.limits, stream->options.raw_bytes_max);
	if (!result && !stream->options.is_stored_order)
		result = open_sorted(stream);
	if (result < 0) {
		struct ky_buf text;

		ky_buf_init(&text, 4096);
		ky_text(&text, kymo_error_text(result));
		ky_text_copy(stream->options.errbuf, stream->options.errbuf_bytes, &text);
		ky_buf_release(&text);
		ky_event_stream_close(stream);
		return result;
	}
	*out = stream;
	return 0;
}

void ky_event_stream_close(struct ky_event_stream *stream)
{
	uint32_t i, k;

	if (!stream)
		return;
	for (i = 0; i < stream->feed_count; i++) {
		struct feed *feed = &stream->feeds[i];

		if (feed->is_open)
			ky_frame_reader_release(&feed->reader);
		for (k = 0; k < feed->count; k++)
			ky_free(feed->heap[k]);
		ky_free(feed->heap);
	}
	for (i = 0; i < stream->notice_count; i++)
		ky_free(stream->notices[i]);
	ky_free(stream->notices);
	ky_copies_close(stream->copies);
	ky_free(stream->last);
	ky_free(stream->feeds);
	ky_free(stream->order);
	ky_free(stream);
}

int ky_event_stream_next(struct ky_event_stream *stream, const struct ky_event **event)
{
	int result;

	ky_free(stream->last);
	stream->last = NULL;
	result = stream->options.is_stored_order ? next_stored(stream) : next_sorted(stream);
	*event = result == 1 ? &stream->event : NULL;
	return result;
}

uint64_t ky_event_stream_passed_ns(const struct ky_event_stream *stream)
{
	return stream->passed_ns;
}

const char *ky_event_stream_notice(const struct ky_event_stream *stream, uint32_t index)
{
	return index < stream->notice_count ? stream->notices[index] : NULL;
}

bool ky_event_stream_is_damaged(const struct ky_event_stream *stream)
{
	return stream->is_damaged;
}

/* The pools of an event that was held back may be gone: an element that refers to them is then not
 * resolved, rather than resolved to something else. */
static void forget_pool(struct ky_value *value)
{
	if (value->type != KY_TYPE_POOLED_STRING && value->type != KY_TYPE_POOLED_STACK)
		return;
	value->is_resolved = 0;
	value->text.bytes = NULL;
	value->text.count = 0;
	value->frames = NULL;
	value->frame_count = 0;
}

int ky_event_walk_next(struct ky_event_stream *stream, struct ky_trc_walk *walk,
		       struct ky_value *key, struct ky_value *value)
{
	struct feed *feed = &stream->feeds[stream->event.source];
	int result = ky_trc_walk_next(feed->reader.dec, walk, key, value);

	if (result == 1 && stream->last && stream->last->stream != feed->stream) {
		forget_pool(key);
		forget_pool(value);
	}
	return result;
}
