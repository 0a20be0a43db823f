/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* type_evidence.h - how many task tables of a file lead to one and the same function.
 *
 * The linker folds functions of several types into one, and LLVM drops the symbols of those that it
 * merged: what several tables lead to says nothing about which of them has that type. What one
 * table alone leads to does.
 *
 * Memory:   16 B per function and table.
 * Threads:  owner.
 */
#ifndef KY_SYMBOL_TYPE_EVIDENCE_H
#define KY_SYMBOL_TYPE_EVIDENCE_H

#include <stdbool.h>
#include <stdint.h>

struct ky_type_evidence {
	struct ky_type_evidence_note *notes;
	uint32_t note_count, note_capacity;
	struct ky_type_evidence_place *places; /* by key */
	uint32_t place_count, place_capacity;
	uint32_t table_count;
};

/* Tables of one scheduler are compared with each other: what two schedulers share of one type is no
 * other type's. */
uint64_t ky_type_evidence_key(uint64_t function, uint64_t schedule);

/* Table `table`, 0 first, leads to this function. is_single: one type alone is named there. What
 * finds no room counts as seen by no other table. */
void ky_type_evidence_add(struct ky_type_evidence *evidence, uint64_t key, uint32_t table,
			  bool is_single);

/* After the last of them. */
void ky_type_evidence_finish(struct ky_type_evidence *evidence);

/* Tables that lead there; all: also those that something else gives a type of their own. */
uint32_t ky_type_evidence_count(const struct ky_type_evidence *evidence, uint64_t key, bool all);

void ky_type_evidence_release(struct ky_type_evidence *evidence);

#endif
