/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <serve/http_check.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HTTP_PORT 80u

bool ky_http_token_is(const char *given, const char *token, size_t token_bytes)
{
	volatile uint8_t differs = 0;

	if (strnlen(given, token_bytes) < token_bytes)
		return false;
	for (size_t i = 0; i < token_bytes; i++)
		differs = (uint8_t)(differs | (given[i] ^ token[i]));
	return differs == 0;
}

/* ---- addresses ---- */

/* One of either family; v4 as the mapped v6. */
static bool read_address(const char *text, struct in6_addr *out)
{
	struct in_addr v4;

	if (inet_pton(AF_INET6, text, out) == 1)
		return true;
	if (inet_pton(AF_INET, text, &v4) != 1)
		return false;
	memset(out, 0, sizeof(*out));
	out->s6_addr[10] = out->s6_addr[11] = 0xff;
	memcpy(&out->s6_addr[12], &v4, sizeof(v4));
	return true;
}

static bool is_any(const struct in6_addr *address)
{
	static const struct in6_addr v4 = {.s6_addr = {[10] = 0xff, [11] = 0xff}};

	return IN6_IS_ADDR_UNSPECIFIED(address) || memcmp(address, &v4, sizeof(v4)) == 0;
}

static bool is_loopback(const struct in6_addr *address)
{
	return IN6_IS_ADDR_LOOPBACK(address) ||
	       (IN6_IS_ADDR_V4MAPPED(address) && address->s6_addr[12] == 127);
}

bool ky_http_is_loopback(const char *bound)
{
	struct in6_addr address;

	return read_address(bound, &address) && is_loopback(&address);
}

/* A port in decimal digits alone; 0: it is none. */
static uint32_t read_port(const char *text)
{
	uint32_t port = 0;
	size_t digits = strspn(text, "0123456789");

	if (!digits || digits > 5 || text[digits])
		return 0;
	for (size_t i = 0; i < digits; i++)
		port = port * 10 + (uint32_t)(text[i] - '0');
	return port <= UINT16_MAX ? port : 0;
}

/* Cuts "NAME[:PORT]" or "[V6][:PORT]". */
static bool cut_host(const char *host, char *name, size_t name_bytes, uint32_t *port)
{
	bool has_bracket = host[0] == '[';
	const char *begin = host + has_bracket;
	size_t bytes = strcspn(begin, has_bracket ? "]" : ":");
	const char *rest = begin + bytes;

	if (!bytes || bytes >= name_bytes || (has_bracket && *rest != ']'))
		return false;
	rest += has_bracket;
	if (*rest && *rest != ':')
		return false;
	memcpy(name, begin, bytes);
	name[bytes] = '\0';
	*port = *rest ? read_port(rest + 1) : HTTP_PORT;
	return *port != 0;
}

bool ky_http_host_is_ours(const char *host, const char *bound, uint16_t port)
{
	struct in6_addr ours, theirs;
	char name[INET6_ADDRSTRLEN];
	uint32_t given;

	if (!read_address(bound, &ours) || !cut_host(host, name, sizeof(name), &given) ||
	    given != port)
		return false;
	if (strcasecmp(name, "localhost") == 0)
		return is_loopback(&ours) || is_any(&ours);
	if (!read_address(name, &theirs))
		return false;
	return is_any(&ours) || memcmp(&ours, &theirs, sizeof(ours)) == 0;
}

bool ky_http_origin_is_ours(const char *origin, const char *bound, uint16_t port)
{
	static const char scheme[] = "http://";

	return strncmp(origin, scheme, sizeof(scheme) - 1) == 0 &&
	       ky_http_host_is_ours(origin + sizeof(scheme) - 1, bound, port);
}

/* ---- ranges and tags ---- */

/* Digits up to something else; false: none, or too large a number. */
static bool read_number(const char **at, uint64_t *out)
{
	const char *begin = *at;

	*out = 0;
	for (; **at >= '0' && **at <= '9'; (*at)++) {
		uint64_t digit = (uint64_t)(**at - '0');

		if (*out > (UINT64_MAX - digit) / 10)
			return false;
		*out = *out * 10 + digit;
	}
	return *at != begin;
}

enum ky_http_range ky_http_range(const char *text, uint64_t size, uint64_t *from, uint64_t *count)
{
	static const char unit[] = "bytes=";
	uint64_t first = 0, last = 0;
	bool has_first, has_last;
	const char *at;

	*from = 0;
	*count = size;
	if (!text || strncmp(text, unit, sizeof(unit) - 1) != 0)
		return KY_HTTP_WHOLE;
	at = text + sizeof(unit) - 1;
	has_first = read_number(&at, &first);
	if (*at++ != '-')
		return KY_HTTP_WHOLE;
	has_last = read_number(&at, &last);
	if (*at || (!has_first && !has_last) || (has_first && has_last && last < first))
		return KY_HTTP_WHOLE;
	if (!has_first) { /* so many at the end */
		first = last < size ? size - last : 0;
		has_last = last == 0;
		last = 0;
		if (has_last)
			return KY_HTTP_NO_PART;
	}
	if (first >= size)
		return KY_HTTP_NO_PART;
	*from = first;
	*count = has_last && last < size ? last - first + 1 : size - first;
	return KY_HTTP_PART;
}

bool ky_http_etag_is_in(const char *list, const char *etag)
{
	size_t bytes = strlen(etag);

	while (*list) {
		size_t one;

		list += strspn(list, ", \t");
		if (list[0] == '*' && !list[1])
			return true;
		if (strncmp(list, "W/", 2) == 0)
			list += 2;
		one = strcspn(list, ", \t");
		if (one == bytes && memcmp(list, etag, bytes) == 0)
			return true;
		list += one;
	}
	return false;
}
