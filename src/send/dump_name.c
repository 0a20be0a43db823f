/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <send/dump_name.h>

#include <inttypes.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECONDS_BITS 24
#define COUNT_BITS 6

/* The last part between dashes: *end moves to its dash. */
static const char *part_before(const char *name, const char **end)
{
	const char *at = *end;

	while (at > name && at[-1] != '-')
		at--;
	if (at == name)
		return NULL;
	*end = at - 1;
	return at;
}

static bool read_number(const char *at, const char *end, uint32_t *out)
{
	char *stop;
	unsigned long value;

	if (!at || at == end || *at < '0' || *at > '9')
		return false;
	value = strtoul(at, &stop, 10);
	*out = (uint32_t)value;
	return stop == end && value <= UINT32_MAX;
}

static bool read_time(const char *at, const char *end, uint64_t *unix_ns)
{
	struct tm parts = {.tm_isdst = 0};
	char shape[] = "00000000T000000Z";
	time_t seconds;

	if (!at || end - at != (ptrdiff_t)sizeof(shape) - 1)
		return false;
	for (size_t i = 0; shape[i]; i++)
		if (shape[i] == '0' ? at[i] < '0' || at[i] > '9' : at[i] != shape[i])
			return false;
	/* Each is of digits, and of four at most. NOLINTNEXTLINE(cert-err34-c) */
	if (sscanf(at, "%4d%2d%2dT%2d%2d%2dZ", &parts.tm_year, &parts.tm_mon, &parts.tm_mday,
		   &parts.tm_hour, &parts.tm_min, &parts.tm_sec) != 6)
		return false;
	parts.tm_year -= 1900;
	parts.tm_mon--;
	seconds = timegm(&parts);
	*unix_ns = (uint64_t)seconds * 1000000000u;
	return seconds > 0;
}

const char *ky_dump_name_ending(const char *name)
{
	const char *found = strstr(name, ".trc"), *next;

	while (found && (next = strstr(found + 1, ".trc")))
		found = next;
	return found;
}

bool ky_dump_name_parse(struct ky_dump_name *out, const char *name)
{
	const char *ending = ky_dump_name_ending(name), *next, *end;

	if (!ending || (strcmp(ending, ".trc") != 0 && strcmp(ending, ".trc.zst") != 0 &&
			strcmp(ending, ".trc.gz") != 0))
		return false;
	end = next = ending;
	if (read_number(part_before(name, &next), end, &out->n))
		end = next;
	else
		out->n = 0;
	next = end;
	if (!read_time(part_before(name, &next), end, &out->unix_ns))
		return false;
	end = next;
	if (!read_number(part_before(name, &next), end, &out->pid) || next == name ||
	    (size_t)(next - name) >= sizeof(out->service))
		return false;
	snprintf(out->service, sizeof(out->service), "%.*s", (int)(next - name), name);
	return true;
}

uint64_t ky_dump_name_number(const struct ky_dump_name *name)
{
	uint64_t seconds = name->unix_ns / 1000000000u & ((1u << SECONDS_BITS) - 1);

	return KY_DUMP_NUMBERS_FROM | seconds << COUNT_BITS | (name->n & ((1u << COUNT_BITS) - 1));
}

void ky_dump_id_make(char out[KY_DUMP_ID_BYTES], const struct ky_dump_name *name,
		     const char *process)
{
	static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
	uint8_t hash[SHA256_DIGEST_SIZE], all[16];
	uint64_t time_ms = name->unix_ns / 1000000u;
	struct sha256_ctx sha;
	char text[160];
	int count = snprintf(text, sizeof(text), "%s %" PRIu64 " %u", process, name->unix_ns,
			     name->n);

	sha256_init(&sha);
	sha256_update(&sha, (size_t)count < sizeof(text) ? (size_t)count : sizeof(text) - 1,
		      (const uint8_t *)text);
	sha256_digest(&sha, sizeof(hash), hash);
	for (uint32_t i = 0; i < 6; i++)
		all[i] = (uint8_t)(time_ms >> (40 - 8 * i));
	memcpy(all + 6, hash, 10);
	/* 128 bits in 26 digits of five: the first has three. */
	for (uint32_t i = 0; i < KY_DUMP_ID_BYTES - 1; i++) {
		uint32_t value = 0;

		for (uint32_t bit = 0; bit < 5; bit++) {
			uint32_t at = 5 * i + bit;

			value <<= 1;
			if (at >= 2)
				value |= all[(at - 2) / 8] >> (7 - (at - 2) % 8) & 1u;
		}
		out[i] = digits[value];
	}
	out[KY_DUMP_ID_BYTES - 1] = '\0';
}
