/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* flame_json.h - the samples of a trace as lines for a flame graph, as JSON: those of
 * `kymo export --format folded`, with numbers for names.
 *
 * Threads:     owner.
 */
#ifndef KY_LANES_FLAME_JSON_H
#define KY_LANES_FLAME_JSON_H

#include <export/export.h>

/* export: prepared, with its code. {"unit", "samples", "sum", "lines": [[value, function, ...], ..]
 * root first, "functions": [{"name", "file", "line", "is_own"}, ..]}. Errors: out->failed. */
void ky_flame_json(struct ky_buf *out, const struct ky_export *export);

#endif
