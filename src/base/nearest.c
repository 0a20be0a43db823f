/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/nearest.h>

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define NAME_BYTES_MAX 64u

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static char fold(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (char)(c | 0x20);
	return c;
}

/* Levenshtein, one row at a time. Both shorter than NAME_BYTES_MAX. */
static size_t distance(const char *a, const char *b)
{
	size_t row[NAME_BYTES_MAX];
	size_t b_count = strlen(b);

	for (size_t j = 0; j <= b_count; j++)
		row[j] = j;
	for (size_t i = 0; a[i]; i++) {
		size_t diagonal = row[0];

		row[0] = i + 1;
		for (size_t j = 0; j < b_count; j++) {
			size_t changed = diagonal + (fold(a[i]) != fold(b[j]));

			diagonal = row[j + 1];
			row[j + 1] = least(changed, least(row[j], row[j + 1]) + 1);
		}
	}
	return row[b_count];
}

const char *ky_nearest(const char *typed, const char *const *candidates, size_t count)
{
	const char *nearest = NULL;
	size_t typed_count = strlen(typed);
	size_t smallest = typed_count / 3 + 1;

	if (typed_count >= NAME_BYTES_MAX)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		size_t candidate_count = strlen(candidates[i]);
		size_t apart;

		if (candidate_count >= NAME_BYTES_MAX)
			continue;
		/* "poll" is meant for PollStartEvent though it is far from it. */
		if (typed_count >= 3 && candidate_count > typed_count && !nearest &&
		    strncasecmp(candidates[i], typed, typed_count) == 0)
			nearest = candidates[i];
		apart = distance(typed, candidates[i]);
		if (apart <= smallest && apart < typed_count) {
			smallest = apart ? apart - 1 : 0;
			nearest = candidates[i];
		}
	}
	return nearest;
}
