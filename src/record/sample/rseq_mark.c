/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <record/sample/rseq_mark.h>

#include <kymo/arch.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Of the C library; absent before glibc 2.35. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

/* As in linux/rseq.h, which older systems lack. */
struct area {
	uint32_t cpu_id_start;
	int32_t cpu_id; /* negative: not registered */
	uint64_t section;
};

struct section {
	uint32_t version, flags;
	uint64_t start, length, abort;
};

#define SIGNATURE 0x53053053u /* glibc's on x86-64, before the place to abort to */
#define SIGNATURE_AT 64u

static uint64_t mark;
static const char *refusal = "not tried"; /* atomic */

void ky_rseq_refuse(const char *why)
{
	__atomic_store_n(&refusal, why, __ATOMIC_RELEASE);
}

const char *ky_rseq_refusal(void)
{
	return __atomic_load_n(&refusal, __ATOMIC_ACQUIRE);
}

static struct area *find(void)
{
#if defined(__x86_64__) && defined(__linux__)
	struct area *area;

	if (!&__rseq_offset || !&__rseq_size || !__rseq_size)
		return NULL;
	area = (struct area *)(void *)((char *)__builtin_thread_pointer() + __rseq_offset);
	return __atomic_load_n(&area->cpu_id, __ATOMIC_RELAXED) >= 0 ? area : NULL;
#else
	return NULL;
#endif
}

/* A section in which no thread ever is: one byte of a page that is not code. Returns its address;
 * 0. */
static uint64_t make_section(void)
{
	uint8_t *page = mmap(NULL, KYMO_ARCH_PAGE_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const uint32_t signature = SIGNATURE;
	struct section section = {0};

	if (page == MAP_FAILED)
		return 0;
	section.start = (uint64_t)(uintptr_t)page;
	section.length = 1;
	section.abort = (uint64_t)(uintptr_t)(page + SIGNATURE_AT + sizeof(signature));
	memcpy(page, &section, sizeof(section));
	memcpy(page + SIGNATURE_AT, &signature, sizeof(signature));
	(void)mprotect(page, KYMO_ARCH_PAGE_BYTES, PROT_READ);
	return (uint64_t)(uintptr_t)page;
}

/* Does the kernel clear it when this thread blocks? */
static bool is_cleared(struct area *area)
{
	const struct timespec moment = {.tv_nsec = 1000};
	bool is_cleared;

	__atomic_store_n(&area->section, mark, __ATOMIC_RELAXED);
	/* Not nanosleep(), which ends a thread that another thread has cancelled. */
	is_cleared = syscall(SYS_nanosleep, &moment, NULL) == 0 &&
		     __atomic_load_n(&area->section, __ATOMIC_RELAXED) != mark;
	if (!is_cleared)
		__atomic_store_n(&area->section, 0, __ATOMIC_RELAXED);
	return is_cleared;
}

uint64_t ky_rseq_open(bool may_block)
{
	struct area *area;

	if (mark)
		return ky_rseq_refusal() ? KY_RSEQ_NO_MARK : mark;
	area = find();
	if (!area) {
		ky_rseq_refuse("the C library has registered no rseq area");
		return KY_RSEQ_NO_MARK;
	}
	if (!may_block)
		return KY_RSEQ_NO_MARK;
	mark = make_section();
	if (!mark || !is_cleared(area)) {
		ky_rseq_refuse("the kernel does not clear it");
		return KY_RSEQ_NO_MARK;
	}
	ky_rseq_refuse(NULL);
	return mark;
}

uint64_t *ky_rseq_mark(void)
{
	struct area *area = ky_rseq_refusal() ? NULL : find();

	return area ? &area->section : NULL;
}
