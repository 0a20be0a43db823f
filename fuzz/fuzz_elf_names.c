/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A hostile executable: names of tables and functions in it are bounded, and the same every time.
 */
#include "fuzz_target.h"

#include <elf/call_target.h>
#include <symbol/blaze.h>
#include <symbol/object_methods.h>
#include <symbol/task_names.h>
#include <string.h>

/* Tables of trait objects, and what a call names. */
static void ask_objects(const uint8_t *bytes, size_t byte_count, uint64_t address)
{
	static const char generic[] = "<F as a::H>::call::{{closure}}";
	struct ky_object_methods methods;
	uint64_t target, again;
	struct ky_elf *elf;
	char out[512];

	if (ky_elf_open_memory(&elf, bytes, byte_count) < 0)
		return;
	if (ky_call_target(elf, address, &target))
		FUZZ_CHECK(ky_call_target(elf, address, &again) && again == target);
	if (ky_object_methods_read(&methods, elf) == 0) {
		FUZZ_CHECK(ky_object_method_name(&methods, elf, address, generic, out,
						 sizeof(out)) < sizeof(out));
		ky_object_methods_release(&methods);
	}
	ky_elf_close(elf);
}

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
	ask_objects(bytes, byte_count, address);
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
