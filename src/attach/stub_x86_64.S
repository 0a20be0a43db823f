/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* stub_x86_64.S - what is copied into the process: its first page is this, its second the block
 * (struct kymo_attach_block). Position-independent; calls only through the block. */
#define THREAD 64
#define MESSAGE 72
#define PAUSE 80
#define IS_BACK 96
#define CREATE_ERROR 100
#define READS_MAX 104
#define STATE 112
#define ANSWER 116
#define FUNCTION 152
#define LIBRARY 1256

#define DLOPEN 0
#define DLSYM 8
#define DLERROR 16
#define THREAD_CREATE 24
#define THREAD_SELF 32
#define THREAD_DETACH 40
#define MUNMAP 48

#define PAGE_BYTES 4096
#define MEMORY_BYTES 8192
#define LOAD_FAILED 1
#define RTLD_NOW 2

#define SYS_mprotect 10
#define SYS_rt_sigreturn 15
#define SYS_nanosleep 35

	.section .rodata
	.p2align 4
	.globl ky_attach_stub_start
	.hidden ky_attach_stub_start
	.globl ky_attach_stub_end
	.hidden ky_attach_stub_end
ky_attach_stub_start:

/* The borrowed thread. rbx: block, r12: the way home, r13: the way home that gives the memory back.
 * All signals are blocked, and the new thread inherits that. */
	mov $SYS_mprotect, %eax
	mov %rbx, %rdi
	mov $PAGE_BYTES, %esi
	mov $3, %edx /* read, write */
	syscall
	test %rax, %rax
	jnz 1f
	lea THREAD(%rbx), %rdi
	xor %esi, %esi
	lea thread_main(%rip), %rdx
	mov %rbx, %rcx
	call *THREAD_CREATE(%rbx)
	mov %eax, CREATE_ERROR(%rbx)
	test %eax, %eax
	jnz 1f
	movl $1, IS_BACK(%rbx)
	mov %r12, %rsp
	jmp 2f
1:	mov %r13, %rsp
2:	mov $SYS_rt_sigreturn, %eax
	syscall

/* The new thread. rdi: block. */
thread_main:
	push %rbx
	mov %rdi, %rbx
	call *THREAD_SELF(%rbx)
	mov %rax, %rdi
	call *THREAD_DETACH(%rbx)
	lea LIBRARY(%rbx), %rdi
	mov $RTLD_NOW, %esi
	call *DLOPEN(%rbx)
	test %rax, %rax
	jz 3f
	mov %rax, %rdi
	lea FUNCTION(%rbx), %rsi
	call *DLSYM(%rbx)
	test %rax, %rax
	jz 3f
	mov %rbx, %rdi
	call *%rax
	jmp 5f

/* Not loaded: the reason stays readable until somebody has read it. */
3:	call *DLERROR(%rbx)
	mov %rax, MESSAGE(%rbx)
	movl $LOAD_FAILED, STATE(%rbx)
4:	cmpl $0, ANSWER(%rbx)
	jne 5f
	mov $SYS_nanosleep, %eax
	lea PAUSE(%rbx), %rdi
	xor %esi, %esi
	syscall
	subl $1, READS_MAX(%rbx)
	jnz 4b

/* munmap() returns to where this was called from, not to this. */
5:	lea -PAGE_BYTES(%rbx), %rdi
	mov $MEMORY_BYTES, %esi
	mov MUNMAP(%rbx), %rax
	pop %rbx
	jmp *%rax
ky_attach_stub_end:

	.section .note.GNU-stack, "", @progbits
