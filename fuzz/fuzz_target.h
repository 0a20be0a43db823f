/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* fuzz_target.h - what a fuzz target defines and what it may use.
 *
 * fuzz_NAME.c defines LLVMFuzzerTestOneInput. It is built twice: with replay.c, so that corpus/NAME
 * runs as an ordinary test under any compiler, and with libFuzzer (-Dfuzzers=true, clang).
 * A broken promise is FUZZ_CHECK: it aborts, which both ways of running report.
 */
#ifndef KY_FUZZ_TARGET_H
#define KY_FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

#define FUZZ_CHECK(condition)                                                                      \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition);    \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* A running hash, for "the same input gives the same output". */
static inline uint64_t fuzz_digest(uint64_t digest, const void *bytes, size_t count)
{
	const uint8_t *at = bytes;

	digest = (digest ^ count) * UINT64_C(0x100000001b3);
	while (count--)
		digest = (digest ^ *at++) * UINT64_C(0x100000001b3);
	return digest;
}

#endif
