/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* symbol_source.h - where names of code come from: the contract between those who read a trace
 * (read/symbol_table.h asks) and those who can open files (ship/symbol/symbolizer.h answers).
 *
 * An address is resolved once, when the trace is read: module and virtual address in its file. So
 * names can be searched for on another machine, and nothing here ever sees an absolute address but
 * for the kernel's and those of code that no module covers.
 * Threads: owner.
 */
#ifndef KY_WIRE_SYMBOL_SOURCE_H
#define KY_WIRE_SYMBOL_SOURCE_H

#include <stddef.h>
#include <stdint.h>

enum ky_code_kind {
	KY_CODE_MODULE = 0, /* address: virtual address in the file */
	KY_CODE_KERNEL = 1, /* address: absolute, of the kernel that ran then */
	KY_CODE_UNMAPPED =
		2 /* address: absolute; no module covers it: perhaps compiled at run time */
};

/* Why there is no name. */
enum ky_symbol_why {
	KY_SYMBOL_FOUND = 0,
	KY_SYMBOL_NO_MAP,     /* no module of the trace covers the address */
	KY_SYMBOL_NO_FILE,    /* the module's file was not found, nor debug information for it */
	KY_SYMBOL_OTHER_FILE, /* what stands at its path is another file by now */
	KY_SYMBOL_NO_SYMBOL,  /* the file has no symbol there: stripped */
	KY_SYMBOL_DAMAGED,    /* the file cannot be read */
	KY_SYMBOL_OTHER_BOOT, /* kernel or run-time code of another boot, process or machine */
	KY_SYMBOL_FORBIDDEN,  /* kernel addresses are hidden from this user */
	KY_SYMBOL_NOT_ASKED,  /* no source */
	KY_SYMBOL_WHY_COUNT
};

struct ky_code_place {
	uint32_t kind;    /* enum ky_code_kind */
	uint32_t module;  /* number within one trace: the same number, the same module */
	const char *path; /* as the recorded process saw it; "" unknown */
	const uint8_t *build_id;
	size_t build_id_bytes; /* 0: the file had none */
	uint64_t address;
	uint64_t start, end; /* where it was mapped */
};

/* One function; those inlined into it follow, the outermost first. */
struct ky_symbol_row {
	const char *name; /* demangled; not NUL-terminated */
	size_t name_bytes;
	const char *file; /* not NUL-terminated; file_bytes 0: unknown */
	size_t file_bytes;
	uint64_t start; /* of the outermost function, in the terms of the place's address */
	uint64_t code_bytes;
	uint32_t line; /* 0 unknown */
	uint32_t depth;
};

typedef void (*ky_symbol_fn)(void *ctx, const struct ky_symbol_row *row);

struct ky_symbol_source {
	/* Reports the function at a place, then what is inlined there. Returns how many rows; 0
	 * with *why; -ENOMEM. */
	int (*find)(void *ctx, const struct ky_code_place *place, ky_symbol_fn report,
		    void *report_ctx, uint32_t *why);
	void *ctx;
};

#endif
