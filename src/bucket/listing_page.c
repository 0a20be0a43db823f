/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <bucket/listing_page.h>

#include <base/hex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct span {
	const char *at;
	size_t bytes;
};

/* What lies between <tag> and </tag>, the first in `in`; *rest: what follows. False: none. */
static bool find_element(struct span in, const char *tag, struct span *out, struct span *rest)
{
	char begin[40], end[40];
	size_t tag_bytes = strlen(tag);
	const char *from, *to;

	(void)snprintf(begin, sizeof(begin), "<%s>", tag);
	(void)snprintf(end, sizeof(end), "</%s>", tag);
	from = memmem(in.at, in.bytes, begin, tag_bytes + 2);
	if (!from)
		return false;
	from += tag_bytes + 2;
	to = memmem(from, in.bytes - (size_t)(from - in.at), end, tag_bytes + 3);
	if (!to)
		return false;
	*out = (struct span){from, (size_t)(to - from)};
	to += tag_bytes + 3;
	if (rest)
		*rest = (struct span){to, in.bytes - (size_t)(to - in.at)};
	return true;
}

/* ---- text ---- */

/* After an '&'. Returns the bytes of the entity, 0: it is none; *out: its bytes in UTF-8. */
static size_t read_entity(struct span text, char out[4], size_t *out_bytes)
{
	static const struct {
		const char *name;
		char byte;
	} known[] = {{"amp;", '&'}, {"lt;", '<'}, {"gt;", '>'}, {"quot;", '"'}, {"apos;", '\''}};
	unsigned long code;
	size_t prefix, at;
	char number[12];

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		size_t bytes = strlen(known[i].name);

		if (text.bytes >= bytes && memcmp(text.at, known[i].name, bytes) == 0) {
			out[0] = known[i].byte;
			*out_bytes = 1;
			return bytes;
		}
	}
	if (text.bytes < 3 || text.at[0] != '#')
		return 0;
	prefix = text.at[1] == 'x' ? 2 : 1;
	for (at = 0; at + 1 < sizeof(number) && prefix + at < text.bytes; at++) {
		number[at] = text.at[prefix + at];
		if (number[at] == ';')
			break;
	}
	if (at == 0 || prefix + at >= text.bytes || text.at[prefix + at] != ';' ||
	    strspn(number, prefix == 2 ? "0123456789abcdefABCDEF" : "0123456789") != at)
		return 0;
	number[at] = '\0';
	code = strtoul(number, NULL, prefix == 2 ? 16 : 10);
	if (code == 0 || code > 0x10ffff)
		return 0;
	*out_bytes = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
	for (size_t i = *out_bytes; i-- > 1; code >>= 6)
		out[i] = (char)(0x80 | (code & 0x3f));
	out[0] = (char)(*out_bytes == 1 ? code : (0xf0 << (4 - *out_bytes) & 0xf0) | code);
	return prefix + at + 1;
}

/* In place. False: it holds a zero or a broken %XX. */
static bool undo_percent(char *text)
{
	const char *end = text + strlen(text);
	char *to = text;

	for (const char *from = text; *from; from++, to++) {
		int byte = *from == '%' ? ky_hex_percent(from, end) : *from == '+' ? ' ' : *from;

		if (*from == '%') {
			if (byte <= 0)
				return false;
			from += 2;
		}
		*to = (char)byte;
	}
	*to = '\0';
	return true;
}

/* False: it does not fit, or is no text. */
static bool copy_text(struct span text, bool is_percent, char *out, size_t out_bytes)
{
	size_t used = 0;

	while (text.bytes) {
		char bytes[4] = {text.at[0]};
		size_t count = 1, taken = 1;

		if (bytes[0] == '\0')
			return false;
		if (bytes[0] == '&') {
			taken = 1 + read_entity((struct span){text.at + 1, text.bytes - 1}, bytes,
						&count);
			if (taken == 1)
				return false;
		}
		if (used + count >= out_bytes)
			return false;
		memcpy(out + used, bytes, count);
		used += count;
		text.at += taken;
		text.bytes -= taken;
	}
	out[used] = '\0';
	return !is_percent || undo_percent(out);
}

/* ---- the page ---- */

static bool read_entry(struct ky_listing_page *page, struct span content, bool is_percent)
{
	struct ky_list_entry *entry = &page->entry;
	char size[24], *key = page->encoded, *end;
	struct span text;

	if (!find_element(content, "Key", &text, NULL) ||
	    !copy_text(text, is_percent, key, sizeof(page->encoded)) ||
	    strlen(key) >= sizeof(entry->key) || !find_element(content, "Size", &text, NULL) ||
	    !copy_text(text, false, size, sizeof(size)) || size[0] < '0' || size[0] > '9')
		return false;
	memcpy(entry->key, key, strlen(key) + 1);
	entry->bytes = strtoull(size, &end, 10);
	if (*end)
		return false;
	if (!find_element(content, "ETag", &text, NULL) ||
	    !copy_text(text, false, entry->etag, sizeof(entry->etag)) ||
	    strpbrk(entry->etag, "\r\n"))
		entry->etag[0] = '\0';
	return true;
}

static int read_objects(struct ky_listing_page *page, struct span rest, bool is_percent)
{
	struct span content;
	int result = 0;

	while (!result && find_element(rest, "Contents", &content, &rest)) {
		if (!read_entry(page, content, is_percent))
			page->odd_count++;
		else if (page->object)
			result = page->object(page->ctx, &page->entry);
	}
	return result;
}

static int read_prefixes(struct ky_listing_page *page, struct span rest, bool is_percent)
{
	struct span content, text;
	char *prefix = page->encoded;
	int result = 0;

	while (!result && find_element(rest, "CommonPrefixes", &content, &rest)) {
		if (!find_element(content, "Prefix", &text, NULL) ||
		    !copy_text(text, is_percent, prefix, sizeof(page->encoded)) ||
		    strlen(prefix) >= KY_LIST_KEY_BYTES)
			page->odd_count++;
		else if (page->prefix)
			result = page->prefix(page->ctx, prefix);
	}
	return result;
}

int ky_listing_page_read(struct ky_listing_page *page, const uint8_t *bytes, size_t count)
{
	struct span all = {(const char *)bytes, count}, text;
	bool is_percent;
	int result;

	page->is_list = memmem(bytes, count, "<ListBucketResult", 17) != NULL;
	page->is_more = false;
	page->token[0] = '\0';
	page->odd_count = 0;
	if (!page->is_list)
		return 0;
	is_percent = find_element(all, "EncodingType", &text, NULL) && text.bytes == 3 &&
		     memcmp(text.at, "url", 3) == 0;
	page->is_more = find_element(all, "IsTruncated", &text, NULL) && text.bytes == 4 &&
			memcmp(text.at, "true", 4) == 0;
	if (find_element(all, "NextContinuationToken", &text, NULL) &&
	    !copy_text(text, false, page->token, sizeof(page->token)))
		page->token[0] = '\0';
	result = read_objects(page, all, is_percent);
	return result ? result : read_prefixes(page, all, is_percent);
}
