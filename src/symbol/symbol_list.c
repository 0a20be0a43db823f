/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/alloc.h>
#include <errno.h>
#include <kymo/base.h>
#include <symbol/symbol_list.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES_MAX 512u
#define NAMES_BYTES_MAX (256u << 20)
/* Symbols without a size end where the next one begins; the last one ends somewhere. */
#define LAST_BYTES 4096u
#define NAME_ROOM 64u

/* From one wanted address, without it, to the next one: of the symbols that begin there the last
 * covers the next, and the first ends what covers the one before. */
struct ky_symbol_gap {
	uint64_t wanted; /* the last gap: UINT64_MAX, for what begins after all of them */
	uint64_t first, last;
	uint32_t name, name_bytes, room;
	bool has_any;
};

void ky_symbol_list_init(struct ky_symbol_list *list)
{
	memset(list, 0, sizeof(*list));
	ky_buf_init(&list->names, NAMES_BYTES_MAX);
}

void ky_symbol_list_release(struct ky_symbol_list *list)
{
	ky_free(list->symbols);
	ky_free(list->gaps);
	ky_buf_release(&list->names);
	memset(list, 0, sizeof(*list));
}

static int add(struct ky_symbol_list *list, uint64_t address, uint64_t byte_count, const char *name,
	       size_t name_bytes)
{
	int err;

	if (list->count == KY_SYMBOL_LIST_MAX)
		return 0;
	if (ky_grow(&list->symbols, &list->capacity, list->count + 1, sizeof(*list->symbols)))
		return -ENOMEM;
	if (name_bytes > NAME_BYTES_MAX)
		name_bytes = NAME_BYTES_MAX;
	err = ky_buf_append(&list->names, name, name_bytes);
	if (err == KYMO_E_LIMIT) {
		list->names.failed = 0;
		return 0;
	}
	if (err)
		return err;
	list->symbols[list->count++] = (struct ky_listed_symbol){
		.address = address,
		.byte_count = byte_count,
		.name = (uint32_t)(list->names.used - name_bytes),
		.name_bytes = (uint32_t)name_bytes,
	};
	return 0;
}

int ky_symbol_list_want(struct ky_symbol_list *list, const uint64_t *addresses, uint32_t count)
{
	if (count >= KY_SYMBOL_LIST_MAX)
		return 0; /* as many as there can be: all are kept */
	list->gaps = ky_alloc(((size_t)count + 1) * sizeof(*list->gaps));
	if (!list->gaps)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		list->gaps[i].wanted = addresses[i];
	list->gaps[count].wanted = UINT64_MAX;
	list->gap_count = count + 1;
	return 0;
}

static struct ky_symbol_gap *gap_of(const struct ky_symbol_list *list, uint64_t address)
{
	uint32_t low = 0, high = list->gap_count - 1;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (list->gaps[middle].wanted < address)
			low = middle + 1;
		else
			high = middle;
	}
	return &list->gaps[low];
}

/* Symbols come nearly in order, so nearly each one replaces the one before: its name goes where
 * that one's was, if there is room. */
static int put_name(struct ky_symbol_list *list, struct ky_symbol_gap *gap, const char *name,
		    size_t name_bytes)
{
	if (name_bytes > gap->room) {
		uint32_t room = gap->room ? gap->room : NAME_ROOM;
		int err;

		while (room < name_bytes)
			room *= 2;
		err = ky_buf_reserve(&list->names, room);
		if (err)
			return err;
		gap->name = (uint32_t)list->names.used;
		gap->room = room;
		list->names.used += room;
	}
	memcpy(list->names.bytes + gap->name, name, name_bytes);
	gap->name_bytes = (uint32_t)name_bytes;
	return 0;
}

static int add_wanted(struct ky_symbol_list *list, uint64_t address, const char *name,
		      size_t name_bytes)
{
	struct ky_symbol_gap *gap = gap_of(list, address);
	int err;

	if (!gap->has_any || address < gap->first)
		gap->first = address;
	if (gap->has_any && address < gap->last) /* of equal ones the last to come counts */
		return 0;
	err = put_name(list, gap, name, name_bytes < NAME_BYTES_MAX ? name_bytes : NAME_BYTES_MAX);
	if (err == KYMO_E_LIMIT) {
		list->names.failed = 0;
		return 0;
	}
	gap->last = address;
	gap->has_any = true;
	return err;
}

/* Hexadecimal digits with or without 0x, then one blank. Returns after it, NULL: none. */
static const char *take_hex(const char *at, const char *end, uint64_t *out)
{
	uint64_t number = 0;
	int digits = 0;

	if (end - at > 2 && at[0] == '0' && (at[1] == 'x' || at[1] == 'X'))
		at += 2;
	for (; at < end && digits < 17; at++, digits++) {
		unsigned char byte = (unsigned char)*at;

		if (byte >= '0' && byte <= '9')
			number = number << 4 | (byte - (unsigned)'0');
		else if ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'f')
			number = number << 4 | ((byte | 0x20u) - 'a' + 10u);
		else
			break;
	}
	if (digits == 0 || digits > 16 || at == end || *at != ' ')
		return NULL;
	*out = number;
	return at + 1;
}

static const char *line_end(const char *at, const char *end)
{
	const char *found = memchr(at, '\n', (size_t)(end - at));

	return found ? found : end;
}

static int kernel_line(struct ky_symbol_list *list, const char *at, const char *end, bool *has_any)
{
	const char *name_end;
	uint64_t address;

	at = take_hex(at, end, &address);
	if (!at || end - at < 3 || at[1] != ' ')
		return 0;
	*has_any = true;
	if (address == 0 || !strchr("tTwW", at[0]))
		return 0;
	at += 2;
	name_end = at;
	while (name_end < end && *name_end != '\t' && *name_end != ' ')
		name_end++;
	if (name_end == at)
		return 0;
	list->has_code = true;
	return list->gaps ? add_wanted(list, address, at, (size_t)(name_end - at)) :
			    add(list, address, 0, at, (size_t)(name_end - at));
}

int ky_symbol_list_kallsyms(struct ky_symbol_list *list, const char *text, size_t byte_count)
{
	const char *end = text + byte_count;
	bool has_any = false;
	int err = 0;

	while (text < end && !err) {
		const char *stop = line_end(text, end);

		err = kernel_line(list, text, stop, &has_any);
		text = stop + 1;
	}
	list->is_hidden = (list->is_hidden || has_any) && !list->has_code;
	return err;
}

int ky_symbol_list_perf_map(struct ky_symbol_list *list, const char *text, size_t byte_count)
{
	const char *end = text + byte_count;
	int err = 0;

	while (text < end && !err) {
		const char *stop = line_end(text, end);
		uint64_t address, bytes;
		const char *at = take_hex(text, stop, &address);

		at = at ? take_hex(at, stop, &bytes) : NULL;
		if (at && at < stop && bytes > 0 && bytes <= UINT64_MAX - address)
			err = add(list, address, bytes, at, (size_t)(stop - at));
		text = stop + 1;
	}
	return err;
}

static int compare(const void *a, const void *b)
{
	const struct ky_listed_symbol *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name; /* as they came */
}

/* The gaps become the list: each with the size that it has among all symbols. */
static void finish_wanted(struct ky_symbol_list *list)
{
	uint64_t next = 0;
	uint32_t kept = 0;

	list->symbols = ky_alloc(list->gap_count * sizeof(*list->symbols));
	list->capacity = list->symbols ? list->gap_count : 0;
	list->count = 0;
	for (uint32_t i = 0; i < list->capacity; i++)
		kept += list->gaps[i].has_any;
	list->count = kept;
	for (uint32_t i = list->capacity; i-- > 0;) {
		const struct ky_symbol_gap *gap = &list->gaps[i];

		if (!gap->has_any)
			continue;
		list->symbols[--kept] = (struct ky_listed_symbol){
			.address = gap->last,
			.byte_count = next ? next - gap->last : LAST_BYTES,
			.name = gap->name,
			.name_bytes = gap->name_bytes,
		};
		next = gap->first;
	}
	ky_free(list->gaps);
	list->gaps = NULL;
	list->gap_count = 0;
}

void ky_symbol_list_finish(struct ky_symbol_list *list)
{
	if (list->gaps) {
		finish_wanted(list);
		return;
	}
	if (list->count > 1)
		qsort(list->symbols, list->count, sizeof(*list->symbols), compare);
	for (uint32_t i = 0; i < list->count; i++) {
		struct ky_listed_symbol *symbol = &list->symbols[i];
		uint64_t room = i + 1 < list->count ? symbol[1].address - symbol->address :
						      LAST_BYTES;

		/* Equal addresses are aliases, or code that was compiled again: both keep a size,
		 * and a search finds the last. */
		if (symbol->byte_count == 0 ||
		    (i + 1 < list->count && room > 0 && symbol->byte_count > room))
			symbol->byte_count = room;
	}
}

const struct ky_listed_symbol *ky_symbol_list_find(const struct ky_symbol_list *list,
						   uint64_t address, const char **name)
{
	uint32_t low = 0, high = list->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (list->symbols[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return NULL;
	low--;
	/* Aliases without a size of their own: the last of them has it. */
	if (address - list->symbols[low].address >= list->symbols[low].byte_count)
		return NULL;
	*name = (const char *)list->names.bytes + list->symbols[low].name;
	return &list->symbols[low];
}
