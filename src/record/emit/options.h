/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* options.h - what kymo_recorder_open() accepts. Pure checks, one sentence per refusal.
 * Threads: any.   Signals: unsafe.
 */
#ifndef KY_RECORD_EMIT_OPTIONS_H
#define KY_RECORD_EMIT_OPTIONS_H

#include <kymo/emit.h>
#include <kymo/recorder.h>

#define KY_GATES_ALL                                                                               \
	((uint32_t)KYMO_GATES_DEFAULT | KYMO_GATE_WAKER_CLONE | KYMO_GATE_ALLOC | KYMO_GATE_CONN)
#define KY_METADATA_KEY_BYTES_MAX 255u
#define KY_METADATA_VALUE_BYTES_MAX 1024u
#define KY_METADATA_COUNT_MAX 64u

/* Any options struct of the public API, which begins with its size: copies what the caller's
 * version has, zero elsewhere. out_bytes: of our version. options: NULL, all zero. Returns 0;
 * -EINVAL: less than the size itself; -E2BIG: more than we know, and not zero. */
int ky_options_copy(void *out, size_t out_bytes, const void *options);

/* Copies what the caller's version of the struct has; zero elsewhere. options may be NULL.
 * Returns  0; -E2BIG; -EINVAL. errbuf of the options then holds the reason. */
int ky_options_take(struct kymo_recorder_options *out, const struct kymo_recorder_options *options);

/* One sentence into the options' errbuf, where there is one. Returns code. */
int ky_options_say(const struct kymo_recorder_options *options, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Returns 0; -EINVAL: missing, empty, too long, or a key that only kymo writes. */
int ky_metadata_check(const char *key, const char *value);

#endif
