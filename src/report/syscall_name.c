/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/syscall_name.h>

#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

struct syscall_entry {
	uint32_t number;
	const char *name;
};

#define CALL(name)                                                                                 \
	{                                                                                          \
		SYS_##name, #name                                                                  \
	}

static const struct syscall_entry entries[] = {
	CALL(read),
	CALL(write),
	CALL(pread64),
	CALL(pwrite64),
	CALL(readv),
	CALL(writev),
	CALL(preadv),
	CALL(pwritev),
	CALL(openat),
	CALL(close),
	CALL(fsync),
	CALL(fdatasync),
	CALL(sync_file_range),
	CALL(ftruncate),
	CALL(fallocate),
	CALL(flock),
	CALL(fcntl),
	CALL(ioctl),
	CALL(getdents64),
	CALL(statx),
	CALL(unlinkat),
	CALL(renameat2),
	CALL(mkdirat),
	CALL(sendfile),
	CALL(splice),
	CALL(copy_file_range),
	CALL(connect),
	CALL(accept),
	CALL(accept4),
	CALL(sendto),
	CALL(recvfrom),
	CALL(sendmsg),
	CALL(recvmsg),
	CALL(sendmmsg),
	CALL(recvmmsg),
	CALL(shutdown),
	CALL(ppoll),
	CALL(pselect6),
	CALL(epoll_pwait),
	CALL(futex),
	CALL(nanosleep),
	CALL(clock_nanosleep),
	CALL(sched_yield),
	CALL(wait4),
	CALL(waitid),
	CALL(mmap),
	CALL(munmap),
	CALL(mprotect),
	CALL(madvise),
	CALL(msync),
	CALL(brk),
	CALL(execve),
	CALL(clone),
	CALL(exit_group),
	CALL(io_uring_enter),
	CALL(getrandom),
	CALL(rt_sigtimedwait),
#ifdef SYS_poll /* older calls that newer architectures lack */
	CALL(poll),
	CALL(select),
	CALL(epoll_wait),
	CALL(open),
	CALL(stat),
	CALL(lstat),
	CALL(unlink),
	CALL(rename),
	CALL(mkdir),
	CALL(fork),
	CALL(vfork),
	CALL(pause),
#endif
};

const char *ky_syscall_name(const char *architecture, uint64_t number)
{
	struct utsname here;

	if (architecture && (uname(&here) != 0 || strcmp(here.machine, architecture) != 0))
		return NULL;
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
		if (entries[i].number == number)
			return entries[i].name;
	return NULL;
}

const char *ky_trace_call_name(const struct ky_trace *trace, uint32_t number)
{
	return ky_syscall_name(ky_trace_metadata(trace, "machine.architecture"), number);
}
