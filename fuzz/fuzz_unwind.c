/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Hostile call frame information, registers and stack of a process that somebody attaches to.
 * Promises: no crash, at most KY_UNWIND_FRAMES_MAX callers, every one that was gone through lies in
 * code, and the same bytes give the same walk.
 *
 * The input: a byte of flags, the registers by their DWARF numbers and the pc (8 bytes each, little
 * end first), the count of .eh_frame bytes (2 bytes), these bytes, and the stack. Flag 1: they are
 * .eh_frame_hdr and .eh_frame as they stand; else the table in front of them is made here, so that
 * the entries are found. .eh_frame lies at FRAMES, code at CODE, the stack at STACK. */
#include "eh_frame_table.h"
#include "fuzz_target.h"

#include <attach/unwind.h>
#include <base/gnu.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CODE 0x10000u
#define CODE_BYTES 0x10000u
#define STACK 0x400000u
#define STACK_BYTES_MAX 0x8000u
#define REGISTERS 17u /* and the pc */
#define PREFIX_BYTES (1u + (REGISTERS + 1u) * 8u + 2u)

static int memory(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	FUZZ_CHECK(fd >= 0);
	return fd;
}

static void fill(int fd, uint64_t at, const uint8_t *bytes, size_t count)
{
	FUZZ_CHECK(ftruncate(fd, 0) == 0);
	FUZZ_CHECK(pwrite(fd, bytes, count, (off_t)at) == (ssize_t)count);
}

static void walk(const struct ky_process *process, const struct ky_arch_frame *frame)
{
	static struct ky_unwind first, second; /* both are more than a frame may have */

	ky_unwind_thread(&first, process, frame);
	FUZZ_CHECK(first.count >= 1 && first.count <= KY_UNWIND_FRAMES_MAX);
	FUZZ_CHECK(first.pcs[0] == frame->pc);
	FUZZ_CHECK(first.end <= KY_UNWIND_TOO_DEEP);
	for (uint32_t i = 0; i + 1 < first.count; i++)
		FUZZ_CHECK(first.pcs[i] - CODE < CODE_BYTES);
	ky_unwind_thread(&second, process, frame);
	FUZZ_CHECK(second.count == first.count && second.end == first.end);
	FUZZ_CHECK(memcmp(second.pcs, first.pcs, first.count * sizeof(first.pcs[0])) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
	static uint8_t image[HEADER_BYTES + FRAMES_BYTES_MAX];
	static struct ky_attach_module module;
	static struct ky_process process;
	static int file = -1, stack = -1;
	struct ky_arch_frame frame = {.pc = 0};
	uint64_t table_bytes;
	uint16_t frames_bytes;
	uint8_t flags;

	if (count < PREFIX_BYTES)
		return 0;
	flags = bytes[0];
	memcpy(frame.registers, bytes + 1, REGISTERS * 8u);
	memcpy(&frame.pc, bytes + 1 + REGISTERS * 8u, 8);
	memcpy(&frames_bytes, bytes + PREFIX_BYTES - 2, 2);
	bytes += PREFIX_BYTES;
	count -= PREFIX_BYTES;
	if (frames_bytes > count || frames_bytes > FRAMES_BYTES_MAX ||
	    count - frames_bytes > STACK_BYTES_MAX)
		return 0;
	if (file < 0) {
		file = memory("fuzz-frames");
		stack = memory("fuzz-stack");
	}
	memset(image, 0, HEADER_BYTES);
	memcpy(image + HEADER_BYTES, bytes, frames_bytes);
	table_bytes = flags & 1 ? frames_bytes : make_table(image, bytes, frames_bytes);
	fill(file, 0, image, HEADER_BYTES + frames_bytes);
	fill(stack, STACK, bytes + frames_bytes, count - frames_bytes);
	module = (struct ky_attach_module){
		.fd = file,
		.frame_table = flags & 1 ? FRAMES : FRAMES - HEADER_BYTES,
		.frame_table_bytes = table_bytes,
		.segment_count = 2,
		.segments = {{.address = CODE, .memory_bytes = CODE_BYTES, .flags = 5},
			     {.address = FRAMES - HEADER_BYTES,
			      .memory_bytes = HEADER_BYTES + frames_bytes,
			      .file_bytes = HEADER_BYTES + frames_bytes,
			      .flags = 4}}};
	process.memory_fd = stack;
	process.modules[0] = &module;
	process.module_count = 1;
	walk(&process, &frame);
	return 0;
}
