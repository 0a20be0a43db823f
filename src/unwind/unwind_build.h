/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* unwind_build.h - one file's call frame information as blocks, rows and wide rules, written to the
 * unwind area piece by piece.
 *
 * Memory:      the builder, which the caller owns (some 200 KiB), whatever the file's size.
 * Threads:     owner.      Cost: see bench/unwind.
 */
#ifndef KY_UNWIND_UNWIND_BUILD_H
#define KY_UNWIND_UNWIND_BUILD_H

#include <unwind/cfi.h>
#include <wire/unwind_image.h>

#define KY_UNWIND_WIDES_MAX 4096u
#define KY_UNWIND_ROWS_AT_ONCE 4096u
#define KY_UNWIND_PAIRS_AT_ONCE 512u

/* Writes at an offset from the start of the area. Returns 0 or a negative error: no room. */
typedef int (*ky_unwind_write_fn)(void *ctx, uint64_t offset, const void *bytes, size_t count);

struct ky_unwind_builder {
	struct ky_cfi_machine machine;
	ky_unwind_write_fn write;
	void *write_ctx;
	int error;
	uint64_t base, limit; /* as linked */
	uint64_t end_offset;  /* of what may be written */
	/* what has been written */
	uint64_t blocks_offset, rows_offset;
	uint32_t blocks_written, rows_written;
	uint32_t block_count, row_count; /* with what waits below */
	uint32_t blocks_waiting, rows_waiting, wide_count;
	uint64_t blocks_end; /* where the first block begins that says nothing yet */
	bool has_row;        /* `last` is the newest row, not yet among those that wait */
	struct ky_unwind_row last;
	uint64_t function_end;
	bool is_signal;
	uint32_t blocks[KY_UNWIND_ROWS_AT_ONCE];
	struct ky_unwind_row rows[KY_UNWIND_ROWS_AT_ONCE];
	struct ky_unwind_wide wides[KY_UNWIND_WIDES_MAX];
	int32_t pairs[KY_UNWIND_PAIRS_AT_ONCE][2];
};

struct ky_unwind_built {
	uint64_t base; /* as linked: where pc 0 is */
	uint64_t blocks_offset, rows_offset, wide_offset;
	uint64_t end_offset; /* after all of it; multiple of 8 */
	uint32_t block_count, row_count, wide_count;
	uint32_t function_count, unknown_count; /* described; of those not understood */
};

/* code_start, code_end: as linked. The bytes go to [offset, end_offset).
 * Returns 0; KYMO_E_UNSUPPORTED: no index that we read; KYMO_E_LIMIT: no room, or more than 4 GiB
 * of code; what `write` returned. */
int ky_unwind_build(struct ky_unwind_builder *builder, const struct ky_cfi_source *source,
		    uint64_t code_start, uint64_t code_end, uint64_t offset, uint64_t end_offset,
		    ky_unwind_write_fn write, void *write_ctx, struct ky_unwind_built *out);

#endif
