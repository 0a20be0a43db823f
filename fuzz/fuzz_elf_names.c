/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A hostile executable: names of tables and functions in it are bounded, and the same every time.
 */
#include "fuzz_target.h"

#include <symbol/blaze.h>
#include <symbol/task_names.h>
#include <string.h>

/* The first eight bytes choose an address; the rest is the file. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t byte_count)
{
	struct ky_task_names *names;
	char first[512], second[512];
	uint64_t address;
	size_t count;

	if (byte_count < sizeof(address))
		return 0;
	memcpy(&address, bytes, sizeof(address));
	bytes += sizeof(address);
	byte_count -= sizeof(address);
	count = ky_blaze_demangle((const char *)bytes, byte_count, first, sizeof(first));
	FUZZ_CHECK(count <= sizeof(first));
	if (ky_task_names_open_memory(&names, bytes, byte_count) < 0)
		return 0;
	count = ky_task_name(names, address, first, sizeof(first));
	FUZZ_CHECK(count < sizeof(first));
	FUZZ_CHECK(ky_task_name(names, address, second, sizeof(second)) == count);
	FUZZ_CHECK(memcmp(first, second, count) == 0);
	FUZZ_CHECK(ky_function_name(names, address, first, sizeof(first)) < sizeof(first));
	ky_task_names_close(names);
	return 0;
}
