/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "own_tables.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* As a file is written: by words where there are words, in order. */
static int put(void *ctx, uint64_t offset, const void *bytes, size_t count)
{
	struct own_tables *tables = ctx;
	const uint8_t *from = bytes;
	uint8_t *to = tables->area + offset;

	if (offset + count > tables->room_bytes)
		return -ENOSPC;
	__atomic_thread_fence(__ATOMIC_RELEASE);
	for (; count >= 4 && offset % 4 == 0; count -= 4, from += 4, to += 4) {
		uint32_t word;

		__builtin_memcpy(&word, from, sizeof(word));
		__atomic_store_n((uint32_t *)(void *)to, word, __ATOMIC_RELAXED);
	}
	__builtin_memcpy(to, from, count);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	return 0;
}

int own_tables_open(struct own_tables *tables)
{
	struct ky_unwind_target target = {.pid = (uint32_t)getpid(),
					  .area_bytes = KY_UNWIND_AREA_BYTES,
					  .write = put,
					  .ctx = tables,
					  .early = tables->early};
	int err;

	tables->keeper = NULL;
	if (tables->room_bytes == 0)
		tables->room_bytes = KY_UNWIND_AREA_BYTES;
	tables->area = mmap(NULL, KY_UNWIND_AREA_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (tables->area == MAP_FAILED)
		return -errno;
	err = ky_unwind_keeper_open(&tables->keeper, &target);
	tables->view = (struct ky_unwind_view){tables->area, KY_UNWIND_AREA_BYTES};
	if (!err)
		err = ky_unwind_keeper_scan(tables->keeper);
	if (err < 0)
		own_tables_close(tables);
	return err < 0 ? err : 0;
}

void own_tables_close(struct own_tables *tables)
{
	ky_unwind_keeper_close(tables->keeper);
	tables->keeper = NULL;
	tables->view.area = NULL;
	munmap(tables->area, KY_UNWIND_AREA_BYTES);
}
