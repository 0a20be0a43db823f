/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <session/run_prepared.h>

#include <base/testpoint.h>
#include <base/write_within.h>
#include <sys/file.h>
#include <unistd.h>

#define RING_BYTES_MAX (UINT64_C(5) << 30)

bool ky_run_prepared_read(int fd, const struct stat *st, struct ky_ring_header *header)
{
	return S_ISREG(st->st_mode) && st->st_size >= (off_t)sizeof(*header) &&
	       (uint64_t)st->st_size <= RING_BYTES_MAX &&
	       pread(fd, header, sizeof(*header), 0) == (ssize_t)sizeof(*header) &&
	       atomic_load_explicit(&header->magic, memory_order_relaxed) == KY_RING_MAGIC;
}

static bool is_unused(int fd, uint64_t session, struct ky_ring_header *header)
{
	return pread(fd, header, sizeof(*header), 0) == (ssize_t)sizeof(*header) &&
	       header->session == session &&
	       atomic_load_explicit(&header->magic, memory_order_relaxed) == 0 &&
	       atomic_load_explicit(&header->state, memory_order_relaxed) == 0;
}

void ky_run_prepared_check(int directory_fd, const char *name, int fd, uint64_t session,
			   struct ky_table_thread **tables, bool is_last)
{
	struct ky_ring_header header;
	uint32_t gates = 0;

	if (!is_unused(fd, session, &header))
		return;
	KY_TESTPOINT("prepared.read");
	if (!is_last && flock(fd, LOCK_EX | LOCK_NB) != 0) {
		ky_table_thread_add(tables, fd, &header);
		return;
	}
	ky_table_thread_remove(*tables, fd);
	if (is_last) /* a refused write: it records into a file without a name */
		(void)ky_write_within(fd, header.page_bytes, &gates, sizeof(gates));
	/* A short life fits between the first reading and the lock: what it recorded is in
	 * there. */
	if (is_unused(fd, session, &header))
		unlinkat(directory_fd, name, 0);
}
