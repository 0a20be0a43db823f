/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* own_tables.h - the unwind tables of the process that asks, in memory of its own. */
#ifndef TEST_LIB_OWN_TABLES_H
#define TEST_LIB_OWN_TABLES_H

#include <unwind/unwind_keeper.h>
#include <unwind/unwind_table.h>

struct own_tables {
	uint8_t *area;
	struct ky_unwind_keeper *keeper;
	struct ky_unwind_view view;
	const char *early;   /* see struct ky_unwind_target */
	uint64_t room_bytes; /* less than the area: as if the disk were full */
};

/* Returns 0 or what failed. */
int own_tables_open(struct own_tables *tables);
void own_tables_close(struct own_tables *tables);

#endif
