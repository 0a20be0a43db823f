/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* retry.h - what an answer of S3 means for a segment, and when the next try comes.
 *
 * Pure: the caller gives the time and a seed. A segment is never given up: it waits on disk, and
 * the disk's bound alone decides what goes.
 * Threads: owner.
 */
#ifndef KY_SEND_RETRY_H
#define KY_SEND_RETRY_H

#include <stdbool.h>
#include <stdint.h>

enum ky_verdict {
	KY_VERDICT_TAKEN,
	KY_VERDICT_EXISTS,   /* an object of this name is there: it is ours if the digests agree */
	KY_VERDICT_AGAIN,    /* trouble that passes: soon, later, then each 5 minutes */
	KY_VERDICT_REFRESH,  /* credentials have run out: read them anew, try at once */
	KY_VERDICT_SKEW,     /* our clock is wrong: take the server's, try at once */
	KY_VERDICT_REDIRECT, /* another region: try there at once */
	KY_VERDICT_DENIED,   /* what a person has to mend: ask again each 5 minutes */
	KY_VERDICT_REFUSED   /* this segment alone, for good */
};

/* status: of HTTP, 0: no answer came. code: of the error document, "": there was none. */
enum ky_verdict ky_retry_judge(long status, const char *code);

#define KY_RETRY_QUICK 5u /* tries with a short wait, before the breaker opens */
#define KY_RETRY_CAP_NS UINT64_C(20000000000)
#define KY_RETRY_BREAKER_NS_MAX UINT64_C(300000000000)

/* All zeros at first, but for the seed. */
struct ky_retry {
	uint64_t random;     /* not 0 */
	uint64_t breaker_ns; /* 0: closed */
	uint64_t due_ns;     /* no try before */
	uint32_t failures;   /* in a row */
	uint32_t at_once;    /* tries at once in a row, of which each kind has one */
};

/* After an answer that was no success. after_ns: what the server asked for; 0: nothing. */
void ky_retry_failed(struct ky_retry *retry, enum ky_verdict verdict, uint64_t after_ns,
		     uint64_t now_ns);
void ky_retry_succeeded(struct ky_retry *retry);
bool ky_retry_is_due(const struct ky_retry *retry, uint64_t now_ns);

#endif
