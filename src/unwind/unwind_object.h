/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* unwind_object.h - as much of an ELF file as its call frame information takes: segments, and bytes
 * at addresses as linked, read through four small windows.
 *
 * Invariants:  the file is hostile: everything is checked, nothing is mapped.
 * Memory:      64 KiB, in the struct.
 * Threads:     owner.
 */
#ifndef KY_UNWIND_UNWIND_OBJECT_H
#define KY_UNWIND_UNWIND_OBJECT_H

#include <unwind/cfi.h>

#define KY_UNWIND_SEGMENTS_MAX 16u
#define KY_UNWIND_WINDOWS 4u
#define KY_UNWIND_WINDOW_BYTES 16384u

struct ky_unwind_segment {
	uint64_t address, memory_bytes; /* as linked */
	uint64_t offset, file_bytes;
	bool is_code;
};

struct ky_unwind_window {
	uint64_t start;
	size_t bytes;
	uint8_t data[KY_UNWIND_WINDOW_BYTES];
};

/* Up to `bytes` bytes; returns how many. at: an offset in the file; is_memory: an address. */
typedef size_t (*ky_unwind_read_fn)(void *ctx, uint64_t at, void *out, size_t bytes);

struct ky_unwind_object {
	ky_unwind_read_fn read;
	void *ctx;
	uint64_t image; /* where the first byte lies: 0 for a file, else an address */
	bool is_memory; /* laid out as loaded, not as in the file */
	uint64_t bias;  /* is_memory: address = bias + address as linked */
	struct ky_unwind_segment segments[KY_UNWIND_SEGMENTS_MAX];
	uint32_t segment_count;
	struct ky_cfi_source source; /* of its call frame information */
	struct ky_unwind_window windows[KY_UNWIND_WINDOWS];
	uint32_t next_window;
};

/* image: see above. Returns 0; KYMO_E_UNSUPPORTED: no ELF for this machine; KYMO_E_CORRUPT;
 * KYMO_E_TRUNCATED. */
int ky_unwind_object_init(struct ky_unwind_object *object, ky_unwind_read_fn read, void *ctx,
			  bool is_memory, uint64_t image);

/* address = bias + address as linked, for code of the file that is mapped so. False: it is none. */
bool ky_unwind_object_bias(const struct ky_unwind_object *object, uint64_t mapped_at,
			   uint64_t mapped_offset, uint64_t *bias);

#endif
