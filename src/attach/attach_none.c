/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* For CPUs without a stub: everything says no. */
#include <attach/attach_arch.h>
#include <attach/process.h>
#include <errno.h>
#include <string.h>

const char *ky_arch_refusal(void)
{
	return "attaching works on x86-64 only so far; start the program with `kymo run`";
}

enum ky_arch_wait ky_arch_wait_of(int64_t number, const uint64_t arguments[6])
{
	(void)number;
	(void)arguments;
	return KY_ARCH_NO_WAIT;
}

int ky_arch_read(pid_t tid, struct ky_arch_context *out)
{
	(void)tid;
	(void)out;
	return -ENOTSUP;
}

int ky_arch_write(pid_t tid, const struct ky_arch_context *context)
{
	(void)tid;
	(void)context;
	return -ENOTSUP;
}

int ky_arch_block_signals(pid_t tid)
{
	(void)tid;
	return -ENOTSUP;
}

void ky_arch_frame_of(const struct ky_arch_context *context, struct ky_arch_frame *out)
{
	(void)context;
	memset(out, 0, sizeof(*out));
}

enum ky_arch_interrupted ky_arch_settle(struct ky_arch_context *context)
{
	(void)context;
	return KY_ARCH_NOT_IN_CALL;
}

bool ky_arch_find_code(const struct ky_process *process, struct ky_arch_code *out)
{
	(void)process;
	(void)out;
	return false;
}

int ky_arch_lay_out(struct ky_arch_layout *out, const struct ky_arch_context *settled,
		    const struct ky_arch_code *code, uint64_t memory)
{
	(void)out;
	(void)settled;
	(void)code;
	(void)memory;
	return -ENOTSUP;
}

int64_t ky_arch_result(const struct ky_arch_context *context)
{
	(void)context;
	return -ENOTSUP;
}

const uint8_t *ky_arch_stub(size_t *bytes)
{
	*bytes = 0;
	return NULL;
}
