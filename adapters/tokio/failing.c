/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "failing.h"

#include <errno.h>
#include <kymo/emit.h>

__thread struct ky_tokio_failing ky_tokio_failing;

static void count(uint32_t *counter, uint32_t least, int error, int32_t number, int32_t descriptor)
{
	uint32_t now = *counter + (*counter != UINT32_MAX);
	uint64_t fd = descriptor >= 0 ? (uint64_t)(uint32_t)descriptor + 1 : 0;

	*counter = now;
	if (now < least || (now & (now - 1)))
		return;
	if (fd > KYMO_FAILED_FD_MAX)
		fd = 0;
	kymo_emit(KYMO_GATE_OFF_CPU, KYMO_RECORD_FAILED_CALLS, (uint32_t)error, 1,
		  (uint64_t)(uint32_t)number << 52 | fd << 32 | now, 0, 0);
}

void ky_tokio_call_failed(int32_t number, int32_t descriptor)
{
	struct ky_tokio_failing *failing = &ky_tokio_failing;
	int error = errno;

	if (error == EMFILE || error == ENFILE) {
		count(&failing->full_count, 1, error, number, descriptor);
	} else if (error == EAGAIN) {
		if (failing->row_descriptor != descriptor || failing->row_number != number) {
			failing->row_descriptor = descriptor;
			failing->row_number = number;
			failing->row_count = 0;
		}
		count(&failing->row_count, KY_TOKIO_ROW_MIN, error, number, descriptor);
	}
	errno = error;
}
