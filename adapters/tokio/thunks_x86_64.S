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
	.cfi_startproc
\name:
	.set index, 0
	.rept \count
	mov $index, %esi
	jmp \hook
	.p2align 4
	.set index, index + 1
	.endr
	.cfi_endproc
	.size \name, . - \name
	.endm

	thunks ky_tokio_poll_thunks, ky_tokio_on_poll, TABLES
	thunks ky_tokio_shutdown_thunks, ky_tokio_on_shutdown, TABLES
	thunks ky_tokio_clone_thunks, ky_tokio_enter_clone, COPIES
	thunks ky_tokio_wake_thunks, ky_tokio_on_wake, COPIES
	thunks ky_tokio_wake_by_ref_thunks, ky_tokio_on_wake_by_ref, COPIES

/* A clone that nobody records is two tests and a jump to Tokio's own. The first one of a poll has
 * to be decided; what is usual, that its place is not taken, ends here. Where it is taken, the hook
 * gets the registers of whoever clones: struct kymo_stack_start. Like any caller it stands at its
 * call, so the return address minus 1. Offsets: hooks.c. */
#define GATE_WAKER_CLONE 0x40
#define NAME_BITS 24
#define SELF_PLACE_HEADER 8
#define SELF_PLACE_TASK_WORD 16
#define SELF_PLACE_LEFT 32
#define SELF_CHOOSER 152
#define PLACES_UNDECIDED 9
#define WAKER_CLONE 8
	.p2align 4
	.globl ky_tokio_enter_clone
	.hidden ky_tokio_enter_clone
	.type ky_tokio_enter_clone, @function
	.cfi_startproc
ky_tokio_enter_clone:
	mov ky_tokio_self@GOTTPOFF(%rip), %rax
	cmp %rdi, %fs:SELF_PLACE_HEADER(%rax)
	je .Lplace
.Lplaced:
	mov kymo_control@GOTPCREL(%rip), %rax
	testl $GATE_WAKER_CLONE, (%rax)
	jnz ky_tokio_on_clone
	lea ky_tokio_wakers(%rip), %rax
	lea (%rsi,%rsi,4), %esi
	jmp *WAKER_CLONE(%rax,%rsi,8)
.Lplace:
	sub $56, %rsp
	.cfi_adjust_cfa_offset 56
	mov %rdi, 32(%rsp)
	mov %rsi, 40(%rsp)
	cmpl $PLACES_UNDECIDED, %fs:SELF_PLACE_LEFT(%rax)
	jne .Lwanted
	mov %fs:SELF_PLACE_TASK_WORD(%rax), %rsi
	/* Until it is known otherwise, no further clone is asked about. */
	movq $0, %fs:SELF_PLACE_HEADER(%rax)
	mov %fs:0, %rdi
	shr $NAME_BITS, %rsi
	lea SELF_CHOOSER(%rdi,%rax), %rdi
	call kymo_place_choose@PLT
	test %eax, %eax
	jnz .Lchosen
.Lasked:
	mov 32(%rsp), %rdi
	mov 40(%rsp), %rsi
	add $56, %rsp
	.cfi_remember_state
	.cfi_adjust_cfa_offset -56
	jmp .Lplaced
.Lchosen:
	.cfi_restore_state
	mov 32(%rsp), %rdi
	mov %eax, %esi
	call ky_tokio_choose_place
.Lwanted:
	mov 56(%rsp), %rax
	dec %rax
	mov %rax, (%rsp)
	lea 64(%rsp), %rax
	mov %rax, 8(%rsp)
	mov %rbp, 16(%rsp)
	mov %rbx, 24(%rsp)
	mov %rsp, %rdi
	call ky_tokio_take_place
	jmp .Lasked
	.cfi_endproc
	.size ky_tokio_enter_clone, . - ky_tokio_enter_clone

/* long syscall(long number, ...): futex waits and wakes, prctl and seccomp go to C, all else
 * straight to libc's, with the stack exactly as the caller left it (clone, vfork and friends stay
 * what they are). */
	.p2align 4
	.globl ky_tokio_syscall
	.hidden ky_tokio_syscall
	.type ky_tokio_syscall, @function
	.cfi_startproc
ky_tokio_syscall:
	cmp $202, %rdi
	je ky_tokio_on_futex
	cmp $157, %rdi
	je ky_tokio_on_confining
	cmp $317, %rdi
	je ky_tokio_on_confining
	jmp *syscall@GOTPCREL(%rip)
	.cfi_endproc
	.size ky_tokio_syscall, . - ky_tokio_syscall

/* void *dlsym(void *handle, const char *name): with the caller's return address, on which it
 * depends. The look changes neither. */
	.p2align 4
	.globl ky_tokio_dlsym
	.hidden ky_tokio_dlsym
	.type ky_tokio_dlsym, @function
	.cfi_startproc
ky_tokio_dlsym:
	push %rdi
	.cfi_adjust_cfa_offset 8
	push %rsi
	.cfi_adjust_cfa_offset 8
	sub $8, %rsp
	.cfi_adjust_cfa_offset 8
	call ky_tokio_late_check
	add $8, %rsp
	.cfi_adjust_cfa_offset -8
	pop %rsi
	.cfi_adjust_cfa_offset -8
	pop %rdi
	.cfi_adjust_cfa_offset -8
	jmp *dlsym@GOTPCREL(%rip)
	.cfi_endproc
	.size ky_tokio_dlsym, . - ky_tokio_dlsym

	.section .note.GNU-stack, "", @progbits
