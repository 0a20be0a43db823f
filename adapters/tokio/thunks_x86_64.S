/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* thunks_x86_64.S - one entry per patched slot: the index in the second argument register, then
 * on to the C hook. No frame, no look-up, nothing of the caller's touched. Slots of what has the
 * shape of a table, and no name, get the second half of the polls' and shutdowns' thunks. */
#define TABLES 4096
#define TABLE_BYTES 48
#define TABLE_SHUTDOWN 8
#define TABLE_STATE 24
#define STATE_NEW 0
#define STATE_REFUSED 4
#define COPIES 32
#define ROOTS 32

	.text

	.macro thunks name, hook, count, guard
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
	.ifnb \guard
	.set index, 0
	.rept \count
	mov $index, %r11d
	jmp \guard
	.p2align 4
	.set index, index + 1
	.endr
	.endif
	.cfi_endproc
	.size \name, . - \name
	.endm

	thunks ky_tokio_poll_thunks, ky_tokio_on_poll, TABLES, ky_tokio_guard_poll
	thunks ky_tokio_shutdown_thunks, ky_tokio_on_shutdown, TABLES, ky_tokio_guard_shutdown
	thunks ky_tokio_clone_thunks, ky_tokio_enter_clone, COPIES
	thunks ky_tokio_wake_thunks, ky_tokio_enter_wake, COPIES
	thunks ky_tokio_wake_by_ref_thunks, ky_tokio_enter_wake_by_ref, COPIES
	thunks ky_tokio_root_clone_thunks, ky_tokio_enter_root_clone, ROOTS
	thunks ky_tokio_root_wake_thunks, ky_tokio_on_root_wake, ROOTS
	thunks ky_tokio_root_wake_by_ref_thunks, ky_tokio_on_root_wake_by_ref, ROOTS

/* What has the shape of a table may be another library's, with functions of more arguments than
 * one. So until its first poll has shown what it is, and for good where that said no, every
 * register that may carry an argument reaches the original as it was. r11 has the index. */
	.macro guard name, original, check, hook
	.p2align 4
	.globl \name
	.hidden \name
	.type \name, @function
	.cfi_startproc
\name:
	push %rax
	.cfi_adjust_cfa_offset 8
	push %r11
	.cfi_adjust_cfa_offset 8
	imul $TABLE_BYTES, %r11, %r11
	lea ky_tokio_tables(%rip), %rax
	add %rax, %r11
	mov TABLE_STATE(%r11), %eax
	cmp $STATE_NEW, %eax
	je .Lnew\@
	cmp $STATE_REFUSED, %eax
	je .Lpass\@
.Lours\@:
	pop %rsi
	.cfi_adjust_cfa_offset -8
	.cfi_remember_state
	pop %rax
	.cfi_adjust_cfa_offset -8
	jmp \hook
.Lpass\@:
	.cfi_restore_state
	.cfi_adjust_cfa_offset 8
	mov \original(%r11), %r11
	add $8, %rsp
	.cfi_adjust_cfa_offset -8
	pop %rax
	.cfi_adjust_cfa_offset -8
	jmp *%r11
.Lnew\@:
	.cfi_adjust_cfa_offset 16
	sub $200, %rsp
	.cfi_adjust_cfa_offset 200
	mov %rdi, (%rsp)
	mov %rsi, 8(%rsp)
	mov %rdx, 16(%rsp)
	mov %rcx, 24(%rsp)
	mov %r8, 32(%rsp)
	mov %r9, 40(%rsp)
	mov %r10, 48(%rsp)
	mov %r11, 56(%rsp)
	movups %xmm0, 64(%rsp)
	movups %xmm1, 80(%rsp)
	movups %xmm2, 96(%rsp)
	movups %xmm3, 112(%rsp)
	movups %xmm4, 128(%rsp)
	movups %xmm5, 144(%rsp)
	movups %xmm6, 160(%rsp)
	movups %xmm7, 176(%rsp)
	mov 200(%rsp), %esi
	call \check
	mov (%rsp), %rdi
	mov 8(%rsp), %rsi
	mov 16(%rsp), %rdx
	mov 24(%rsp), %rcx
	mov 32(%rsp), %r8
	mov 40(%rsp), %r9
	mov 48(%rsp), %r10
	mov 56(%rsp), %r11
	movups 64(%rsp), %xmm0
	movups 80(%rsp), %xmm1
	movups 96(%rsp), %xmm2
	movups 112(%rsp), %xmm3
	movups 128(%rsp), %xmm4
	movups 144(%rsp), %xmm5
	movups 160(%rsp), %xmm6
	movups 176(%rsp), %xmm7
	add $200, %rsp
	.cfi_adjust_cfa_offset -200
	test %eax, %eax
	jnz .Lours\@
	jmp .Lpass\@
	.cfi_endproc
	.size \name, . - \name
	.endm

	guard ky_tokio_guard_poll, 0, ky_tokio_check_poll, ky_tokio_on_poll
	guard ky_tokio_guard_shutdown, TABLE_SHUTDOWN, ky_tokio_check_shutdown, ky_tokio_on_shutdown

/* A clone of another header than the one that is polled is two tests and a jump to Tokio's own. Of
 * that one the hook gets the registers of the function that clones: struct kymo_stack_start. Like
 * any caller it stands at its call, so the return address minus 1. Offsets: hooks.c. */
#define GATE_WAKER_CLONE 0x40
#define SELF_PLACE_HEADER 8
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
	mov 56(%rsp), %rax
	dec %rax
	mov %rax, (%rsp)
	lea 64(%rsp), %rax
	mov %rax, 8(%rsp)
	mov %rbp, 16(%rsp)
	mov %rbx, 24(%rsp)
	mov %rsp, %rdi
	call ky_tokio_take_place
	mov 32(%rsp), %rdi
	mov 40(%rsp), %rsi
	add $56, %rsp
	.cfi_adjust_cfa_offset -56
	jmp .Lplaced
	.cfi_endproc
	.size ky_tokio_enter_clone, . - ky_tokio_enter_clone

/* A wake, while wakes are recorded: the hook with the same registers, then the original. */
#define GATE_WAKE 0x2
#define WAKER_WAKE 16
#define WAKER_WAKE_BY_REF 24
	.macro enter_wake name, hook, original
	.p2align 4
	.globl \name
	.hidden \name
	.type \name, @function
	.cfi_startproc
\name:
	mov kymo_control@GOTPCREL(%rip), %rax
	testl $GATE_WAKE, (%rax)
	jnz .Lwake\@
.Lwoken\@:
	lea ky_tokio_wakers(%rip), %rax
	lea (%rsi,%rsi,4), %esi
	jmp *\original(%rax,%rsi,8)
.Lwake\@:
	sub $56, %rsp
	.cfi_adjust_cfa_offset 56
	mov %rdi, 32(%rsp)
	mov %rsi, 40(%rsp)
	mov 56(%rsp), %rax
	dec %rax
	mov %rax, (%rsp)
	lea 64(%rsp), %rax
	mov %rax, 8(%rsp)
	mov %rbp, 16(%rsp)
	mov %rbx, 24(%rsp)
	mov %rsp, %rdx
	call \hook
	mov 32(%rsp), %rdi
	mov 40(%rsp), %rsi
	add $56, %rsp
	.cfi_adjust_cfa_offset -56
	jmp .Lwoken\@
	.cfi_endproc
	.size \name, . - \name
	.endm

	enter_wake ky_tokio_enter_wake, ky_tokio_on_wake, WAKER_WAKE
	enter_wake ky_tokio_enter_wake_by_ref, ky_tokio_on_wake_by_ref, WAKER_WAKE_BY_REF

/* A clone of a root's waker: the hook with the same registers, then the original. */
	.p2align 4
	.globl ky_tokio_enter_root_clone
	.hidden ky_tokio_enter_root_clone
	.type ky_tokio_enter_root_clone, @function
	.cfi_startproc
ky_tokio_enter_root_clone:
	sub $56, %rsp
	.cfi_adjust_cfa_offset 56
	mov %rdi, 32(%rsp)
	mov %rsi, 40(%rsp)
	mov 56(%rsp), %rax
	dec %rax
	mov %rax, (%rsp)
	lea 64(%rsp), %rax
	mov %rax, 8(%rsp)
	mov %rbp, 16(%rsp)
	mov %rbx, 24(%rsp)
	mov %rsp, %rdx
	call ky_tokio_on_root_clone
	mov 32(%rsp), %rdi
	mov 40(%rsp), %rsi
	add $56, %rsp
	.cfi_adjust_cfa_offset -56
	lea ky_tokio_root_tables(%rip), %rax
	lea (%rsi,%rsi,4), %esi
	jmp *WAKER_CLONE(%rax,%rsi,8)
	.cfi_endproc
	.size ky_tokio_enter_root_clone, . - ky_tokio_enter_root_clone

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
#ifdef KY_TOKIO_OWN_CALLS_H
	jmp ky_own_syscall
#else
	jmp *syscall@GOTPCREL(%rip)
#endif
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
