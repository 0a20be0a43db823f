/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* toml_reader.h - the crate `toml` as a C function (src/rust/src/toml_reader.rs).
 * Threads: any.   Memory: freed before it returns.
 */
#ifndef KY_CLI_TOML_READER_H
#define KY_CLI_TOML_READER_H

#include <stddef.h>
#include <stdint.h>

enum ky_toml_kind {
	KY_TOML_STRING = 1, /* text: without its quotes */
	KY_TOML_INTEGER = 2,
	KY_TOML_FLOAT = 3,
	KY_TOML_BOOLEAN = 4, /* "true" or "false" */
	KY_TOML_DATETIME = 5,
	KY_TOML_EMPTY = 6 /* a table or an array without elements */
};

/* One value, in no particular order; path: "events.poll.threshold", "triggers[0]". Neither text
 * ends in NUL. Returns 0, or anything else to stop. */
typedef int (*ky_toml_fn)(void *ctx, const char *path, size_t path_bytes, const char *text,
			  size_t text_bytes, uint32_t kind, uint32_t line);

/* Returns 0; 1 when `emit` stopped it; -1 with one sentence in error and its line (from 1) in
 * error_line when the document is no TOML. */
int ky_toml_parse(const uint8_t *document, size_t document_bytes, ky_toml_fn emit, void *ctx,
		  char *error, size_t error_bytes, uint32_t *error_line);

#endif
