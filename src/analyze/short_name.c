/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/short_name.h>

#include <stdbool.h>
#include <string.h>

#define SEGMENTS_MAX 64u
#define WRAPPERS_MAX 16u /* in one another */
#define DEPTH_MAX 4u     /* of angle brackets that are shortened */
#define ALTERNATIVES_MAX 8u
#define ALTERNATIVE_COLUMNS_MIN 36u
#define INSIDE_COLUMNS_MIN 6u
#define DOTS "..."

struct part {
	const char *text;
	size_t bytes;
};

/* Brackets that a byte opens or closes; the arrow of a function's type closes none. */
static int turn(const char *text, size_t at)
{
	char c = text[at];

	if (c == '<' || c == '(' || c == '[' || c == '{')
		return 1;
	if (c == '>' && at > 0 && text[at - 1] == '-')
		return 0;
	return c == '>' || c == ')' || c == ']' || c == '}' ? -1 : 0;
}

/* Where the bracket that opens at `at` closes; bytes: nowhere. */
static size_t closing(struct part part, size_t at)
{
	int depth = 0;

	for (; at < part.bytes; at++) {
		depth += turn(part.text, at);
		if (depth == 0)
			return at;
	}
	return part.bytes;
}

static bool ends_with(const char *text, size_t bytes, const char *end)
{
	size_t count = strlen(end);

	return bytes >= count && memcmp(text + bytes - count, end, count) == 0 &&
	       (bytes == count || text[bytes - count - 1] == ':');
}

/* The first argument of what only wraps it. */
static bool unwrap(struct part *part)
{
	static const char *const wrappers[] = {
		"Pin",           "Box",          "Instrumented",     "WithDispatch",
		"Unconstrained", "BlockingTask", "AssertUnwindSafe",
	};
	const char *open = memchr(part->text, '<', part->bytes);
	size_t head = open ? (size_t)(open - part->text) : 0, end, at;
	int depth = 0;

	if (head == 0 || closing(*part, head) + 1 != part->bytes)
		return false;
	for (at = 0; at < sizeof(wrappers) / sizeof(wrappers[0]); at++)
		if (ends_with(part->text, head, wrappers[at]))
			break;
	if (at == sizeof(wrappers) / sizeof(wrappers[0]))
		return false;
	end = part->bytes - 1;
	for (at = head + 1; at < end; at++) {
		if (part->text[at] == ',' && depth == 0)
			end = at;
		depth += turn(part->text, at);
	}
	*part = (struct part){part->text + head + 1, end - head - 1};
	return part->bytes > 0;
}

static void append(char *out, size_t *used, const char *text, size_t bytes)
{
	if (bytes > KY_SHORT_NAME_BYTES - 1 - *used)
		bytes = KY_SHORT_NAME_BYTES - 1 - *used;
	memcpy(out + *used, text, bytes);
	*used += bytes;
	out[*used] = '\0';
}

/* Both ends; never within a character. */
static void append_ends(char *out, size_t *used, struct part part, size_t columns)
{
	size_t left = columns > 3 ? (columns - 3) / 2 : 1,
	       right = columns > 4 ? columns - 3 - left : 1;
	size_t tail = part.bytes - right;

	while (left > 0 && ((uint8_t)part.text[left] & 0xc0) == 0x80)
		left--;
	while (tail < part.bytes && ((uint8_t)part.text[tail] & 0xc0) == 0x80)
		tail++;
	append(out, used, part.text, left);
	append(out, used, DOTS, 3);
	append(out, used, part.text + tail, part.bytes - tail);
}

/* The parts of a path, without those in brackets. Returns their number; 0: too many. */
static size_t split(struct part part, struct part *segments)
{
	size_t count = 0, start = 0;
	int depth = 0;

	for (size_t at = 0; at <= part.bytes; at++) {
		bool is_end = at == part.bytes;

		if (!is_end)
			depth += turn(part.text, at);
		if (!is_end && (depth != 0 || part.text[at] != ':' || at + 1 >= part.bytes ||
				part.text[at + 1] != ':'))
			continue;
		if (count == SEGMENTS_MAX)
			return 0;
		segments[count++] = (struct part){part.text + start, at - start};
		start = at + 2;
		at += !is_end;
	}
	return count;
}

static void fit(char *out, size_t *used, struct part part, size_t columns, uint32_t depth);

/* "name<what is inside>rest": what is inside gets the columns that the others leave. */
static void fit_inside(char *out, size_t *used, struct part part, size_t columns, uint32_t depth)
{
	const char *open = memchr(part.text, '<', part.bytes);
	size_t head = open ? (size_t)(open - part.text) + 1 : 0;
	size_t end = open ? closing(part, head - 1) : part.bytes;
	size_t others = head + (part.bytes - end);

	if (!open || end == part.bytes || depth == DEPTH_MAX || others + strlen(DOTS) > columns) {
		append_ends(out, used, part, columns);
		return;
	}
	append(out, used, part.text, head);
	if (others + INSIDE_COLUMNS_MIN > columns)
		append(out, used, DOTS, strlen(DOTS));
	else
		fit(out, used, (struct part){part.text + head, end - head}, columns - others,
		    depth + 1);
	append(out, used, part.text + end, part.bytes - end);
}

static void fit(char *out, size_t *used, struct part part, size_t columns, uint32_t depth)
{
	struct part segments[SEGMENTS_MAX];
	size_t count, first, last, tail;

	if (part.bytes <= columns) {
		append(out, used, part.text, part.bytes);
		return;
	}
	count = split(part, segments);
	first = count > 2 ? segments[0].bytes + 2 + 3 + 2 : 0;
	/* A closure is told from others by what it is of. */
	for (last = count ? count - 1 : 0; last > 1 && segments[last].text[0] == '{';)
		last--;
	for (size_t i = 2; first && i <= last; i++) {
		tail = (size_t)(part.text + part.bytes - segments[i].text);
		if (first + tail > columns && i < last)
			continue;
		if (first + INSIDE_COLUMNS_MIN > columns)
			break;
		append(out, used, segments[0].text, segments[0].bytes);
		append(out, used, "::" DOTS "::", 7);
		part = (struct part){segments[i].text, tail};
		columns -= first;
		break;
	}
	if (part.bytes <= columns)
		append(out, used, part.text, part.bytes);
	else
		fit_inside(out, used, part, columns, depth);
}

/* "A or B or one with the same code": where the next " or " stands outside of brackets. */
static size_t alternative(const char *text, size_t bytes)
{
	int depth = 0;

	for (size_t at = 0; at < bytes; at++) {
		depth += turn(text, at);
		if (depth == 0 && bytes - at > 4 && memcmp(text + at, " or ", 4) == 0)
			return at;
	}
	return bytes;
}

const char *ky_short_name(char out[KY_SHORT_NAME_BYTES], const char *name, uint32_t columns)
{
	size_t bytes = strlen(name), used = 0, count = 1, room;

	out[0] = '\0';
	for (size_t at = 0; (at += alternative(name + at, bytes - at)) < bytes; at += 4)
		count++;
	room = columns / (count < ALTERNATIVES_MAX ? count : ALTERNATIVES_MAX);
	if (count > 1 && room < ALTERNATIVE_COLUMNS_MIN)
		room = ALTERNATIVE_COLUMNS_MIN;
	for (size_t at = 0; at < bytes || at == 0;) {
		struct part part = {name + at, alternative(name + at, bytes - at)};
		size_t next = at + part.bytes + 4;

		for (uint32_t i = 0; columns != UINT32_MAX && i < WRAPPERS_MAX && unwrap(&part);
		     i++)
			;
		fit(out, &used, part, room, 0);
		if (next >= bytes)
			break;
		append(out, &used, " or ", 4);
		at = next;
	}
	return out;
}
