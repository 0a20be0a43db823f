/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* thunks_x86_64.S - one entry per patched slot: the index in the second argument register, then
 * on to the C hook. No frame, no look-up, nothing of the caller's touched. */
#define TABLES 4096
#define COPIES 32

	.text

	.macro thunks name, hook, count
	.p2align 4
	.globl \name
	.hidden \name
	.type \name, @function
\name:
	.set index, 0
	.rept \count
	mov $index, %esi
	jmp \hook
	.p2align 4
	.set index, index + 1
	.endr
	.size \name, . - \name
	.endm

	thunks ky_tokio_poll_thunks, ky_tokio_on_poll, TABLES
	thunks ky_tokio_shutdown_thunks, ky_tokio_on_shutdown, TABLES
	thunks ky_tokio_clone_thunks, ky_tokio_on_clone, COPIES
	thunks ky_tokio_wake_thunks, ky_tokio_on_wake, COPIES
	thunks ky_tokio_wake_by_ref_thunks, ky_tokio_on_wake_by_ref, COPIES

/* long syscall(long number, ...): futex waits and wakes, prctl and seccomp go to C, all else
 * straight to libc's, with the stack exactly as the caller left it (clone, vfork and friends stay
 * what they are). */
	.p2align 4
	.globl ky_tokio_syscall
	.hidden ky_tokio_syscall
	.type ky_tokio_syscall, @function
ky_tokio_syscall:
	cmp $202, %rdi
	je ky_tokio_on_futex
	cmp $157, %rdi
	je ky_tokio_on_confining
	cmp $317, %rdi
	je ky_tokio_on_confining
	jmp *syscall@GOTPCREL(%rip)
	.size ky_tokio_syscall, . - ky_tokio_syscall

/* void *dlsym(void *handle, const char *name): with the caller's return address, on which it
 * depends. The look changes neither. */
	.p2align 4
	.globl ky_tokio_dlsym
	.hidden ky_tokio_dlsym
	.type ky_tokio_dlsym, @function
ky_tokio_dlsym:
	push %rdi
	push %rsi
	sub $8, %rsp
	call ky_tokio_late_look
	add $8, %rsp
	pop %rsi
	pop %rdi
	jmp *dlsym@GOTPCREL(%rip)
	.size ky_tokio_dlsym, . - ky_tokio_dlsym

	.section .note.GNU-stack, "", @progbits
