/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* outgoing_copy.h - what leaves the machine in place of a segment: with the names of its code, and
 * without what others shall not read. Symbols first, so that they are redacted, too.
 *
 * The same file, key and settings give the same bytes, as long as the files that name its code and
 * the compressor stay the same.
 * Memory:  of a few chunks; for names, of what symbol_table.h and symbolizer.h hold.
 * Threads: owner.
 */
#ifndef KY_EDIT_OUTGOING_COPY_H
#define KY_EDIT_OUTGOING_COPY_H

#include <edit/redact.h>

struct ky_outgoing {
	uint32_t classes;   /* enum ky_redact_class; 0: nothing is hidden */
	const uint8_t *key; /* KY_REDACT_KEY_BYTES */
	bool is_named;      /* addresses without a name get theirs from files of this machine */
};

/* Writes the copy to fd, packed as the suffix of path says. why: a sentence where it fails.
 *
 * Returns  1: written; 0: nothing was to be done, the file may leave as it is; KYMO_E_*: it cannot
 *          be read; -ENOMEM; -errno of reading or writing.
 */
int ky_outgoing_copy(const struct ky_outgoing *how, const char *path, int fd, char *why,
		     size_t why_bytes);

#endif
