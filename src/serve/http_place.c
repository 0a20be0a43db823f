/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <serve/http_place.h>

#include <string.h>
#include <strings.h>

enum ky_http_what ky_http_what(const char *path, const char **rest)
{
	static const struct {
		const char *text;
		enum ky_http_what what;
		bool has_rest;
	} places[] = {
		{"", KY_HTTP_LIST, false},
		{"view.html", KY_HTTP_VIEWER, false},
		{"list.css", KY_HTTP_STYLE, false},
		{"api/traces", KY_HTTP_LIST_JSON, false},
		{"api/traces/", KY_HTTP_FACTS, true},
		{"api/map/", KY_HTTP_MAP, true},
		{"part/", KY_HTTP_MAP_PART, true},
		{"trace/", KY_HTTP_TRACE, true},
	};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		size_t bytes = strlen(places[i].text);

		if (strncmp(path, places[i].text, bytes) != 0 ||
		    (places[i].has_rest ? !path[bytes] : path[bytes]))
			continue;
		*rest = path + bytes;
		return places[i].what;
	}
	*rest = "";
	return KY_HTTP_NOTHING;
}

int ky_http_next_id(const char **list, char id[KY_HTTP_ID_BYTES])
{
	const char *at = *list;

	if (!*at)
		return 0;
	if (strspn(at, "0123456789abcdef") != KY_HTTP_ID_BYTES - 1)
		return -1;
	memcpy(id, at, KY_HTTP_ID_BYTES - 1);
	id[KY_HTTP_ID_BYTES - 1] = '\0';
	at += KY_HTTP_ID_BYTES - 1;
	if (*at && (*at != ',' || !at[1]))
		return -1;
	*list = at + (*at == ',');
	return 1;
}

bool ky_http_number(const char *text, uint64_t most, uint64_t *out)
{
	uint64_t number = 0;

	if (!text)
		return true;
	if (!*text)
		return false;
	for (; *text; text++) {
		uint64_t digit = (uint64_t)(*text - '0');

		if (*text < '0' || *text > '9' || number > (most - digit) / 10 || digit > most)
			return false;
		number = number * 10 + digit;
	}
	*out = number;
	return true;
}

/* "q=0", "q=0.0": not wanted. */
static bool is_refused(const char *text, size_t bytes)
{
	const char *end = text + bytes;

	for (; text < end && *text != '='; text++)
		if (!strchr("; \tqQ", *text))
			return false; /* some other parameter */
	for (text += text < end; text < end; text++)
		if (!strchr("0. \t", *text))
			return false;
	return bytes != 0;
}

bool ky_http_accepts(const char *header, const char *coding)
{
	size_t bytes = strlen(coding);

	while (header && *header) {
		size_t one;

		header += strspn(header, ", \t");
		one = strcspn(header, ",");
		if (one >= bytes && strncasecmp(header, coding, bytes) == 0 &&
		    (one == bytes || strchr("; \t", header[bytes])))
			return !is_refused(header + bytes, one - bytes);
		header += one;
	}
	return false;
}
