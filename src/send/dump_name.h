/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* dump_name.h - dumps by the names that `kymo run` and `kymo dump` give them, and the ids that they
 * have in a bucket.
 *
 *   SERVICE-PID-20260518T123000Z[-N].trc[.zst|.gz]      N: of a rule; without it, of `kymo dump`
 *
 * Pure. Threads: any.
 */
#ifndef KY_SEND_DUMP_NAME_H
#define KY_SEND_DUMP_NAME_H

#include <stdbool.h>
#include <stdint.h>

#define KY_DUMP_ID_BYTES 27u

/* No segment of a stream has a number so high. */
#define KY_DUMP_NUMBERS_FROM (UINT64_C(1) << 31)

struct ky_dump_name {
	char service[65];
	uint32_t pid, n;  /* n 0: it has none */
	uint64_t unix_ns; /* in whole seconds */
};

/* Where the ending begins, ".trc" and what follows: a service may have dots, too. NULL: nowhere. */
const char *ky_dump_name_ending(const char *name);

/* Returns false: it is none. */
bool ky_dump_name_parse(struct ky_dump_name *out, const char *name);

/* What stands for a segment's number: above those of any stream, so that no two objects of a
 * process have one name. It fits 32 bits, as dial9's browser reads it. */
uint64_t ky_dump_name_number(const struct ky_dump_name *name);

/* A ULID: the time in milliseconds, then 80 bits that are the same whenever this dump is sent.
 * process: its boot, pid and start. */
void ky_dump_id_make(char out[KY_DUMP_ID_BYTES], const struct ky_dump_name *name,
		     const char *process);

#endif
