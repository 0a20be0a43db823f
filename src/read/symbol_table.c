/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/alloc.h>
#include <base/hash.h>
#include <errno.h>
#include <kymo/base.h>
#include <read/names.h>
#include <read/symbol_table.h>
#include <string.h>

#define NONE UINT32_MAX
#define FROM_TRACE (UINT64_C(1) << 63)
#define HEX_BYTES 19u

/* An entry of the trace; those of one address are chained in the order of the file. */
struct symbol_entry {
	uint64_t address, code_bytes, from_ns, to_ns, line;
	uint32_t name, file, depth;
	uint32_t next;
};

/* What was found for an address in one module, or in one set of entries. */
struct found_symbol {
	uint64_t address, variant;
	uint32_t first, count; /* of frames; count 0: empty slot */
};

struct chain {
	uint64_t address;
	uint32_t first, last; /* entries; NONE: empty slot */
	uint32_t count;
};

struct ky_symbol_table {
	struct ky_pages pages;
	struct ky_names names;
	struct ky_code_map map;
	struct ky_symbol_source source;
	bool has_source;
	struct symbol_entry *entries;
	uint32_t entry_count, entry_capacity;
	struct chain *chains;
	uint32_t chain_count, chain_slots; /* a power of two */
	struct found_symbol *found;
	uint32_t found_count, found_slots;
	struct ky_symbol_frame *frames;
	uint32_t frame_count, frame_capacity;
	/* of the lookup that runs */
	struct ky_symbol_frame scratch[KY_SYMBOL_ROWS_MAX];
	uint32_t scratch_count;
	uint64_t bias; /* what makes addresses of a place absolute */
	char last_text[KY_SYMBOL_ROWS_MAX];
};

void ky_symbol_table_close(struct ky_symbol_table *table)
{
	if (!table)
		return;
	ky_names_release(&table->names);
	ky_code_map_release(&table->map);
	ky_pages_free(&table->pages, table->entries,
		      table->entry_capacity * sizeof(*table->entries));
	ky_pages_free(&table->pages, table->chains, table->chain_slots * sizeof(*table->chains));
	ky_pages_free(&table->pages, table->found, table->found_slots * sizeof(*table->found));
	ky_pages_free(&table->pages, table->frames, table->frame_capacity * sizeof(*table->frames));
	ky_pages_release(&table->pages);
	ky_free(table);
}

void ky_symbol_table_source(struct ky_symbol_table *table, const struct ky_symbol_source *source)
{
	table->has_source = source != NULL;
	if (source)
		table->source = *source;
}

struct ky_code_map *ky_symbol_table_map(struct ky_symbol_table *table)
{
	return &table->map;
}

/* ---- the trace's own entries ---- */

static struct chain *chain_slot(const struct ky_symbol_table *table, uint64_t address)
{
	uint64_t at = ky_hash_number(address);

	for (;; at++) {
		struct chain *chain = &table->chains[at & (table->chain_slots - 1)];

		if (!chain->count || chain->address == address)
			return chain;
	}
}

static bool grow_chains(struct ky_symbol_table *table)
{
	uint32_t old_slots = table->chain_slots, slots = old_slots ? old_slots * 2 : 256;
	struct chain *old = table->chains;
	struct chain *grown;

	if (old_slots && table->chain_count < old_slots / 2)
		return true;
	grown = ky_pages_alloc(&table->pages, slots * sizeof(*grown));
	if (!grown)
		return false;
	table->chains = grown;
	table->chain_slots = slots;
	for (uint32_t i = 0; i < old_slots; i++)
		if (old[i].count)
			*chain_slot(table, old[i].address) = old[i];
	ky_pages_free(&table->pages, old, old_slots * sizeof(*old));
	return true;
}

static const struct ky_value *field(const struct ky_schema *schema, const struct ky_value *values,
				    uint32_t number)
{
	uint8_t slot = schema->slot_of[number];

	return slot == 0xff || !values[slot].is_present ? NULL : &values[slot];
}

static uint64_t number_of(const struct ky_schema *schema, const struct ky_value *values,
			  uint32_t known, uint64_t absent)
{
	const struct ky_value *value = field(schema, values, known);

	return value ? value->as.number : absent;
}

static uint32_t text_of(struct ky_symbol_table *table, const struct ky_schema *schema,
			const struct ky_value *values, uint32_t known)
{
	const struct ky_value *value = field(schema, values, known);
	const void *nul;
	size_t count;

	if (!value || (value->type == KY_TYPE_POOLED_STRING && !value->is_resolved))
		return ky_names_intern(&table->names, "", 0);
	count = value->text.count;
	nul = count ? memchr(value->text.bytes, 0, count) : NULL;
	if (nul)
		count = (size_t)((const uint8_t *)nul - value->text.bytes);
	return ky_names_intern(&table->names, value->text.bytes, count);
}

/* Segments repeat what they need: equal depths of one address and window say the same. */
static bool is_known(const struct ky_symbol_table *table, const struct chain *chain,
		     const struct symbol_entry *entry)
{
	for (uint32_t i = chain->first; i != NONE; i = table->entries[i].next)
		if (table->entries[i].depth == entry->depth &&
		    table->entries[i].from_ns == entry->from_ns)
			return true;
	return false;
}

static int add_entry(struct ky_symbol_table *table, const struct symbol_entry *entry)
{
	struct chain *chain;

	if (!grow_chains(table))
		return table->pages.failed;
	chain = chain_slot(table, entry->address);
	if (chain->count && (chain->count == KY_SYMBOL_ROWS_MAX || is_known(table, chain, entry)))
		return 0;
	if (!ky_pages_array(&table->pages, &table->entries, &table->entry_capacity,
			    table->entry_count + 1, sizeof(*entry)))
		return table->pages.failed;
	table->entries[table->entry_count] = *entry;
	if (!chain->count) {
		chain->address = entry->address;
		chain->first = table->entry_count;
		table->chain_count++;
	} else {
		table->entries[chain->last].next = table->entry_count;
	}
	chain->last = table->entry_count++;
	chain->count++;
	return 0;
}

static int take_symbol(struct ky_symbol_table *table, const struct ky_schema *schema,
		       const struct ky_value *values)
{
	uint64_t depth = number_of(schema, values, KY_F_SYMBOL_inline_depth, 0);
	struct symbol_entry entry = {
		.address = number_of(schema, values, KY_F_SYMBOL_addr, 0),
		.code_bytes = number_of(schema, values, KY_F_SYMBOL_code_bytes, 0),
		.from_ns = number_of(schema, values, KY_F_SYMBOL_from_ns, 0),
		.to_ns = number_of(schema, values, KY_F_SYMBOL_to_ns, UINT64_MAX),
		.line = number_of(schema, values, KY_F_SYMBOL_source_line, 0),
		.name = text_of(table, schema, values, KY_F_SYMBOL_symbol_name),
		.file = text_of(table, schema, values, KY_F_SYMBOL_source_file),
		.depth = (uint32_t)depth,
		.next = NONE,
	};

	if (entry.name == UINT32_MAX || entry.file == UINT32_MAX)
		return table->pages.failed;
	if (depth >= KY_SYMBOL_ROWS_MAX || !table->names.names[entry.name].bytes)
		return 0; /* no writer means that */
	return add_entry(table, &entry);
}

int ky_symbol_table_event(struct ky_symbol_table *table, const struct ky_schema *schema,
			  const struct ky_value *values)
{
	if (schema->event == KY_EV_PROCESS_MAP)
		return ky_code_map_add(&table->map, schema, values);
	if (schema->event == KY_EV_SYMBOL)
		return take_symbol(table, schema, values);
	return 0;
}

bool ky_symbol_table_entry(const struct ky_symbol_table *table, uint32_t index,
			   struct ky_symbol_entry *out)
{
	const struct symbol_entry *entry;

	if (index >= table->entry_count)
		return false;
	entry = &table->entries[index];
	*out = (struct ky_symbol_entry){
		.address = entry->address,
		.code_bytes = entry->code_bytes,
		.depth = entry->depth,
		.from_ns = entry->from_ns,
		.to_ns = entry->to_ns,
		.name = table->names.names[entry->name].text,
		.file = table->names.names[entry->file].text,
		.line = entry->line,
	};
	return true;
}

/* The chain of an address whose window holds the moment, and the window; NULL: none. */
static const struct chain *entries_at(const struct ky_symbol_table *table, uint64_t address,
				      uint64_t time_ns, uint64_t *from_ns)
{
	const struct chain *chain = chain_slot(table, address);
	bool is_found = false;

	if (!chain->count)
		return NULL;
	for (uint32_t i = chain->first; i != NONE; i = table->entries[i].next) {
		const struct symbol_entry *entry = &table->entries[i];

		if (time_ns && (time_ns < entry->from_ns || time_ns >= entry->to_ns))
			continue;
		if (!is_found || entry->from_ns > *from_ns)
			*from_ns = entry->from_ns;
		is_found = true;
	}
	return is_found ? chain : NULL;
}

bool ky_symbol_table_has(struct ky_symbol_table *table, uint64_t address, uint64_t time_ns)
{
	uint64_t from_ns;

	return entries_at(table, address, time_ns, &from_ns) != NULL;
}

/* ---- lookup ---- */

static void put_frame(struct ky_symbol_table *table, uint32_t name, uint32_t file, uint64_t line)
{
	struct ky_symbol_frame *frame;

	if (table->scratch_count == KY_SYMBOL_ROWS_MAX || name == UINT32_MAX || file == UINT32_MAX)
		return;
	frame = &table->scratch[table->scratch_count++];
	memset(frame, 0, sizeof(*frame));
	frame->number = name;
	frame->name = table->names.names[name].text;
	frame->file = table->names.names[file].text;
	frame->line = line > UINT32_MAX ? 0 : (uint32_t)line;
}

static void from_entries(struct ky_symbol_table *table, const struct chain *chain, uint64_t from_ns)
{
	for (uint32_t i = chain->first; i != NONE; i = table->entries[i].next) {
		const struct symbol_entry *entry = &table->entries[i];

		if (entry->from_ns != from_ns)
			continue;
		put_frame(table, entry->name, entry->file, entry->line);
		table->scratch[table->scratch_count - 1].depth = entry->depth;
		table->scratch[table->scratch_count - 1].code_bytes = entry->code_bytes;
	}
}

static void report(void *ctx, const struct ky_symbol_row *row)
{
	struct ky_symbol_table *table = ctx;
	uint32_t count = table->scratch_count;

	if (!row->name_bytes)
		return;
	put_frame(table, ky_names_intern(&table->names, row->name, row->name_bytes),
		  ky_names_intern(&table->names, row->file_bytes ? row->file : "", row->file_bytes),
		  row->line);
	if (table->scratch_count == count)
		return;
	table->scratch[count].depth = row->depth;
	table->scratch[count].code_bytes = row->code_bytes;
	table->scratch[count].start = row->start ? row->start + table->bias : 0;
}

static size_t put_hex(char *out, uint64_t number)
{
	static const char digits[] = "0123456789abcdef";
	char text[16];
	size_t at = sizeof(text), count;

	do {
		text[--at] = digits[number & 15];
		number >>= 4;
	} while (number);
	count = sizeof(text) - at;
	out[0] = '0';
	out[1] = 'x';
	memcpy(out + 2, text + at, count);
	return count + 2;
}

/* "libc.so.6+0x8b2c1": enough to look it up by hand, and the same in every run. */
static void by_number(struct ky_symbol_table *table, const struct ky_code_place *place,
		      uint32_t why)
{
	char text[256 + 1 + HEX_BYTES];
	const char *base = place->path;
	size_t count = 0;

	for (const char *at = base; *at; at++)
		if (*at == '/')
			base = at + 1;
	if (place->kind == KY_CODE_KERNEL)
		base = "kernel";
	if (*base) {
		count = strlen(base) < 256 ? strlen(base) : 256;
		memcpy(text, base, count);
		text[count++] = '+';
	}
	count += put_hex(text + count, place->address);
	put_frame(table, ky_names_intern(&table->names, text, count),
		  ky_names_intern(&table->names, "", 0), 0);
	if (table->scratch_count)
		table->scratch[0].why = why;
}

static uint32_t ask(struct ky_symbol_table *table, const struct ky_code_place *place)
{
	uint32_t why = KY_SYMBOL_NOT_ASKED;
	int count;

	if (!table->has_source)
		return place->kind == KY_CODE_UNMAPPED ? KY_SYMBOL_NO_MAP : why;
	why = KY_SYMBOL_NO_SYMBOL;
	count = table->source.find(table->source.ctx, place, report, table, &why);
	if (count > 0 && table->scratch_count)
		return KY_SYMBOL_FOUND;
	table->scratch_count = 0;
	return why ? why : KY_SYMBOL_NO_SYMBOL;
}

/* Innermost first, as stacks are. Rows are few. */
static void sort_scratch(struct ky_symbol_table *table)
{
	for (uint32_t i = 1; i < table->scratch_count; i++) {
		struct ky_symbol_frame frame = table->scratch[i];
		uint32_t at = i;

		for (; at > 0 && table->scratch[at - 1].depth < frame.depth; at--)
			table->scratch[at] = table->scratch[at - 1];
		table->scratch[at] = frame;
	}
}

static struct found_symbol *found_slot(const struct ky_symbol_table *table, uint64_t address,
				       uint64_t variant)
{
	uint64_t at = ky_hash_number(address ^ ky_hash_number(variant));

	for (;; at++) {
		struct found_symbol *found = &table->found[at & (table->found_slots - 1)];

		if (!found->count || (found->address == address && found->variant == variant))
			return found;
	}
}

static bool grow_found(struct ky_symbol_table *table)
{
	uint32_t old_slots = table->found_slots, slots = old_slots ? old_slots * 2 : 256;
	struct found_symbol *old = table->found;
	struct found_symbol *grown;

	if (old_slots && table->found_count < old_slots / 2)
		return true;
	grown = ky_pages_alloc(&table->pages, slots * sizeof(*grown));
	if (!grown)
		return false;
	table->found = grown;
	table->found_slots = slots;
	for (uint32_t i = 0; i < old_slots; i++)
		if (old[i].count)
			*found_slot(table, old[i].address, old[i].variant) = old[i];
	ky_pages_free(&table->pages, old, old_slots * sizeof(*old));
	return true;
}

int ky_symbol_table_open(struct ky_symbol_table **out, uint64_t bytes_max)
{
	struct ky_symbol_table *table = ky_alloc(sizeof(*table));

	*out = table;
	if (!table)
		return -ENOMEM;
	ky_pages_init(&table->pages, bytes_max ? bytes_max : UINT64_C(1) << 30);
	ky_names_init(&table->names, &table->pages);
	ky_code_map_init(&table->map);
	if (grow_chains(table) && grow_found(table))
		return 0;
	ky_symbol_table_close(table);
	*out = NULL;
	return -ENOMEM;
}

static void keep(struct ky_symbol_table *table, uint64_t address, uint64_t variant)
{
	struct found_symbol *found;

	if (table->pages.failed || !grow_found(table) ||
	    !ky_pages_array(&table->pages, &table->frames, &table->frame_capacity,
			    table->frame_count + table->scratch_count, sizeof(*table->frames)))
		return;
	found = found_slot(table, address, variant);
	found->address = address;
	found->variant = variant;
	found->first = table->frame_count;
	found->count = table->scratch_count;
	memcpy(table->frames + table->frame_count, table->scratch,
	       table->scratch_count * sizeof(*table->scratch));
	table->frame_count += table->scratch_count;
	table->found_count++;
}

/* Memory is spent: the address itself, which is forgotten at the next call. */
static void bare_number(struct ky_symbol_table *table, uint64_t address)
{
	table->last_text[put_hex(table->last_text, address)] = '\0';
	memset(table->scratch, 0, sizeof(table->scratch[0]));
	table->scratch[0].name = table->last_text;
	table->scratch[0].file = "";
	table->scratch[0].number = UINT32_MAX;
	table->scratch[0].why = KY_SYMBOL_NO_SYMBOL;
	table->scratch_count = 1;
}

uint32_t ky_symbol_table_find(struct ky_symbol_table *table, uint64_t address, uint64_t time_ns,
			      const struct ky_symbol_frame **frames)
{
	uint64_t variant = 0;
	const struct chain *chain = entries_at(table, address, time_ns, &variant);
	struct ky_code_place place = {0};
	struct found_symbol *found;
	uint32_t why = KY_SYMBOL_FOUND;

	if (chain) {
		variant |= FROM_TRACE;
	} else {
		ky_code_map_find(&table->map, address, time_ns, &place, NULL);
		variant = place.module;
	}
	found = found_slot(table, address, variant);
	if (found->count) {
		*frames = table->frames + found->first;
		return found->count;
	}
	table->scratch_count = 0;
	table->bias = address - place.address;
	if (chain)
		from_entries(table, chain, variant & ~FROM_TRACE);
	else
		why = ask(table, &place);
	sort_scratch(table);
	if (!table->scratch_count)
		by_number(table, &place, why);
	if (!table->scratch_count)
		bare_number(table, address);
	else
		keep(table, address, variant);
	*frames = table->scratch;
	return table->scratch_count;
}
