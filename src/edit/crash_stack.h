/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* crash_stack.h - who called whom when a fatal signal came: from the registers and the piece of the
 * stack that its handler left in the trace, by the call frame information of the files that were
 * mapped. Those are taken only when their build id is the recorded one.
 *
 * Memory:  tables of the modules that the stack leads through, while it is walked.
 * Threads: owner.
 */
#ifndef KY_EDIT_CRASH_STACK_H
#define KY_EDIT_CRASH_STACK_H

#include <read/code_names.h>
#include <stdbool.h>
#include <stdint.h>

#define KY_CRASH_COPY_BYTES_MAX 65536u

/* A CrashEvent, copied out of the trace. */
struct ky_crash_copy {
	uint64_t time_ns, pc, sp, fp;
	uint64_t registers[32];
	uint32_t register_count, stack_bytes;
	uint8_t *stack; /* from sp upwards; ky_free() */
};

/* Which file the code at an address is of. */
struct ky_crash_code {
	uint64_t bias;   /* address minus address as linked */
	uint32_t module; /* the same number, the same module */
};

/* Says where code at an address comes from. Returns a descriptor of its file, which the walk
 * closes; -ENODATA: there is code, but no file; -ENOENT: no code is known to be there. */
typedef int (*ky_crash_open_fn)(void *ctx, uint64_t pc, struct ky_crash_code *out);

/* Returns 0; -ENOMEM; KYMO_E_UNSUPPORTED: of another architecture. */
int ky_crash_stack_walk(struct ky_crash_stack *out, const struct ky_crash_copy *crash,
			ky_crash_open_fn open, void *ctx);

#endif
