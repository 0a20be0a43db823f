/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <attach/attach_arch.h>
#include <attach/process.h>
#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <kymo/attach.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>
#include <sys/uio.h>
#include <sys/user.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* Negative results of an interrupted call that never leave the kernel by themselves. */
enum {
	RESTART_SIGNALS = 512,
	RESTART_ALWAYS = 513,
	RESTART_NO_HANDLER = 514,
	RESTART_BLOCK = 516
};

#define SYSTEM_CALL_BYTES 2u /* 0f 05 */
#define RED_ZONE_BYTES 128u
#define STACK_NEEDED_BYTES (64u << 10) /* for pthread_create() below our frames */
#define FLAG_TRAP 0x100u
#define FLAG_DIRECTION 0x400u

/* Linux: arch/x86/include/uapi/asm/{sigcontext,ucontext}.h */
#define UC_FP_XSTATE 1u
#define UC_SIGCONTEXT_SS 2u
#define UC_STRICT_RESTORE_SS 4u
#define NO_SUCH_STACK_MODE 0x7fffffff
#define SW_BYTES_OFFSET 464u
#define XSTATE_MAGIC1 0x46505853u
#define XSTATE_MAGIC2 0x46505845u
#define XSTATE_FIXED_BYTES 576u /* legacy area and header */

_Static_assert(sizeof(struct user_regs_struct) <= sizeof(((struct ky_arch_context *)0)->bytes),
	       "general registers fit");

/* What the kernel puts on the stack for a handler, up to the signal mask. */
#define UCONTEXT_BYTES (offsetof(ucontext_t, uc_sigmask) + sizeof(uint64_t))
struct thread_frame {
	uint64_t return_address;
	uint8_t context[UCONTEXT_BYTES];
};
_Static_assert(sizeof(struct thread_frame) == 312, "as the kernel's");

const char *ky_arch_refusal(void)
{
	return NULL;
}

enum ky_arch_wait ky_arch_wait_of(int64_t number, const uint64_t arguments[6])
{
	uint32_t operation = (uint32_t)arguments[1] & (uint32_t)FUTEX_CMD_MASK;

	switch (number) {
	case SYS_futex:
		/* A wait for so long would be counted anew; one until then is not. */
		if (operation == FUTEX_WAIT_BITSET ||
		    (operation == FUTEX_WAIT && arguments[3] == 0))
			return KY_ARCH_WAIT_FUTEX;
		return KY_ARCH_NO_WAIT;
	case SYS_epoll_pwait:
		if (arguments[4] != 0) /* with a signal mask of its own */
			return KY_ARCH_NO_WAIT;
		return (int32_t)arguments[3] == -1 ? KY_ARCH_WAIT_EPOLL : KY_ARCH_WAIT_EPOLL_TIMED;
	case SYS_epoll_wait:
		return (int32_t)arguments[3] == -1 ? KY_ARCH_WAIT_EPOLL : KY_ARCH_WAIT_EPOLL_TIMED;
	case SYS_epoll_pwait2:
		if (arguments[4] != 0)
			return KY_ARCH_NO_WAIT;
		return arguments[3] == 0 ? KY_ARCH_WAIT_EPOLL : KY_ARCH_WAIT_EPOLL_TIMED;
	default:
		return KY_ARCH_NO_WAIT;
	}
}

static struct user_regs_struct registers_of(const struct ky_arch_context *context)
{
	struct user_regs_struct registers;

	memcpy(&registers, context->bytes, sizeof(registers));
	return registers;
}

static void set_registers(struct ky_arch_context *context, const struct user_regs_struct *registers)
{
	memcpy(context->bytes, registers, sizeof(*registers));
	context->byte_count = sizeof(*registers);
}

int ky_arch_read(pid_t tid, struct ky_arch_context *out)
{
	struct iovec vectors = {out->vectors, sizeof(out->vectors)};

	out->byte_count = sizeof(struct user_regs_struct);
	if (ptrace(PTRACE_GETREGS, tid, NULL, out->bytes) != 0 ||
	    ptrace(PTRACE_GETREGSET, tid, (void *)NT_X86_XSTATE, &vectors) != 0 ||
	    ptrace(PTRACE_GETSIGMASK, tid, (void *)sizeof(out->signal_mask), &out->signal_mask) !=
		    0)
		return -errno;
	out->vector_bytes = vectors.iov_len;
	return 0;
}

int ky_arch_block_signals(pid_t tid)
{
	uint64_t all = UINT64_MAX;

	return ptrace(PTRACE_SETSIGMASK, tid, (void *)sizeof(all), &all) == 0 ? 0 : -errno;
}

int ky_arch_write(pid_t tid, const struct ky_arch_context *context)
{
	struct user_regs_struct registers = registers_of(context);

	return ptrace(PTRACE_SETREGS, tid, NULL, &registers) == 0 ? 0 : -errno;
}

void ky_arch_frame_of(const struct ky_arch_context *context, struct ky_arch_frame *out)
{
	struct user_regs_struct from = registers_of(context);
	const uint64_t values[17] = {from.rax, from.rdx, from.rcx, from.rbx, from.rsi, from.rdi,
				     from.rbp, from.rsp, from.r8,  from.r9,  from.r10, from.r11,
				     from.r12, from.r13, from.r14, from.r15, from.rip};

	memset(out, 0, sizeof(*out));
	memcpy(out->registers, values, sizeof(values));
	out->pc = from.rip;
}

enum ky_arch_interrupted ky_arch_settle(struct ky_arch_context *context)
{
	struct user_regs_struct registers = registers_of(context);
	int64_t number = (int64_t)registers.orig_rax, result = (int64_t)registers.rax;
	const uint64_t arguments[6] = {registers.rdi, registers.rsi, registers.rdx,
				       registers.r10, registers.r8,  registers.r9};
	enum ky_arch_wait wait = number < 0 ? KY_ARCH_NO_WAIT : ky_arch_wait_of(number, arguments);
	bool is_restarted = result == -RESTART_SIGNALS || result == -RESTART_ALWAYS ||
			    result == -RESTART_NO_HANDLER || result == -RESTART_BLOCK;

	if (wait == KY_ARCH_NO_WAIT)
		return is_restarted ? KY_ARCH_INTERRUPTED_ALONE : KY_ARCH_NOT_IN_CALL;
	if (wait == KY_ARCH_WAIT_EPOLL_TIMED && result == -EINTR) {
		registers.rax = 0;
	} else if (is_restarted || (wait == KY_ARCH_WAIT_EPOLL && result == -EINTR)) {
		registers.rax = (uint64_t)number;
		registers.rip -= SYSTEM_CALL_BYTES;
	} else {
		return KY_ARCH_NOT_IN_CALL;
	}
	registers.orig_rax = UINT64_MAX; /* the kernel has nothing to restart any more */
	set_registers(context, &registers);
	return KY_ARCH_INTERRUPTED;
}

bool ky_arch_find_code(const struct ky_process *process, struct ky_arch_code *out)
{
	static const uint8_t call[] = {0x0f, 0x05, 0xc3};
	static const uint8_t back[] = {0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05};
	const struct ky_attach_module *libc = ky_process_module_of(
		process, process->functions[KY_FUNCTION_MUNMAP], NULL);

	if (!libc)
		return false;
	out->system_call = ky_module_code(libc, call, sizeof(call));
	out->signal_return = ky_module_code(libc, back, sizeof(back));
	return out->system_call && out->signal_return;
}

/* Size of what the kernel takes back for these features: it refuses one byte more. */
static uint32_t xstate_bytes(uint64_t features)
{
	uint32_t bytes = XSTATE_FIXED_BYTES;

	for (uint32_t i = 2; i < 63; i++) {
		uint32_t size, offset, c, d;

		if (!(features >> i & 1) || !__get_cpuid_count(0xd, i, &size, &offset, &c, &d))
			continue;
		if (!(c & 1) && offset + size > bytes) /* bit 0: the kernel's own state */
			bytes = offset + size;
	}
	return bytes;
}

/* The vector state in the form of a signal frame. Returns its bytes, 0 when it does not fit. */
static size_t lay_out_vectors(uint8_t *out, size_t capacity, const struct ky_arch_context *context)
{
	uint32_t magic2 = XSTATE_MAGIC2, sw[12] = {XSTATE_MAGIC1};
	uint64_t features;
	uint32_t bytes;

	if (context->vector_bytes < XSTATE_FIXED_BYTES)
		return 0;
	memcpy(&features, context->vectors + SW_BYTES_OFFSET, sizeof(features));
	bytes = xstate_bytes(features);
	if (bytes > context->vector_bytes || bytes + sizeof(magic2) > capacity)
		return 0;
	memcpy(out, context->vectors, bytes);
	sw[1] = bytes + (uint32_t)sizeof(magic2);
	memcpy(&sw[2], &features, sizeof(features));
	sw[4] = bytes;
	memcpy(out + SW_BYTES_OFFSET, sw, sizeof(sw));
	memcpy(out + bytes, &magic2, sizeof(magic2));
	return bytes + sizeof(magic2);
}

static void fill_frame(struct thread_frame *frame, const struct user_regs_struct *from,
		       uint64_t mask, uint64_t vectors, const struct ky_arch_code *code)
{
	ucontext_t context;
	greg_t *to = context.uc_mcontext.gregs;

	memset(&context, 0, sizeof(context));
	context.uc_flags = UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS;
	/* The kernel refuses it, silently, and leaves the thread's own signal stack alone. */
	context.uc_stack.ss_flags = NO_SUCH_STACK_MODE;
	to[REG_R8] = (greg_t)from->r8;
	to[REG_R9] = (greg_t)from->r9;
	to[REG_R10] = (greg_t)from->r10;
	to[REG_R11] = (greg_t)from->r11;
	to[REG_R12] = (greg_t)from->r12;
	to[REG_R13] = (greg_t)from->r13;
	to[REG_R14] = (greg_t)from->r14;
	to[REG_R15] = (greg_t)from->r15;
	to[REG_RDI] = (greg_t)from->rdi;
	to[REG_RSI] = (greg_t)from->rsi;
	to[REG_RBP] = (greg_t)from->rbp;
	to[REG_RBX] = (greg_t)from->rbx;
	to[REG_RDX] = (greg_t)from->rdx;
	to[REG_RAX] = (greg_t)from->rax;
	to[REG_RCX] = (greg_t)from->rcx;
	to[REG_RSP] = (greg_t)from->rsp;
	to[REG_RIP] = (greg_t)from->rip;
	to[REG_EFL] = (greg_t)from->eflags;
	to[REG_CSGSFS] = (greg_t)((from->cs & 0xffff) | (from->gs & 0xffff) << 16 |
				  (from->fs & 0xffff) << 32 | (from->ss & 0xffff) << 48);
	memcpy(&context.uc_mcontext.fpregs, &vectors, sizeof(vectors));
	memcpy(&context.uc_sigmask, &mask, sizeof(mask));
	frame->return_address = code->signal_return;
	memcpy(frame->context, &context, sizeof(frame->context));
}

/* A system call of ours, then back by the frame at `next`. */
static struct user_regs_struct call(const struct user_regs_struct *from, uint64_t number,
				    const uint64_t arguments[4], const struct ky_arch_code *code,
				    uint64_t next)
{
	struct user_regs_struct registers = *from;

	registers.rax = number;
	registers.rdi = arguments[0];
	registers.rsi = arguments[1];
	registers.rdx = arguments[2];
	registers.r10 = arguments[3];
	registers.r8 = UINT64_MAX;
	registers.r9 = 0;
	registers.rip = code->system_call;
	registers.rsp = next;
	registers.orig_rax = UINT64_MAX;
	registers.eflags &= ~(uint64_t)(FLAG_TRAP | FLAG_DIRECTION);
	return registers;
}

/* The call that a handler ends with: the frame is one word below the stack pointer. */
static struct user_regs_struct come_back(const struct user_regs_struct *from,
					 const struct ky_arch_code *code, uint64_t frame)
{
	static const uint64_t none[4] = {0, 0, 0, 0};

	return call(from, SYS_rt_sigreturn, none, code, frame + sizeof(uint64_t));
}

int ky_arch_lay_out(struct ky_arch_layout *out, const struct ky_arch_context *settled,
		    const struct ky_arch_code *code, uint64_t memory)
{
	static const uint64_t all_blocked = UINT64_MAX;
	struct user_regs_struct home = registers_of(settled), registers;
	const uint64_t get[4] = {memory, KY_STUB_MEMORY_BYTES, PROT_READ | PROT_EXEC,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE};
	const uint64_t put[4] = {memory, KY_STUB_MEMORY_BYTES, 0, 0};
	struct thread_frame frames[2]; /* put the memory back, go home */
	size_t frame_bytes = (sizeof(frames) + 63) & ~(size_t)63, vector_bytes;
	uint64_t at[2], vectors;

	memset(out->stack, 0, frame_bytes);
	vector_bytes = lay_out_vectors(out->stack + frame_bytes, sizeof(out->stack) - frame_bytes,
				       settled);
	if (!vector_bytes)
		return KYMO_E_UNSUPPORTED;
	out->stack_bytes = frame_bytes + vector_bytes;
	out->stack_address = (home.rsp - RED_ZONE_BYTES - out->stack_bytes) & ~UINT64_C(63);
	out->stack_low = out->stack_address - STACK_NEEDED_BYTES;
	vectors = out->stack_address + frame_bytes;
	for (uint32_t i = 0; i < 2; i++)
		at[i] = out->stack_address + i * sizeof(struct thread_frame);
	registers = call(&home, SYS_munmap, put, code, at[1]);
	fill_frame(&frames[0], &registers, all_blocked, vectors, code);
	fill_frame(&frames[1], &home, settled->signal_mask, vectors, code);
	memcpy(out->stack, frames, sizeof(frames));

	registers = call(&home, SYS_mmap, get, code, at[0]);
	set_registers(&out->enter, &registers);
	registers = come_back(&home, code, at[1]);
	set_registers(&out->leave, &registers);
	registers.rip = memory;
	registers.rbx = memory + KY_STUB_BLOCK;
	registers.r12 = at[1] + sizeof(uint64_t);
	registers.r13 = at[0] + sizeof(uint64_t);
	registers.rsp = out->stack_address - 64;
	set_registers(&out->run, &registers);
	return 0;
}

int64_t ky_arch_result(const struct ky_arch_context *context)
{
	return (int64_t)registers_of(context).rax;
}

extern const uint8_t ky_attach_stub_start[], ky_attach_stub_end[];

const uint8_t *ky_arch_stub(size_t *bytes)
{
	*bytes = (uintptr_t)ky_attach_stub_end - (uintptr_t)ky_attach_stub_start;
	return ky_attach_stub_start;
}

_Static_assert(offsetof(struct kymo_attach_block, thread) == 64 &&
		       offsetof(struct kymo_attach_block, message) == 72 &&
		       offsetof(struct kymo_attach_block, pause) == 80 &&
		       offsetof(struct kymo_attach_block, is_back) == 96 &&
		       offsetof(struct kymo_attach_block, create_error) == 100 &&
		       offsetof(struct kymo_attach_block, reads_max) == 104 &&
		       offsetof(struct kymo_attach_block, state) == 112 &&
		       offsetof(struct kymo_attach_block, answer) == 116 &&
		       offsetof(struct kymo_attach_block, function) == 152 &&
		       offsetof(struct kymo_attach_block, library) == 1256 &&
		       sizeof(struct kymo_attach_block) <= KY_STUB_MEMORY_BYTES - KY_STUB_BLOCK,
	       "stub_x86_64.S knows these offsets");
