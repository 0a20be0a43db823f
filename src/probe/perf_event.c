/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <probe/perf_event.h>

#include <errno.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CPUS_MAX 1024

uint32_t ky_perf_event_cpus(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);

	return cpus < 1 || cpus > CPUS_MAX ? 0 : (uint32_t)cpus;
}

int ky_perf_event_open(struct perf_event_attr *attr, pid_t tid, int cpu)
{
	long fd = syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0 && errno == EINVAL && attr->read_format) { /* before 6.0 */
		attr->read_format = 0;
		fd = syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	}
	return fd < 0 ? -errno : (int)fd;
}

/* The program that we are part of may have closed all descriptors and given the number to a file of
 * its own, which must not be closed, or lose what it holds to a read. */
static uint32_t is_silent; /* atomic; nothing may be asked */

void ky_perf_event_ask(bool may_ask)
{
	__atomic_store_n(&is_silent, !may_ask, __ATOMIC_RELAXED);
}

static bool is_event(int fd)
{
	uint64_t id;

	return __atomic_load_n(&is_silent, __ATOMIC_RELAXED) ||
	       ioctl(fd, PERF_EVENT_IOC_ID, &id) == 0;
}

void ky_perf_event_close(int fd)
{
	if (is_event(fd))
		close(fd);
}

void ky_perf_event_close_copy(int fd)
{
	ky_perf_event_close(fd);
}

int ky_perf_event_map(int fd, size_t ring_bytes, struct perf_event_mmap_page **page)
{
	void *at = mmap(NULL, KY_PERF_PAGE_BYTES + ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			fd, 0);

	if (at == MAP_FAILED)
		return -errno;
	*page = at;
	return 0;
}

void ky_perf_event_unmap(struct perf_event_mmap_page *page, size_t ring_bytes)
{
	munmap(page, KY_PERF_PAGE_BYTES + ring_bytes);
}

int ky_perf_event_pause(int fd, bool is_paused)
{
	unsigned long request = is_paused ? PERF_EVENT_IOC_DISABLE : PERF_EVENT_IOC_ENABLE;

	return ioctl(fd, request, 0) != 0 ? -errno : 0;
}

int ky_perf_event_set_output(int fd, int ring_fd)
{
	return ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring_fd) != 0 ? -errno : 0;
}

int ky_perf_event_set_filter(int fd, const char *filter)
{
	return ioctl(fd, PERF_EVENT_IOC_SET_FILTER, filter) != 0 ? -errno : 0;
}

bool ky_perf_event_read(int fd, uint64_t *words, uint32_t count)
{
	size_t bytes = count * sizeof(*words);

	return is_event(fd) && read(fd, words, bytes) == (ssize_t)bytes;
}
