/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* cfi.h - call frame information: the bytes of .eh_frame_hdr and .eh_frame, and the little machine
 * that turns them into rows: from this pc on, the caller's registers are there and there.
 *
 * Invariants:  the bytes are hostile: every length is checked, every loop is bounded by them, and
 *              what is not understood makes the row, or the function, unknown. Nothing is guessed.
 * Memory:      the machine, which the caller owns (some 40 KiB).
 * Threads:     each its own machine.
 */
#ifndef KY_UNWIND_CFI_H
#define KY_UNWIND_CFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unwind/unwind_arch.h>

#define KY_CFI_FUNCTION_BYTES_MAX 32768u
#define KY_CFI_COMMON_BYTES_MAX 1024u
#define KY_CFI_DEPTH_MAX 8u

/* Where the bytes are: at addresses as linked. */
struct ky_cfi_source {
	/* Up to `bytes`; returns how many. */
	size_t (*read)(void *ctx, uint64_t address, void *out, size_t bytes);
	/* The same without a copy: *bytes gets how many lie there, which may be fewer than there
	 * are; valid up to the next call of either. NULL: none does; `borrow` itself may be NULL.
	 */
	const uint8_t *(*borrow)(void *ctx, uint64_t address, size_t *bytes);
	void *ctx;
	uint64_t header, header_bytes; /* .eh_frame_hdr; 0 bytes: there is none */
};

enum ky_cfi_kind {
	KY_CFI_SAME = 0,
	KY_CFI_AT_CFA,      /* saved at CFA + offset */
	KY_CFI_IS_CFA,      /* is CFA + offset */
	KY_CFI_AT_REGISTER, /* saved at base + offset */
	KY_CFI_UNDEFINED,   /* said to be lost; of the return address: there is no caller */
	KY_CFI_BEYOND       /* an expression that we do not compute */
};

struct ky_cfi_rule {
	uint8_t kind; /* enum ky_cfi_kind */
	uint8_t base; /* of KY_CFI_AT_REGISTER */
	int64_t offset;
};

enum ky_cfi_cfa {
	KY_CFI_CFA_UNKNOWN = 0,
	KY_CFI_CFA_REGISTER, /* register + offset */
	KY_CFI_CFA_INDIRECT, /* the word at register + offset, + further */
	KY_CFI_CFA_PLT       /* sp + 8, and 8 more where pc % 16 >= offset */
};

struct ky_cfi_row {
	struct ky_cfi_rule rules[KY_UNWIND_REGISTERS];
	uint32_t cfa; /* enum ky_cfi_cfa */
	uint32_t cfa_register;
	int64_t cfa_offset, cfa_further;
};

/* A place in the bytes of one entry; reading past the end makes it bad and gives zeros. */
struct ky_cfi_cursor {
	const uint8_t *at, *end;
	uint64_t address; /* of `start`, as linked */
	const uint8_t *start;
	bool is_bad;
};

struct ky_cfi_machine {
	/* of the function that was read last */
	uint64_t start, bytes;
	bool is_signal;
	struct ky_cfi_row row;

	/* what functions have in common (CIE), kept for the next one; address 0: none */
	uint64_t common_address;
	uint64_t code_align;
	int64_t data_align;
	uint8_t pointer_encoding;
	bool has_augmentation, is_common_signal;
	struct ky_cfi_row initial;

	struct ky_cfi_row saved[KY_CFI_DEPTH_MAX];
	uint32_t saved_count;
	uint64_t location;
	struct ky_cfi_cursor program; /* in function_bytes, or in what the source has lent */
	uint8_t function_bytes[KY_CFI_FUNCTION_BYTES_MAX];
	uint8_t common_bytes[KY_CFI_COMMON_BYTES_MAX];
};

/* Before the first use, and before another source. */
void ky_cfi_reset(struct ky_cfi_machine *machine);

/* The sorted table of .eh_frame_hdr; false: none, or not of the one form that linkers write.
 * Functions lie at *table, two numbers each: see ky_cfi_entry(). */
bool ky_cfi_index(const struct ky_cfi_source *source, uint64_t *table, uint64_t *count);
#define KY_CFI_PAIR_BYTES 8u

static inline uint64_t ky_cfi_from_header(const struct ky_cfi_source *source, int32_t number)
{
	return source->header + (uint64_t)(int64_t)number;
}

/* Reads the function described at `address` (an FDE): start, bytes, is_signal. It is open up to the
 * next call of the source. */
bool ky_cfi_begin(struct ky_cfi_machine *machine, const struct ky_cfi_source *source,
		  uint64_t address);

/* Reports each row of the function that is open, by pc; the last one holds to its end. False: what
 * follows the last row reported is not understood. A row with the pc of the one before replaces
 * it. */
typedef void (*ky_cfi_row_fn)(void *ctx, uint64_t pc, const struct ky_cfi_row *row);
bool ky_cfi_rows(struct ky_cfi_machine *machine, ky_cfi_row_fn report, void *ctx);

/* Finds the function around pc, as linked, and leaves the row for it in the machine. */
bool ky_cfi_find(struct ky_cfi_machine *machine, const struct ky_cfi_source *source, uint64_t pc);

#endif
