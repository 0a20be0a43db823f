/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* tables.c - looks through every read-only word of an object for tables that begin with a poll. */
#include "tables.h"

#include <elf.h>
#include <string.h>
#include <unistd.h>

#include "code.h"
#include "got.h"
#include "root_tables.h"
#include "next_ids.h"
#include "tokio_shape.h"

struct ky_tokio_table ky_tokio_tables[KY_TOKIO_TABLES_MAX];
struct ky_tokio_waker ky_tokio_wakers[KY_TOKIO_COPIES_MAX];

/* The waker tables of one object: more than one when it contains several copies of Tokio. */
struct table_object {
	struct ky_tokio_found *found;
	const struct ky_tokio_elf *elf;
	uintptr_t wakers[KY_TOKIO_COPIES_MAX];
	uint32_t waker_count;
	uint32_t first_copy;
	uintptr_t poll_low, poll_high;
	uint32_t poll_count;
	uint32_t table_count;
	struct ky_tokio_root_clones root_clones;
	uintptr_t page_bytes;
};

static bool is_poll(const char *name)
{
	return strstr(name, "5tokio7runtime4task3raw4poll") != NULL;
}

static bool is_code(const struct ky_tokio_elf *elf, uintptr_t address)
{
	return ky_tokio_elf_is_in(elf, address, 1, PF_X, PF_W);
}

static bool is_poll_address(const struct table_object *object, uintptr_t word)
{
	const struct ky_tokio_symbol *symbol;

	if (word < object->poll_low || word > object->poll_high)
		return false;
	symbol = ky_tokio_elf_find(object->elf, word);
	if (!symbol || symbol->address != word)
		return false;
	for (; symbol; symbol = ky_tokio_elf_twin(object->elf, symbol))
		if (is_poll(ky_tokio_elf_name(object->elf, symbol)))
			return true;
	return false;
}

KY_TOKIO_READS_RAW static bool is_table(const struct ky_tokio_elf *elf, const uintptr_t *words)
{
	uintptr_t trailer = words[KY_TOKIO_SLOT_TRAILER],
		  scheduler = words[KY_TOKIO_SLOT_SCHEDULER];
	uintptr_t id = words[KY_TOKIO_SLOT_ID];

	for (uint32_t i = 0; i < KY_TOKIO_FUNCTIONS; i++)
		if (!is_code(elf, words[i]))
			return false;
	/* The header is four words or more, the cell is laid out as declared, all of it in
	 * words. */
	return scheduler >= 32 && id >= scheduler && trailer > id &&
	       trailer < KY_TOKIO_OFFSET_MAX && scheduler % 8 == 0 && id % 8 == 0 &&
	       trailer % 8 == 0 && id - scheduler <= 256;
}

static bool is_shaped(const struct ky_tokio_elf *elf, const uintptr_t *words)
{
	return is_table(elf, words) && ky_tokio_shape_are_functions(elf, words, KY_TOKIO_FUNCTIONS);
}

static int visit_scheduler(void *ctx, const char *name)
{
	(void)ctx;
	if (strstr(name, "BlockingSchedule"))
		return KY_TOKIO_KIND_BLOCKING;
	if (strstr(name, "5tokio4task5local") || strstr(name, "task..local..Shared"))
		return KY_TOKIO_KIND_LOCAL_SET;
	if (strstr(name, "scheduler12multi_thread") || strstr(name, "scheduler..multi_thread"))
		return KY_TOKIO_KIND_MULTI_THREAD;
	if (strstr(name, "scheduler14current_thread") || strstr(name, "scheduler..current_thread"))
		return KY_TOKIO_KIND_CURRENT_THREAD;
	return 0;
}

/* A launch, and only a launch, calls the worker's loop from a blocking closure. A closure of the
 * program's that builds a runtime of its own calls Launch::launch(), which starts launches and is
 * none: of it only the closures inside count. */
static int visit_launch(void *ctx, const char *name)
{
	const char *launch = strstr(name, "scheduler12multi_thread6worker6Launch");

	(void)ctx;
	return (launch && strstr(launch, "closure")) ||
	       strstr(name, "scheduler12multi_thread6worker3run") ||
	       strstr(name, "scheduler12multi_thread6worker7Context3run") ||
	       strstr(name, "scheduler12multi_thread6worker7Context8run_task");
}

static uint8_t kind_of(const struct ky_tokio_elf *elf, const uintptr_t *words)
{
	int kind;

	if (elf->is_nameless)
		return KY_TOKIO_KIND_UNKNOWN;
	kind = ky_tokio_code_walk(elf, words[KY_TOKIO_SLOT_SCHEDULE], visit_scheduler, NULL);

	if (kind == KY_TOKIO_KIND_BLOCKING &&
	    ky_tokio_code_walk(elf, words[KY_TOKIO_SLOT_POLL], visit_launch, NULL))
		kind = KY_TOKIO_KIND_LAUNCH;
	return (uint8_t)kind;
}

static uint32_t copy_of(const struct table_object *object, const uintptr_t *words)
{
	uintptr_t waker;

	if (object->waker_count <= 1)
		return object->first_copy;
	waker = ky_tokio_code_mention(object->elf, words[KY_TOKIO_SLOT_POLL], object->wakers,
				      object->waker_count);
	for (uint32_t i = 0; i < object->waker_count; i++)
		if (object->wakers[i] == waker)
			return object->first_copy + i;
	return object->first_copy;
}

/* NULL: full. */
static struct ky_tokio_table *entry_for(struct ky_tokio_found *found, const uintptr_t *words)
{
	for (uint32_t i = 0; i < found->early_count; i++)
		if (ky_tokio_tables[i].words == words)
			return &ky_tokio_tables[i];
	if (found->table_count == KY_TOKIO_TABLES_MAX)
		return NULL;
	return &ky_tokio_tables[found->table_count++];
}

KY_TOKIO_READS_RAW static void add_table(struct table_object *object, uintptr_t *words,
					 const uintptr_t *end)
{
	struct ky_tokio_found *found = object->found;
	struct ky_tokio_table *table = is_table(object->elf, words) ? entry_for(found, words) :
								      NULL;

	if (!table) {
		found->refused_count++;
		return;
	}
	atomic_store_explicit(&table->state, KY_TOKIO_STATE_NEW, memory_order_relaxed);
	object->table_count++;
	memcpy(&table->poll, &words[KY_TOKIO_SLOT_POLL], sizeof(table->poll));
	memcpy(&table->shutdown, &words[KY_TOKIO_SLOT_SHUTDOWN], sizeof(table->shutdown));
	table->words = words;
	table->trailer_offset = (uint32_t)words[KY_TOKIO_SLOT_TRAILER];
	table->scheduler_offset = (uint32_t)words[KY_TOKIO_SLOT_SCHEDULER];
	table->id_offset = (uint32_t)words[KY_TOKIO_SLOT_ID];
	table->is_by_shape = object->elf->is_nameless;
	found->shape_count += table->is_by_shape;
	atomic_store_explicit(&table->kind, kind_of(object->elf, words), memory_order_relaxed);
	table->copy = (uint8_t)copy_of(object, words);
	/* The next table begins with a function, so an offset here is this one's. */
	table->has_place = words + KY_TOKIO_SLOT_SPAWNED_AT < end &&
			   words[KY_TOKIO_SLOT_SPAWNED_AT] ==
				   words[KY_TOKIO_SLOT_ID] + sizeof(*words);
	found->unstable_count += table->has_place;
}

static bool add_range(struct ky_tokio_found *found, uintptr_t start, uintptr_t end)
{
	if (start >= end)
		return true;
	if (found->range_count == KY_TOKIO_RANGES_MAX)
		return false;
	found->ranges[found->range_count++] = (struct ky_tokio_range){start, end};
	return true;
}

KY_TOKIO_READS_RAW static void scan(struct table_object *object, uintptr_t start, uintptr_t end)
{
	uintptr_t at = (start + 7) & ~(uintptr_t)7;

	for (; at + (KY_TOKIO_SLOT_ID + 1) * 8 <= end; at += 8) {
		uintptr_t *words = (uintptr_t *)at;

		if (object->elf->is_nameless ? is_shaped(object->elf, words) :
					       is_poll_address(object, words[0]))
			add_table(object, words, (const uintptr_t *)end);
		else if (ky_tokio_root_may_be(&object->root_clones, words[0]))
			(void)ky_tokio_root_table_add(object->found, object->elf,
						      &object->root_clones, words);
	}
}

/* Read-only data is of two kinds: what the loader seals after relocation, and what was never
 * writable. */
static bool scan_object(struct table_object *object)
{
	const struct ky_tokio_elf *elf = object->elf;
	uintptr_t mask = ~(object->page_bytes - 1);

	for (size_t i = 0; i < elf->phdr_count; i++) {
		const ElfW(Phdr) *phdr = &elf->phdr[i];
		uintptr_t start = elf->bias + phdr->p_vaddr, end = start + phdr->p_memsz;
		uint32_t before = object->table_count, roots = object->found->root_count;
		uintptr_t words, words_end;
		bool has_slots = false;

		if (end < start)
			continue;
		if (phdr->p_type == PT_GNU_RELRO &&
		    ky_tokio_elf_sealed(elf, phdr, &words, &words_end)) {
			scan(object, words, words_end);
			/* As the loader rounds: the last, partial page stays writable. */
			if (!add_range(object->found, start & mask, end & mask))
				return false;
		} else if (phdr->p_type == PT_LOAD &&
			   (phdr->p_flags & (PF_R | PF_W | PF_X)) == PF_R &&
			   (!elf->is_nameless || ky_tokio_shape_may_hold(elf, phdr))) {
			scan(object, start, end);
			has_slots = object->table_count != before ||
				    object->found->root_count != roots;
			for (uint32_t k = 0; k < object->waker_count; k++)
				has_slots |= object->wakers[k] >= start && object->wakers[k] < end;
			if (has_slots && !add_range(object->found, start & mask,
						    (end + object->page_bytes - 1) & mask))
				return false;
		}
	}
	return true;
}

KY_TOKIO_READS_RAW static void add_waker(struct table_object *object, uintptr_t address)
{
	struct ky_tokio_found *found = object->found;
	struct ky_tokio_waker *waker;
	uintptr_t *words = (uintptr_t *)address;

	if (address % sizeof(*words) ||
	    !ky_tokio_elf_is_in(object->elf, address, 4 * sizeof(*words), PF_R, PF_X))
		return;
	for (uint32_t i = 0; i < 4; i++)
		if (!is_code(object->elf, words[i]))
			return;
	for (uint32_t i = 0; i < object->waker_count; i++)
		if (object->wakers[i] == address)
			return;
	for (uint32_t i = 0; object->waker_count == 0 && i < found->copy_count; i++)
		if (ky_tokio_wakers[i].words == words)
			object->first_copy = i;
	if (object->first_copy + object->waker_count >= KY_TOKIO_COPIES_MAX)
		return;
	waker = &ky_tokio_wakers[object->first_copy + object->waker_count];
	object->wakers[object->waker_count++] = address;
	waker->words = words;
	atomic_store_explicit(&waker->is_trusted, 0, memory_order_relaxed);
	memcpy(&waker->clone, &words[0], sizeof(waker->clone));
	memcpy(&waker->wake, &words[1], sizeof(waker->wake));
	memcpy(&waker->wake_by_ref, &words[2], sizeof(waker->wake_by_ref));
}

static bool add_shaped_waker(void *ctx, uintptr_t address)
{
	add_waker(ctx, address);
	return true;
}

static void read_symbols(struct table_object *object)
{
	const struct ky_tokio_elf *elf = object->elf;

	for (size_t i = 0; i < elf->symbol_count; i++) {
		const char *name = ky_tokio_elf_name(elf, &elf->symbols[i]);
		uintptr_t address = elf->symbols[i].address;

		if (is_code(elf, address))
			ky_tokio_root_clones_add(&object->root_clones, name, address);
		if (!elf->symbols[i].is_task)
			continue;
		if (strstr(name, "5tokio7runtime4task5waker12WAKER_VTABLE"))
			add_waker(object, address);
		if (!is_poll(name) || !is_code(elf, address))
			continue;
		object->poll_count++;
		object->poll_low = address < object->poll_low ? address : object->poll_low;
		object->poll_high = address > object->poll_high ? address : object->poll_high;
	}
}

void ky_tokio_tables_find(struct ky_tokio_found *found, const struct ky_tokio_elf *elf)
{
	struct table_object object = {.found = found, .elf = elf, .first_copy = found->copy_count};
	static struct ky_tokio_found before; /* too large for a stack; one reading at a time */
	uint32_t copies;

	before = *found;
	object.page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
	object.poll_low = UINTPTR_MAX;
	if (elf->is_nameless)
		ky_tokio_shape_wakers(elf, add_shaped_waker, &object);
	else
		read_symbols(&object);
	if (object.poll_count + object.waker_count == 0 || object.first_copy >= KY_TOKIO_COPIES_MAX)
		return;
	if (!scan_object(&object) || !ky_tokio_got_find(found, elf)) {
		*found = before;
		found->refused_count++;
		return;
	}
	if (object.table_count == 0 && (object.waker_count == 0 || elf->is_nameless)) {
		found->range_count = before.range_count;
		found->got_count = before.got_count;
		found->root_count = before.root_count;
		return;
	}
	copies = object.first_copy + (object.waker_count ? object.waker_count : 1);
	if (found->copy_count < copies)
		found->copy_count = copies;
	found->object_count++;
	if (!elf->is_nameless && object.waker_count <= 1)
		ky_tokio_ids_find(elf, object.first_copy);
}
