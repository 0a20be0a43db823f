/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <read/time_order.h>

#include <kymo/base.h>
#include <read/trace.h>
#include <string.h>

#define RANK_BITS 2
#define WIDTH_MAX (UINT64_C(1) << 60)
#define WIDTH_FIRST (UINT64_C(1) << 16)
#define BATCH_ROWS 4096u /* that are wished for; and four for each feed */
#define DIGIT_BITS 11
#define DIGITS (1u << DIGIT_BITS)
#define PLACES_BYTES (DIGITS * sizeof(uint32_t))
#define ROWS_FEW 32u

void ky_time_order_init(struct ky_time_order *order, struct ky_pages *pages)
{
	memset(order, 0, sizeof(*order));
	order->pages = pages;
	order->width_ns = WIDTH_FIRST;
}

void ky_time_order_release(struct ky_time_order *order)
{
	ky_pages_free(order->pages, order->feeds, order->feed_capacity * sizeof(*order->feeds));
	ky_pages_free(order->pages, order->rows, order->capacity * sizeof(*order->rows));
	ky_pages_free(order->pages, order->spare, order->capacity * sizeof(*order->spare));
	ky_pages_free(order->pages, order->places, PLACES_BYTES);
	memset(order, 0, sizeof(*order));
}

bool ky_time_order_add(struct ky_time_order *order, const struct ky_column *column, bool is_poll)
{
	struct ky_order_feed *feed;

	if (!ky_pages_array(order->pages, &order->feeds, &order->feed_capacity,
			    order->feed_count + 1, sizeof(*order->feeds)))
		return false;
	feed = &order->feeds[order->feed_count++];
	feed->is_poll = is_poll;
	feed->has_ended = !ky_cursor_begin(&feed->next, column, 0);
	return true;
}

static uint64_t rows_wished(const struct ky_time_order *order)
{
	return BATCH_ROWS + 4 * (uint64_t)order->feed_count;
}

static bool make_room(struct ky_time_order *order, uint64_t wanted)
{
	struct ky_pages *pages = order->pages;

	if (wanted > UINT32_MAX / sizeof(*order->rows)) {
		pages->failed = KYMO_E_LIMIT;
		return false;
	}
	ky_pages_free(pages, order->rows, order->capacity * sizeof(*order->rows));
	ky_pages_free(pages, order->spare, order->capacity * sizeof(*order->spare));
	order->capacity = (uint32_t)wanted;
	order->rows = ky_pages_alloc(pages, order->capacity * sizeof(*order->rows));
	order->spare = ky_pages_alloc(pages, order->capacity * sizeof(*order->spare));
	return order->rows && order->spare;
}

/* A row that would come before the one before it in its feed comes right after it. Returns false
 * where there are more rows than there is room for. */
static bool gather_feed(struct ky_time_order *order, uint32_t index)
{
	struct ky_order_feed *feed = &order->feeds[index];
	struct ky_cursor cursor = feed->next;
	uint64_t from_ns = order->from_ns, width_ns = order->width_ns, least = 0;
	uint32_t count = order->count;
	bool is_going = true;

	while (is_going && cursor.time_ns - from_ns < width_ns) {
		const struct ky_wake_row *wake = (const void *)cursor.at;
		const struct ky_poll_row *poll = (const void *)cursor.at;
		uint64_t key = (cursor.time_ns - from_ns) << RANK_BITS;

		if (count == order->capacity)
			return false;
		if (feed->is_poll)
			key |= 1;
		else if (wake->woken == wake->waker)
			key |= 2;
		least = key > least ? key : least;
		order->rows[count++] = (struct ky_ordered_row){
			least, index, feed->is_poll ? poll->task : wake->woken};
		is_going = ky_cursor_next(&cursor);
	}
	feed->tried = cursor;
	feed->has_tried_all = !is_going;
	order->count = count;
	order->key_bits |= least;
	return true;
}

static bool gather(struct ky_time_order *order)
{
	order->count = 0;
	order->key_bits = 0;
	for (uint32_t i = 0; i < order->feed_count; i++) {
		const struct ky_order_feed *feed = &order->feeds[i];

		if (!feed->has_ended && feed->next.time_ns - order->from_ns < order->width_ns &&
		    !gather_feed(order, i))
			return false;
	}
	return true;
}

static void take(struct ky_time_order *order)
{
	for (uint32_t i = 0; i < order->feed_count; i++) {
		struct ky_order_feed *feed = &order->feeds[i];

		if (feed->has_ended || feed->next.time_ns - order->from_ns >= order->width_ns)
			continue;
		feed->next = feed->tried;
		feed->has_ended = feed->has_tried_all;
	}
}

/* So that the next piece of time has about as many rows as are wished for. */
static void adapt(struct ky_time_order *order)
{
	uint64_t wished = rows_wished(order);

	if (order->count < wished / 16 && order->width_ns <= WIDTH_MAX / 16)
		order->width_ns *= 16;
	else if (order->count < wished / 2 && order->width_ns <= WIDTH_MAX / 2)
		order->width_ns *= 2;
	else if (order->count > wished && order->width_ns > 1)
		order->width_ns /= 2;
}

static void sort_few(struct ky_ordered_row *rows, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++) {
		struct ky_ordered_row row = rows[i];
		uint32_t at = i;

		for (; at > 0 && rows[at - 1].key > row.key; at--)
			rows[at] = rows[at - 1];
		rows[at] = row;
	}
}

/* By one digit; equal ones stay in their order. */
static void sort_digit(struct ky_time_order *order, unsigned int shift)
{
	struct ky_ordered_row *rows = order->rows, *out = order->spare;
	uint32_t *places = order->places, place = 0;

	memset(places, 0, DIGITS * sizeof(*places));
	for (uint32_t i = 0; i < order->count; i++)
		places[rows[i].key >> shift & (DIGITS - 1)]++;
	for (uint32_t i = 0; i < DIGITS; i++) {
		uint32_t rows_of_digit = places[i];

		places[i] = place;
		place += rows_of_digit;
	}
	for (uint32_t i = 0; i < order->count; i++)
		out[places[rows[i].key >> shift & (DIGITS - 1)]++] = rows[i];
	order->rows = out;
	order->spare = rows;
}

static void sort(struct ky_time_order *order)
{
	if (order->count <= ROWS_FEW) {
		sort_few(order->rows, order->count);
		return;
	}
	for (unsigned int shift = 0; order->key_bits >> shift; shift += DIGIT_BITS)
		sort_digit(order, shift);
}

static bool find_begin(struct ky_time_order *order)
{
	bool is_any = false;

	for (uint32_t i = 0; i < order->feed_count; i++) {
		const struct ky_order_feed *feed = &order->feeds[i];

		if (!feed->has_ended && (!is_any || feed->next.time_ns < order->from_ns)) {
			order->from_ns = feed->next.time_ns;
			is_any = true;
		}
	}
	return is_any;
}

int ky_time_order_next(struct ky_time_order *order)
{
	if (!find_begin(order))
		return 0;
	if (!order->places)
		order->places = ky_pages_alloc(order->pages, PLACES_BYTES);
	if (!order->places || (!order->capacity && !make_room(order, 2 * rows_wished(order))))
		return order->pages->failed;
	while (!gather(order)) {
		if (order->width_ns > 1)
			order->width_ns /= 2;
		else if (!make_room(order, 2 * (uint64_t)order->capacity))
			return order->pages->failed;
	}
	take(order);
	sort(order);
	adapt(order);
	return 1;
}
