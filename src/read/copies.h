/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* copies.h - several traces of one process, a stream and dumps, or dumps alone, hold some events
 * more than once: who keeps which, so that each counts once.
 *
 * Invariants:  each stamp of the recorder's counter has at most one owner, the traces of one part
 *              (coverage.part of docs/format.md); of the events with that stamp only the owner's
 *              are given. What nothing owns is given by a reader that has it. Streams come first,
 *              since their counts of what a policy held back cannot be divided; then dumps, the
 *              oldest first, since a ring only loses.
 *              Where another owner begins, times continue after the last one's: each trace has its
 *              own readings of the clocks, which differ by a microsecond or so.
 *              Worker ids become those of the first owner. What describes (threads, modules,
 *              metadata, histograms) is always given.
 * Input:       it is untrusted; traces without coverage, and files of several parts, keep
 *              all they have.
 * Threads:     owner.
 */
#ifndef KY_READ_COPIES_H
#define KY_READ_COPIES_H

#include <base/byte_source.h>
#include <wire/trc_dec.h>

struct ky_copies;
struct ky_copies_source; /* what one source may give */

/* Between what one trace has and what the next one has, of one process. */
struct ky_unrecorded {
	uint64_t from_ns, to_ns;
};

/* Reads the beginnings of the sources, and reads them where it has to. *out NULL: there are no
 * copies among them. Returns 0, -ENOMEM. Trouble with a source is its reader's to report. */
int ky_copies_open(struct ky_copies **out, struct ky_byte_source *sources, uint32_t count,
		   const struct ky_trc_limits *limits, uint64_t raw_bytes_max);
void ky_copies_close(struct ky_copies *copies);

/* NULL: it gives everything. copies: may be NULL. */
struct ky_copies_source *ky_copies_source(struct ky_copies *copies, uint32_t index);

/* Before a source is read, again or for the first time. source: may be NULL. */
void ky_copies_begin(struct ky_copies_source *source);

/* An event in the order of the file. False: it is a copy. Changes its time and worker. */
bool ky_copies_takes(struct ky_copies_source *source, struct ky_frame *frame);
/* Moves those that it takes to the front. Returns their number. */
uint32_t ky_copies_hot(struct ky_copies_source *source, struct ky_hot_event *events,
		       uint32_t count);

/* Copies met since each source was begun. */
uint64_t ky_copies_count(const struct ky_copies *copies);
/* Returns how many of *out there are. */
uint32_t ky_copies_unrecorded(const struct ky_copies *copies, const struct ky_unrecorded **out);

#endif
