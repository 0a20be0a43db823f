/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* attach_arch.h - the architecture's part of borrowing a thread. attach_<arch>.c has the bodies;
 * attach_none.c stands in where a CPU has none, and stub_<arch>.S is what runs inside.
 *
 * The way of a borrowed thread (ky_arch_lay_out): into a system call of ours, and from there, as
 * from a signal handler, by frames on its own stack to where it was. So whatever becomes of us, it
 * finds its way back alone from the first step on, with registers, vector registers and signal
 * mask.
 */
#ifndef KY_ATTACH_ARCH_H
#define KY_ATTACH_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define KY_ARCH_REGISTERS_MAX 33u
#define KY_ARCH_CONTEXT_BYTES 16384u

/* Registers by their DWARF numbers, and where execution stands. */
struct ky_arch_frame {
	uint64_t registers[KY_ARCH_REGISTERS_MAX];
	uint64_t pc;
};

enum ky_arch_wait {
	KY_ARCH_NO_WAIT = 0,     /* some other call, or none */
	KY_ARCH_WAIT_FUTEX,      /* without end, or until a moment: restarts exactly */
	KY_ARCH_WAIT_EPOLL,      /* without end */
	KY_ARCH_WAIT_EPOLL_TIMED /* ends early once: the driver asks for the time again */
};

/* The wait that a system call number and its arguments are. */
enum ky_arch_wait ky_arch_wait_of(int64_t number, const uint64_t arguments[6]);

/* A stopped thread's registers, as the kernel gives and takes them. */
struct ky_arch_context {
	uint8_t bytes[512]; /* general registers */
	size_t byte_count;
	uint8_t vectors[KY_ARCH_CONTEXT_BYTES]; /* vector state */
	size_t vector_bytes;
	uint64_t signal_mask;
};

/* Reads all of it of a stopped thread. Returns 0 or -errno. */
int ky_arch_read(pid_t tid, struct ky_arch_context *out);
int ky_arch_write(pid_t tid, const struct ky_arch_context *context); /* general registers alone */
/* Until it goes home by ky_arch_layout, which restores the mask: not before its registers are on
 * that way. */
int ky_arch_block_signals(pid_t tid);
void ky_arch_frame_of(const struct ky_arch_context *context, struct ky_arch_frame *out);

enum ky_arch_interrupted {
	KY_ARCH_NOT_IN_CALL = 0,  /* it was not in a wait, or came back from it by itself */
	KY_ARCH_INTERRUPTED,      /* the wait can be taken up again as if nothing had been */
	KY_ARCH_INTERRUPTED_ALONE /* only by the kernel: leave it to it */
};

/* Changes `context` from "the wait was interrupted" to "the wait begins again", or to "ended as if
 * its time was over" for a timed epoll: an EINTR never reaches the program. */
enum ky_arch_interrupted ky_arch_settle(struct ky_arch_context *context);

/* Places in the process that the way back needs. */
struct ky_arch_code {
	uint64_t system_call;   /* "system call; return" */
	uint64_t signal_return; /* what a signal handler returns to */
};
struct ky_process;
/* Searches for them in the C library. False: not there. */
bool ky_arch_find_code(const struct ky_process *process, struct ky_arch_code *out);

/* Bytes that lie on the thread's stack below what it uses, and the registers for each step. */
struct ky_arch_layout {
	uint64_t stack_address;
	uint8_t stack[KY_ARCH_CONTEXT_BYTES + 4096];
	size_t stack_bytes;
	uint64_t stack_low;           /* so far down the stack must be there */
	struct ky_arch_context enter; /* asks for memory at `memory`; goes back when it has it */
	struct ky_arch_context run;   /* runs the stub there, then goes back */
	struct ky_arch_context leave; /* goes back */
};

/* settled: from ky_arch_settle(). memory: where the stub and its block shall be. Returns 0 or
 * KYMO_E_UNSUPPORTED. */
int ky_arch_lay_out(struct ky_arch_layout *out, const struct ky_arch_context *settled,
		    const struct ky_arch_code *code, uint64_t memory);

/* At the stop after the system call that asked for memory: its result. */
int64_t ky_arch_result(const struct ky_arch_context *context);

/* The stub's bytes, for the first page at `memory`; the block lies KY_STUB_BLOCK bytes after it. */
#define KY_STUB_BLOCK 4096u
#define KY_STUB_MEMORY_BYTES 8192u
const uint8_t *ky_arch_stub(size_t *bytes);

/* NULL, or why this build cannot attach at all. */
const char *ky_arch_refusal(void);

#endif
