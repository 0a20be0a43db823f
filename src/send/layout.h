/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* layout.h - the name that a segment has in a bucket, and what is said about it there.
 *
 *   dial9  PREFIX/version=1/date=D/service=S/time=HHMM/instance=HOST/boot=BOOT/EPOCH-INDEX.bin.gz
 *   kymo   PREFIX/k1/raw/service=S/date=D/hour=HH/host=HOST/START_MS-MS-BOOT-INDEX.trc.zst
 *
 * Who looks for a time lists its hours and the one before. What lasts longer than an hour is named
 * beside it, in both layouts, by an object without content, so that its hour is listed, too:
 *   PREFIX/k1/long/service=S/date=D/hour=HH/lasts=HOURS
 *
 * Times are UTC, of the segment's first event. Values keep A-Z a-z 0-9 . _ - and have %XX for the
 * rest, as in Hive's names: none is ever a path of its own.
 * Pure. Threads: any.
 */
#ifndef KY_SEND_LAYOUT_H
#define KY_SEND_LAYOUT_H

#include <base/buf.h>
#include <kymo/stage.h>

enum ky_layout {
	KY_LAYOUT_DIAL9, /* gzip, so that dial9's browser lists and reads it */
	KY_LAYOUT_KYMO   /* the file as it is */
};

/* Appends the key, with a zero. prefix: as the user gave it, without slashes at its ends. Returns
 * 0; KYMO_E_LIMIT: longer than S3 takes (1,024 bytes); -ENOMEM. */
int ky_layout_key(struct ky_buf *out, enum ky_layout layout, const char *prefix,
		  const struct kymo_segment *segment);

/* Of a dump, the object that is written after it: PREFIX/dumps/ULID.json, and in kymo's own layout
 * PREFIX/k1/dump/ULID.json. Returns the same. */
int ky_layout_manifest_key(struct ky_buf *out, enum ky_layout layout, const char *prefix,
			   const char *dump_id);
/* What it says, as dial9's: which object the dump is. key: of that one. Returns 0, -ENOMEM. */
int ky_layout_manifest(struct ky_buf *out, const struct kymo_segment *segment, const char *key);

/* Of a segment that lasts longer than an hour, the object that says so, with a zero: its hours are
 * a power of two, so that many segments share one. Nothing is appended for a shorter one, and for a
 * dump. Returns the same. */
int ky_layout_long_key(struct ky_buf *out, const char *prefix, const struct kymo_segment *segment);

/* Appends date=YYYY-MM-DD/, of UTC. */
void ky_layout_date(struct ky_buf *out, uint64_t unix_ns);
/* Appends NAME=VALUE/, the value encoded as above; "unknown" where it is empty. */
void ky_layout_value(struct ky_buf *out, const char *name, const char *value);

/* The object's type: "application/gzip" .. . */
const char *ky_layout_type(enum ky_layout layout, const struct kymo_segment *segment);

#endif
