/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/quantity.h>

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS UINT64_C(1000000000)

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* strtoull(3) alone takes a sign and leading blanks. */
static int read_digits(const char **text, uint64_t *out)
{
	char *end;

	*out = 0;
	if (!is_digit(**text))
		return -EINVAL;
	errno = 0;
	*out = strtoull(*text, &end, 10);
	*text = end;
	return errno ? -ERANGE : 0;
}

int ky_quantity_number(const char *text, uint64_t *out)
{
	int err = read_digits(&text, out);

	return err ? err : *text ? -EINVAL : 0;
}

int ky_quantity_bytes(const char *text, uint64_t *out)
{
	static const char prefixes[] = "kmgt";
	int err = read_digits(&text, out);
	const char *unit;
	unsigned shift;

	if (err || !*text)
		return err;
	unit = strchr(prefixes, *text | 0x20);
	if (!unit || (text[1] && strcmp(text + 1, "iB") != 0))
		return -EINVAL;
	shift = 10u * (unsigned)(unit - prefixes + 1);
	if (*out > UINT64_MAX >> shift)
		return -ERANGE;
	*out <<= shift;
	return 0;
}

void ky_quantity_fraction(const char **text, uint64_t *out, uint64_t *scale)
{
	*out = 0;
	for (*scale = 1; is_digit(**text); (*text)++) {
		if (*scale == SECOND_NS)
			continue;
		*out = *out * 10 + (uint64_t)(**text - '0');
		*scale *= 10;
	}
}

static const struct {
	const char *name;
	uint64_t ns;
} units[] = {
	{"ns", 1},        {"us", 1000},          {"ms", 1000000},
	{"s", SECOND_NS}, {"m", 60 * SECOND_NS}, {"h", 3600 * SECOND_NS},
};
#define UNIT_COUNT (sizeof(units) / sizeof(units[0]))
#define SECONDS 3u /* of units: from here on decimals are not exact */

int ky_quantity_ns(const char *text, uint64_t *out)
{
	uint64_t part = 0, scale = 1, whole;
	int err = read_digits(&text, &whole);

	*out = 0;
	if (err)
		return err;
	if (*text == '.') {
		text++;
		ky_quantity_fraction(&text, &part, &scale);
	}
	if (!*text && !whole && !part)
		return 0;
	for (size_t i = 0; i < UNIT_COUNT; i++) {
		if (strcmp(text, units[i].name) != 0)
			continue;
		if (whole > UINT64_MAX / units[i].ns - 1)
			return -ERANGE;
		/* part / scale < 1 and unit <= 3.6e12: in two steps nothing overflows. */
		*out = whole * units[i].ns + units[i].ns / scale * part +
		       units[i].ns % scale * part / scale;
		return 0;
	}
	return -EINVAL;
}

bool ky_quantity_in(ky_quantity_fn read, const char *text, uint64_t least, uint64_t most,
		    uint64_t *out)
{
	return read(text, out) == 0 && *out >= least && *out <= most;
}

bool ky_quantity_or_off(ky_quantity_fn read, const char *text, uint64_t least, uint64_t most,
			uint64_t *out)
{
	*out = 0;
	return strcmp(text, "off") == 0 || ky_quantity_in(read, text, least, most, out);
}

const char *ky_quantity_ns_text(char *text, uint64_t ns)
{
	size_t unit = UNIT_COUNT - 1;
	int used, digits = 0;
	uint64_t part;

	/* Minutes and hours only whole; of the others the largest that it reaches. */
	while (unit > 0 && (ns < units[unit].ns || (unit > SECONDS && ns % units[unit].ns != 0)))
		unit--;
	used = snprintf(text, KY_QUANTITY_TEXT_BYTES, "%" PRIu64, ns / units[unit].ns);
	part = ns % units[unit].ns;
	for (uint64_t scale = units[unit].ns; scale > 1; scale /= 10)
		digits++;
	for (; part != 0 && part % 10 == 0; part /= 10)
		digits--;
	if (part != 0)
		used += snprintf(text + used, KY_QUANTITY_TEXT_BYTES - (size_t)used, ".%0*" PRIu64,
				 digits, part);
	(void)snprintf(text + used, KY_QUANTITY_TEXT_BYTES - (size_t)used, "%s", units[unit].name);
	return text;
}

const char *ky_quantity_bytes_text(char *text, uint64_t bytes)
{
	static const char *const prefixes[] = {"", "K", "M", "G", "T"};
	size_t prefix = 0;

	for (; bytes != 0 && bytes % 1024 == 0 && prefix < 4; bytes /= 1024)
		prefix++;
	(void)snprintf(text, KY_QUANTITY_TEXT_BYTES, "%" PRIu64 "%s", bytes, prefixes[prefix]);
	return text;
}
