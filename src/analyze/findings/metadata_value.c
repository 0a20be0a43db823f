/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/findings/metadata_value.h>

#include <string.h>

uint64_t ky_metadata_number(const struct ky_trace *trace, const char *key)
{
	const char *text = ky_trace_metadata(trace, key);
	uint64_t number = 0;

	for (; text && *text >= '0' && *text <= '9' && number < UINT64_MAX / 20; text++)
		number = number * 10 + (uint64_t)(*text - '0');
	return number;
}

bool ky_metadata_has_word(const struct ky_trace *trace, const char *key, const char *word)
{
	const char *text = ky_trace_metadata(trace, key);
	size_t bytes = strlen(word);

	while (text && *text) {
		if (strncmp(text, word, bytes) == 0 && (!text[bytes] || text[bytes] == ','))
			return true;
		while (*text && *text != ',')
			text++;
		text += *text == ',';
	}
	return false;
}
