/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* canonical.h - everything the engine found in a trace as one JSON text: the bytes that the native
 * and the WebAssembly build must share.
 * Threads: owner.
 */
#ifndef KY_ANALYZE_CANONICAL_H
#define KY_ANALYZE_CANONICAL_H

#include <base/buf.h>
#include <read/symbol_table.h>
#include <read/trace.h>

/* {"info":...,"report":...,"rows":{...}}: rows has a digest over every poll, park and wake in
 * full. symbols: names the code of the profile; NULL: addresses stay numbers.
 * Returns 0, -ENOMEM. */
int ky_canonical_json(struct ky_buf *out, const struct ky_trace *trace,
		      struct ky_symbol_table *symbols);

#endif
