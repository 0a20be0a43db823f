/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* own_calls_x86_64.S - see own_calls.h. The words are relocated as any other; got.c leaves out
 * those between ky_tokio_own_calls and ky_tokio_own_calls_end. */
#include "own_calls.h"

.macro own_call name
	.section .data.rel.ro.ky_own_calls, "aw", @progbits
	.balign 8
ky_own_word_\name:
	.quad \name
	.text
	.balign 16
	.globl ky_own_\name
	.hidden ky_own_\name
	.type ky_own_\name, @function
ky_own_\name:
	.cfi_startproc
	endbr64
	jmp *ky_own_word_\name(%rip)
	.cfi_endproc
	.size ky_own_\name, . - ky_own_\name
.endm

	.section .data.rel.ro.ky_own_calls, "aw", @progbits
	.balign 8
	.globl ky_tokio_own_calls
	.hidden ky_tokio_own_calls
ky_tokio_own_calls:

#define OWN_CALL(name, number, reason, type, parameters, arguments) own_call name;
#define OTHER_CALL(name) own_call name;
KY_TOKIO_CALLS(OWN_CALL)
KY_TOKIO_OTHER_CALLS(OTHER_CALL)

	.section .data.rel.ro.ky_own_calls, "aw", @progbits
	.globl ky_tokio_own_calls_end
	.hidden ky_tokio_own_calls_end
ky_tokio_own_calls_end:

	.section .note.GNU-stack, "", @progbits
