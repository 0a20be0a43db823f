/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* tokio_arch.h - the architecture's part of the adapter; thunks_<arch>.S beside it is the other
 * half.
 *
 * Each architecture provides:
 *   ky_tokio_arch_target(code, bytes, is_slot)  the absolute address that the instruction
 *                                       starting at `code` calls, jumps to or takes; 0 when it
 *                                       is none of these. *is_slot: that address holds the
 *                                       target (a GOT slot)
 *   KY_TOKIO_GOT_RELOCATION(type)       true for relocations whose place holds a symbol's address
 *   ky_tokio_arch_adds_reference(code, bytes)  true when this function begins with a locked
 *                                       addition of 0x40 to the word at its first argument
 *   ky_tokio_arch_has_reference(), ky_tokio_arch_has_addition()  the two halves of it, anywhere in
 *                                       this code: the constant, and a locked addition
 *   KY_TOKIO_THUNK_BYTES                distance of two thunks
 *   ky_tokio_arch_sp()                  the stack pointer of the function that asks
 */
#ifndef KY_TOKIO_ARCH_H
#define KY_TOKIO_ARCH_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define KY_TOKIO_TABLES_MAX 4096
#define KY_TOKIO_COPIES_MAX 32
#define KY_TOKIO_ROOT_TABLES_MAX 32

#if defined(__x86_64__)

#define KY_TOKIO_THUNK_BYTES 16
#define KY_TOKIO_GOT_RELOCATION(type)                                                              \
	((type) == R_X86_64_GLOB_DAT || (type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_64)

static inline uintptr_t ky_tokio_arch_sp(void)
{
	uintptr_t sp;

	__asm__ volatile("mov %%rsp, %0" : "=r"(sp));
	return sp;
}

static inline uintptr_t ky_tokio_arch_target(const uint8_t *code, size_t bytes, bool *is_slot)
{
	size_t opcode_bytes;
	int32_t distance;
	uint32_t absolute;

	*is_slot = false;
	/* Code that was linked to a fixed address names it outright: mov reg, imm32. */
	if (bytes >= 5 && (code[0] & 0xf8) == 0xb8) {
		memcpy(&absolute, code + 1, sizeof(absolute));
		return absolute;
	}
	if (bytes >= 7 && (code[0] & 0xfe) == 0x48 && code[1] == 0xc7 && (code[2] & 0xf8) == 0xc0) {
		memcpy(&absolute, code + 3, sizeof(absolute));
		return absolute;
	}
	if (bytes >= 5 && (code[0] == 0xe8 || code[0] == 0xe9)) { /* call, jmp */
		opcode_bytes = 1;
	} else if (bytes >= 6 && code[0] == 0x0f && (code[1] & 0xf0) == 0x80) { /* jcc */
		opcode_bytes = 2;
	} else if (bytes >= 7 && (code[0] & 0xf8) == 0x48 && (code[2] & 0xc7) == 0x05 &&
		   (code[1] == 0x8d || code[1] == 0x8b)) { /* lea, mov reg, [rip + distance] */
		opcode_bytes = 3;
		*is_slot = code[1] == 0x8b;
	} else if (bytes >= 6 && code[0] == 0xff && (code[1] == 0x15 || code[1] == 0x25)) {
		opcode_bytes = 2; /* call, jmp [rip + distance] */
		*is_slot = true;
	} else {
		return 0;
	}
	memcpy(&distance, code + opcode_bytes, sizeof(distance));
	return (uintptr_t)code + opcode_bytes + sizeof(distance) + (uintptr_t)(intptr_t)distance;
}

/* mov eax, 0x40 or push 0x40; pop rax; then lock xadd [rdi], rax; in any register, and with a frame
 * set up in front. */
static inline bool ky_tokio_arch_adds_reference(const uint8_t *code, size_t bytes)
{
	static const uint8_t long_form[] = {0x40, 0, 0, 0};
	bool is_loaded = false;

	for (size_t at = 0; at + 5 <= bytes; at++) {
		if ((code[at] & 0xf8) == 0xb8 && memcmp(code + at + 1, long_form, 4) == 0)
			is_loaded = true;
		if (code[at] == 0x6a && code[at + 1] == 0x40 && (code[at + 2] & 0xf8) == 0x58)
			is_loaded = true;
		/* lock xadd [rdi], r64 */
		if (code[at] == 0xf0 && (code[at + 1] & 0xfb) == 0x48 && code[at + 2] == 0x0f &&
		    code[at + 3] == 0xc1 && (code[at + 4] & 0xc7) == 0x07)
			return is_loaded;
		/* lock add qword [rdi], 0x40: where the result is not looked at */
		if (at + 5 <= bytes && code[at] == 0xf0 && code[at + 1] == 0x48 &&
		    code[at + 2] == 0x83 && code[at + 3] == 0x07 && code[at + 4] == 0x40)
			return true;
		if (code[at] == 0xc3 || code[at] == 0xe8 || code[at] == 0xe9)
			return false;
	}
	return false;
}

/* mov r32, 0x40 */
static inline bool ky_tokio_arch_has_reference(const uint8_t *code, size_t bytes)
{
	static const uint8_t constant[] = {0x40, 0, 0, 0};

	for (size_t at = 0; at + 5 <= bytes; at++)
		if ((code[at] & 0xf8) == 0xb8 && memcmp(code + at + 1, constant, 4) == 0)
			return true;
	return false;
}

/* lock xadd */
static inline bool ky_tokio_arch_has_addition(const uint8_t *code, size_t bytes)
{
	for (size_t at = 0; at + 4 <= bytes; at++)
		if (code[at] == 0xf0 && (code[at + 1] & 0xf8) == 0x48 && code[at + 2] == 0x0f &&
		    code[at + 3] == 0xc1)
			return true;
	return false;
}

#else
#error "adapters/tokio: no thunks for this architecture yet"
#endif

#endif
