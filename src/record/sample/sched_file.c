/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <record/sample/sched_file.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The file lags behind the clock that was read before it by no more than the two calls. */
#define LAG_NS_MAX 1000000u

static struct {
	uint32_t is_taken; /* atomic */
	int fd;            /* atomic; -1: closed, or another's by now */
	dev_t device;
	ino_t inode;
} files[KY_SCHED_FILES];

/* By bare system calls: open(), pread() and close() end a thread that another thread has cancelled,
 * in the middle of a poll. */
static void close_bare(int fd)
{
	(void)syscall(SYS_close, fd);
}

static bool has_room(int fd)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= KY_SCHED_LIMIT_MIN &&
	       (rlim_t)fd < limit.rlim_cur / 4 * 3;
}

static bool open_at(uint32_t at)
{
	struct stat st;
	int fd;

	if (!has_room(0))
		return false;
	fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/schedstat",
			  O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (!has_room(fd) || fstat(fd, &st) != 0) {
		close_bare(fd);
		return false;
	}
	files[at].device = st.st_dev;
	files[at].inode = st.st_ino;
	__atomic_store_n(&files[at].fd, fd, __ATOMIC_RELEASE);
	return true;
}

void ky_sched_file_open(struct ky_sched_file *file)
{
	for (uint32_t at = 0; at < KY_SCHED_FILES && !file->place; at++) {
		uint32_t none = 0;

		if (!__atomic_compare_exchange_n(&files[at].is_taken, &none, 1, false,
						 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			continue;
		__atomic_store_n(&files[at].fd, -1, __ATOMIC_RELAXED);
		if (!open_at(at)) {
			__atomic_store_n(&files[at].is_taken, 0, __ATOMIC_RELEASE);
			return;
		}
		file->place = at + 1;
	}
}

/* A number and what follows it; NULL: there is none. */
static const char *number(const char *at, uint64_t *out)
{
	*out = 0;
	if (*at < '0' || *at > '9')
		return NULL;
	for (; *at >= '0' && *at <= '9'; at++)
		*out = *out * 10 + (uint64_t)(*at - '0');
	return *at == ' ' ? at + 1 : NULL;
}

bool ky_sched_file_read(struct ky_sched_file *file, uint64_t cpu_ns, uint64_t *delay_ns)
{
	uint64_t counted_ns;
	char text[96];
	const char *at;
	long bytes;
	int fd;

	if (!file->place)
		return false;
	fd = __atomic_load_n(&files[file->place - 1].fd, __ATOMIC_RELAXED);
	if (fd < 0)
		return false;
	bytes = syscall(SYS_pread64, fd, text, sizeof(text) - 1, 0L);
	text[bytes > 0 ? bytes : 0] = 0;
	at = number(text, &counted_ns);
	if (at && number(at, delay_ns) && counted_ns + LAG_NS_MAX >= cpu_ns &&
	    counted_ns <= cpu_ns + LAG_NS_MAX)
		return true;
	__atomic_store_n(&files[file->place - 1].fd, -1, __ATOMIC_RELAXED);
	return false;
}

static void close_at(uint32_t at)
{
	int fd = __atomic_exchange_n(&files[at].fd, -1, __ATOMIC_RELAXED);
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == files[at].device &&
	    st.st_ino == files[at].inode)
		close_bare(fd);
}

void ky_sched_file_close(struct ky_sched_file *file)
{
	if (!file->place)
		return;
	close_at(file->place - 1);
	__atomic_store_n(&files[file->place - 1].is_taken, 0, __ATOMIC_RELEASE);
	file->place = 0;
}

void ky_sched_file_close_all(void)
{
	for (uint32_t at = 0; at < KY_SCHED_FILES; at++)
		if (__atomic_load_n(&files[at].is_taken, __ATOMIC_ACQUIRE))
			close_at(at);
}

void ky_sched_file_fork_child(void)
{
	ky_sched_file_close_all();
	for (uint32_t at = 0; at < KY_SCHED_FILES; at++)
		__atomic_store_n(&files[at].is_taken, 0, __ATOMIC_RELAXED);
}
