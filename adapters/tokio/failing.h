/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* failing.h - calls inside polls that fail again and again: for want of a descriptor, or of
 * anything to read or write.
 *
 * Rule:   a thread counts calls that found no free descriptor (EMFILE, ENFILE), and those in a row
 *         on one descriptor that would have blocked (EAGAIN). It records the count when it reaches
 *         a power of two; of the second kind from KY_TOKIO_ROW_MIN on, as a healthy program has
 *         one after each that succeeds. So a thread records at most 64 for each count.
 * Cost:   of a call that succeeds a test; of one that would have blocked a few more.
 */
#ifndef KY_TOKIO_FAILING_H
#define KY_TOKIO_FAILING_H

#include <kymo/base.h>
#include <stdint.h>

#define KY_TOKIO_ROW_MIN 256u

struct ky_tokio_failing {
	uint32_t full_count; /* for want of a descriptor, of this thread */
	uint32_t row_count;  /* in a row, on: */
	int32_t row_descriptor;
	int32_t row_number;
};

extern __thread struct ky_tokio_failing ky_tokio_failing __attribute__((tls_model("initial-exec")));

/* The call with this number failed, and errno says why. Leaves that alone. */
void ky_tokio_call_failed(int32_t number, int32_t descriptor);

/* begin: ky_tokio_call_begin(). */
static inline void ky_tokio_call_ended(uint64_t begin, int32_t number, int32_t descriptor,
				       int64_t result)
{
	if (!begin)
		return;
	if (result == -1)
		ky_tokio_call_failed(number, descriptor);
	else if (ky_tokio_failing.row_count && descriptor == ky_tokio_failing.row_descriptor)
		ky_tokio_failing.row_count = 0;
}

#endif
