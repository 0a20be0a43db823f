/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <elf/call_target.h>

#include <elf.h>
#include <string.h>

#define CALL_BYTES 5u   /* e8, and a distance */
#define MEMORY_BYTES 6u /* ff 15, and a distance: call *slot(%rip) */
#define BRANCH_BYTES 4u /* aarch64: bl */

static bool of_x86(const struct ky_elf *elf, uint64_t at, uint64_t *out)
{
	uint8_t code[MEMORY_BYTES];
	int32_t distance;

	if (at < MEMORY_BYTES ||
	    ky_elf_read(elf, at - MEMORY_BYTES, code, sizeof(code)) != sizeof(code))
		return false;
	memcpy(&distance, code + MEMORY_BYTES - sizeof(distance), sizeof(distance));
	*out = at + (uint64_t)(int64_t)distance;
	if (code[0] == 0xff && code[1] == 0x15)
		return ky_elf_word(elf, *out, out) == 0 && ky_elf_is_code(elf, *out);
	return code[MEMORY_BYTES - CALL_BYTES] == 0xe8 && ky_elf_is_code(elf, *out);
}

static bool of_aarch64(const struct ky_elf *elf, uint64_t at, uint64_t *out)
{
	uint32_t code;
	int64_t words;

	if (at < BRANCH_BYTES ||
	    ky_elf_read(elf, at - BRANCH_BYTES, (uint8_t *)&code, sizeof(code)) != sizeof(code) ||
	    code >> 26 != 0x25)
		return false;
	words = (int64_t)(code & 0x03ffffff) - (code & 0x02000000 ? 0x04000000 : 0);
	*out = at - BRANCH_BYTES + (uint64_t)(words * 4);
	return ky_elf_is_code(elf, *out);
}

bool ky_call_target(const struct ky_elf *elf, uint64_t return_address, uint64_t *out)
{
	return ky_elf_machine(elf) == EM_X86_64 ? of_x86(elf, return_address, out) :
						  of_aarch64(elf, return_address, out);
}
