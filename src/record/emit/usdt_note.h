/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* usdt_note.h - one static tracepoint: an instruction that does nothing, and a note in the file
 * about it ("stapsdt", version 3, as readelf -n prints it).
 *
 * Not <sys/sdt.h>: its one byte is stepped over by a trap at each hit. The kernel makes a call of
 * five bytes that do nothing (Linux 6.18 on x86_64), which halves what a hit takes.
 * The note is not loaded; `strip` leaves it, and where the code of a section goes the note of a
 * group goes along.
 */
#ifndef KY_RECORD_EMIT_USDT_NOTE_H
#define KY_RECORD_EMIT_USDT_NOTE_H

#include <stdint.h>

#if defined(__x86_64__)
#define KY_USDT_NOP ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00"
#elif defined(__aarch64__)
#define KY_USDT_NOP "nop"
#endif

#if defined(KY_USDT_NOP) && !defined(KYMO_WITHOUT_USDT)
/* semaphore: its number among those of kymo_usdt_semaphores; arguments: "8@%0 8@%1 ...", of the
 * operands that follow, each a register. */
#define KY_USDT_NOTE(provider, name, semaphore, arguments, ...)                                    \
	__asm__ volatile(                                                                          \
		"990: " KY_USDT_NOP "\n"                                                           \
		".pushsection .note.stapsdt, \"?\", \"note\"\n"                                    \
		".balign 4\n"                                                                      \
		".4byte 992f - 991f, 994f - 993f, 3\n"                                             \
		"991: .asciz \"stapsdt\"\n"                                                        \
		"992: .balign 4\n"                                                                 \
		"993: .8byte 990b\n"                                                               \
		".8byte _.stapsdt.base\n"                                                          \
		".8byte kymo_usdt_semaphores + 2 * " #semaphore "\n"                               \
		".asciz \"" #provider "\"\n"                                                       \
		".asciz \"" #name "\"\n"                                                           \
		".asciz \"" arguments "\"\n"                                                       \
		"994: .balign 4\n"                                                                 \
		".popsection\n"                                                                    \
		".ifndef _.stapsdt.base\n"                                                         \
		".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n"        \
		".weak _.stapsdt.base\n"                                                           \
		".hidden _.stapsdt.base\n"                                                         \
		"_.stapsdt.base: .space 1\n"                                                       \
		".size _.stapsdt.base, 1\n"                                                        \
		".popsection\n"                                                                    \
		".endif\n" ::__VA_ARGS__)
#else
#define KY_USDT_NOTE(provider, name, semaphore, arguments, ...) __asm__ volatile("" ::__VA_ARGS__)
#endif

#define KY_USDT_IN(value) "r"((uint64_t)(value))
#define KY_USDT_3(provider, name, semaphore, a, b, c)                                              \
	KY_USDT_NOTE(provider, name, semaphore, "8@%0 8@%1 8@%2", KY_USDT_IN(a), KY_USDT_IN(b),    \
		     KY_USDT_IN(c))
#define KY_USDT_4(provider, name, semaphore, a, b, c, d)                                           \
	KY_USDT_NOTE(provider, name, semaphore, "8@%0 8@%1 8@%2 8@%3", KY_USDT_IN(a),              \
		     KY_USDT_IN(b), KY_USDT_IN(c), KY_USDT_IN(d))
#define KY_USDT_7(provider, name, semaphore, a, b, c, d, e, f, g)                                  \
	KY_USDT_NOTE(provider, name, semaphore, "8@%0 8@%1 8@%2 8@%3 8@%4 8@%5 8@%6",              \
		     KY_USDT_IN(a), KY_USDT_IN(b), KY_USDT_IN(c), KY_USDT_IN(d), KY_USDT_IN(e),    \
		     KY_USDT_IN(f), KY_USDT_IN(g))

#endif
