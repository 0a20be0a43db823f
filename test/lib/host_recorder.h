/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* host_recorder.h - for programs that tests run under `kymo run`: a recorder that another
 * process drains, as large as KYMO_RING_BYTES says, and polls of one name. Include it in one file
 * only.
 */
#ifndef KY_TEST_HOST_RECORDER_H
#define KY_TEST_HOST_RECORDER_H

#include <kymo/kymo.h>
#include <stdint.h>
#include <stdlib.h>

static uint32_t name;

static void poll_times(uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		kymo_poll_begin(1 + i % 100, name, KYMO_QUEUE_UNKNOWN);
		kymo_poll_end(0);
	}
}

static int open_recorder(void)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct kymo_recorder *recorder;
	const char *bytes = getenv("KYMO_RING_BYTES");
	int err;

	options.flags = KYMO_RECORDER_NO_DRAIN | KYMO_RECORDER_STREAM;
	if (bytes)
		options.ring_bytes = strtoull(bytes, NULL, 10);
	err = kymo_recorder_open(&recorder, &options);
	if (err < 0)
		return err;
	name = kymo_name_intern("host::job", 9, 0, 0, 0);
	return 0;
}

#endif
