/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <symbol/type_evidence.h>

#include <base/alloc.h>
#include <base/hash.h>
#include <stdlib.h>
#include <string.h>

#define NOTES_MAX (1u << 20)

struct ky_type_evidence_note {
	uint64_t key;
	uint32_t table;
	uint32_t is_single;
};

struct ky_type_evidence_place {
	uint64_t key;
	uint32_t all, unresolved;
};

uint64_t ky_type_evidence_key(uint64_t function, uint64_t schedule)
{
	return ky_hash_number(function) ^ schedule;
}

void ky_type_evidence_add(struct ky_type_evidence *evidence, uint64_t key, uint32_t table,
			  bool is_single)
{
	if (evidence->note_count == NOTES_MAX ||
	    ky_grow(&evidence->notes, &evidence->note_capacity, evidence->note_count + 1,
		    sizeof(*evidence->notes)))
		return;
	evidence->notes[evidence->note_count++] = (struct ky_type_evidence_note){key, table,
										 is_single};
	if (evidence->table_count <= table)
		evidence->table_count = table + 1;
}

static int by_key(const void *left, const void *right)
{
	const struct ky_type_evidence_note *a = left, *b = right;

	if (a->key != b->key)
		return a->key < b->key ? -1 : 1;
	return a->table < b->table ? -1 : a->table > b->table;
}

/* Calls of one key: from `first` on, where the next one begins, and how many tables. */
static uint32_t end_of_key(const struct ky_type_evidence *evidence, uint32_t first,
			   uint32_t *tables)
{
	const struct ky_type_evidence_note *notes = evidence->notes;
	uint32_t at = first;

	for (*tables = 0; at < evidence->note_count && notes[at].key == notes[first].key; at++)
		*tables += at == first || notes[at].table != notes[at - 1].table;
	return at;
}

static void count(struct ky_type_evidence *evidence, uint8_t *is_resolved)
{
	const struct ky_type_evidence_note *notes = evidence->notes;
	uint32_t tables, next;

	for (uint32_t at = 0; at < evidence->note_count; at = next) {
		next = end_of_key(evidence, at, &tables);
		if (tables == 1 && notes[at].is_single)
			is_resolved[notes[at].table] = 1;
	}
	for (uint32_t at = 0; at < evidence->note_count; at = next) {
		struct ky_type_evidence_place place = {.key = notes[at].key};

		next = end_of_key(evidence, at, &place.all);
		for (uint32_t i = at; i < next; i++)
			place.unresolved += (i == at || notes[i].table != notes[i - 1].table) &&
					    !is_resolved[notes[i].table];
		if (ky_grow(&evidence->places, &evidence->place_capacity, evidence->place_count + 1,
			    sizeof(*evidence->places)))
			return;
		evidence->places[evidence->place_count++] = place;
	}
}

void ky_type_evidence_finish(struct ky_type_evidence *evidence)
{
	uint8_t *is_resolved = ky_alloc((size_t)evidence->table_count + 1);

	if (evidence->note_count > 0)
		qsort(evidence->notes, evidence->note_count, sizeof(*evidence->notes), by_key);
	if (is_resolved)
		count(evidence, is_resolved);
	ky_free(is_resolved);
	ky_free(evidence->notes);
	evidence->notes = NULL;
	evidence->note_count = evidence->note_capacity = 0;
}

uint32_t ky_type_evidence_count(const struct ky_type_evidence *evidence, uint64_t key, bool all)
{
	uint32_t low = 0, high = evidence->place_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct ky_type_evidence_place *place = &evidence->places[middle];

		if (place->key == key)
			return all ? place->all : place->unresolved;
		if (place->key < key)
			low = middle + 1;
		else
			high = middle;
	}
	return 0;
}

void ky_type_evidence_release(struct ky_type_evidence *evidence)
{
	ky_free(evidence->notes);
	ky_free(evidence->places);
	memset(evidence, 0, sizeof(*evidence));
}
