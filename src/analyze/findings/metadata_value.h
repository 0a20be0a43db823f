/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* metadata_value.h - numbers and words in what a trace says of itself.
 * Threads:     any.
 */
#ifndef KY_ANALYZE_FINDINGS_METADATA_VALUE_H
#define KY_ANALYZE_FINDINGS_METADATA_VALUE_H

#include <read/trace.h>

/* Digits at the start of its value; 0: there is no such key, or none. */
uint64_t ky_metadata_number(const struct ky_trace *trace, const char *key);
/* Of a list that commas separate. */
bool ky_metadata_has_word(const struct ky_trace *trace, const char *key, const char *word);

#endif
