/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* engine.h - what a page calls in the WebAssembly build of the reading engine.
 *
 * Invariants:  one trace at a time; everything crosses as a number or as bytes in the module's
 *              memory. The page unpacks (gzip, zstd) and passes over plain TRC.
 * Threads:     one.
 */
#ifndef KY_ANALYZE_ENGINE_H
#define KY_ANALYZE_ENGINE_H

#include <stdint.h>

/* Room for the page's bytes; 0 when memory is out. */
uint8_t *kymo_wasm_alloc(uint32_t bytes);
void kymo_wasm_free(uint8_t *memory);

/* Reads a trace; the bytes stay the page's and may go after the call. Returns 0 or a negative
 * error, whose sentence is then the result. */
int32_t kymo_wasm_open(const uint8_t *bytes, uint32_t byte_count);

/* Writes the canonical JSON of the open trace as the result. Returns 0 or a negative error. */
int32_t kymo_wasm_canonical(void);

/* The last result: UTF-8, not terminated; valid until the next call. */
const uint8_t *kymo_wasm_result(void);
uint32_t kymo_wasm_result_bytes(void);

#endif
