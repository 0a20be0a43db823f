/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "allocs.h"

#include <errno.h>
#include <fcntl.h>
#include <kymo/alloc.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "got.h"
#include "live.h"

/* Our own code, as the linker laid it out. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));

#define NOINLINE __attribute__((noinline, cold))

/* ---- what runs ---- */

/* Where the most frequent calls continue to: past our own table of jumps, once that is learnt. Not
 * the functions' addresses, which may be those of a jump in the program. */
static void *plain_malloc(size_t bytes)
{
	return malloc(bytes);
}

static void *plain_realloc(void *old, size_t bytes)
{
	return realloc(old, bytes);
}

static void plain_free(void *address)
{
	free(address);
}

static void *(*next_malloc)(size_t) = plain_malloc;
static void *(*next_realloc)(void *, size_t) = plain_realloc;
static void (*next_free)(void *) = plain_free;

/* address: 0, there was no memory. */
static NOINLINE void emit(uintptr_t address, size_t bytes)
{
	struct kymo_alloc_caller caller = {.own_low = (uintptr_t)__ehdr_start,
					   .own_high = (uintptr_t)etext};

	KYMO_STACK_HERE(&caller.from);
	kymo_alloc_emit((const void *)address, bytes,
			&caller); /* NOLINT(performance-no-int-to-ptr) */
}

static NOINLINE void *due_malloc(size_t bytes)
{
	void *address = malloc(bytes);

	emit((uintptr_t)address, bytes);
	return address;
}

static void *on_malloc(size_t bytes)
{
	return kymo_alloc_is_due(bytes) ? due_malloc(bytes) : next_malloc(bytes);
}

static NOINLINE void *due_calloc(size_t count, size_t bytes)
{
	void *address = calloc(count, bytes);

	emit((uintptr_t)address, count * bytes);
	return address;
}

/* What overflows is refused by the original, and a few bytes more or less are no loss. */
static void *on_calloc(size_t count, size_t bytes)
{
	return kymo_alloc_is_due(count * bytes) ? due_calloc(count, bytes) : calloc(count, bytes);
}

static NOINLINE int due_posix_memalign(void **out, size_t alignment, size_t bytes)
{
	int result = posix_memalign(out, alignment, bytes);

	emit(result == 0 ? (uintptr_t)*out : 0, bytes);
	return result;
}

static int on_posix_memalign(void **out, size_t alignment, size_t bytes)
{
	return kymo_alloc_is_due(bytes) ? due_posix_memalign(out, alignment, bytes) :
					  posix_memalign(out, alignment, bytes);
}

static NOINLINE void *due_aligned_alloc(size_t alignment, size_t bytes)
{
	void *address = aligned_alloc(alignment, bytes);

	emit((uintptr_t)address, bytes);
	return address;
}

static void *on_aligned_alloc(size_t alignment, size_t bytes)
{
	return kymo_alloc_is_due(bytes) ? due_aligned_alloc(alignment, bytes) :
					  aligned_alloc(alignment, bytes);
}

static NOINLINE void *due_memalign(size_t alignment, size_t bytes)
{
	void *address = memalign(alignment, bytes);

	emit((uintptr_t)address, bytes);
	return address;
}

static void *on_memalign(size_t alignment, size_t bytes)
{
	return kymo_alloc_is_due(bytes) ? due_memalign(alignment, bytes) :
					  memalign(alignment, bytes);
}

static void *on_valloc(size_t bytes)
{
	void *address = valloc(bytes);

	if (kymo_alloc_is_due(bytes))
		emit((uintptr_t)address, bytes);
	return address;
}

static void *on_pvalloc(size_t bytes)
{
	void *address = pvalloc(bytes);

	if (kymo_alloc_is_due(bytes))
		emit((uintptr_t)address, bytes);
	return address;
}

/* One that grows or shrinks ends, and begins anew with all its bytes. */
static NOINLINE void *known_realloc(void *old, size_t bytes, bool is_due)
{
	struct kymo_alloc_taken taken;
	bool is_taken = kymo_alloc_take(old, &taken);
	void *address = realloc(old, bytes);

	if (is_taken && !address && bytes)
		kymo_alloc_put_back(&taken);
	else if (is_taken)
		kymo_alloc_end(&taken);
	if (is_due)
		emit((uintptr_t)address, bytes);
	return address;
}

static void *on_realloc(void *old, size_t bytes)
{
	bool is_due = kymo_alloc_is_due(bytes);

	return is_due || kymo_alloc_is_known(old) ? known_realloc(old, bytes, is_due) :
						    next_realloc(old, bytes);
}

static void *on_reallocarray(void *old, size_t count, size_t bytes)
{
	size_t all;

	if (__builtin_mul_overflow(count, bytes, &all)) {
		errno = ENOMEM;
		return NULL;
	}
	return on_realloc(old, all);
}

static NOINLINE void known_free(void *address)
{
	kymo_free(address);
	free(address);
}

static void on_free(void *address)
{
	if (kymo_alloc_is_known(address))
		known_free(address);
	else
		next_free(address);
}

/* ---- where it goes ---- */

#define FUNCTIONS(FUNCTION)                                                                        \
	FUNCTION(malloc, &next_malloc)                                                             \
	FUNCTION(calloc, NULL)                                                                     \
	FUNCTION(realloc, &next_realloc)                                                           \
	FUNCTION(reallocarray, NULL)                                                               \
	FUNCTION(free, &next_free)                                                                 \
	FUNCTION(posix_memalign, NULL)                                                             \
	FUNCTION(aligned_alloc, NULL)                                                              \
	FUNCTION(memalign, NULL)                                                                   \
	FUNCTION(valloc, NULL)                                                                     \
	FUNCTION(pvalloc, NULL)

/* A program that is linked to a fixed address and takes a function's address has one of its own for
 * it, `told`; calls lead to `theirs` nevertheless. */
struct function {
	const char *name;
	uintptr_t reported, ours, theirs;
	void *next; /* that is set to `theirs`, too */
};

#define ROW(name, next) {#name, (uintptr_t)(name), (uintptr_t)on_##name, 0, next},
static struct function functions[] = {FUNCTIONS(ROW)};

static struct function *find(const char *name)
{
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (strcmp(functions[i].name, name) == 0)
			return &functions[i];
	return NULL;
}

struct taking {
	const struct ky_tokio_elf *elf;
	int memory; /* /proc/self/mem; -1: there is none */
	bool is_early, is_refused;
	uint32_t count;
};

static bool is_on;

static bool is_sealed(const struct ky_tokio_elf *elf, uintptr_t slot)
{
	for (size_t i = 0; i < elf->phdr_count; i++) {
		uintptr_t start = elf->bias + elf->phdr[i].p_vaddr;

		if (elf->phdr[i].p_type == PT_GNU_RELRO && slot >= start &&
		    slot - start < elf->phdr[i].p_memsz)
			return true;
	}
	return false;
}

/* Through /proc/self/mem no page changes its protection. Where that is refused and no other thread
 * runs, the page is made writable for a moment. */
static bool write_word(const struct taking *taking, uintptr_t *slot, uintptr_t value)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)slot & ~(page - 1);

	if (taking->memory >= 0 &&
	    pwrite(taking->memory, &value, sizeof(value), (off_t)(uintptr_t)slot) == sizeof(value))
		return true;
	if (!taking->is_early || mprotect((void *)start, page, PROT_READ | PROT_WRITE) != 0)
		return false;
	__atomic_store_n(slot, value, __ATOMIC_RELEASE);
	/* A page of slots that are bound at the first call stays writable. */
	if (is_sealed(taking->elf, (uintptr_t)slot))
		(void)mprotect((void *)start, page, PROT_READ);
	return true;
}

/* Does the slot lead where our own calls go? One that is bound at its first call leads into its
 * object's own table of jumps until then. */
static bool is_theirs(const struct taking *taking, const struct ky_tokio_got_place *place,
		      const struct function *function)
{
	uintptr_t value = __atomic_load_n(place->slot, __ATOMIC_RELAXED);

	if (value == function->theirs || value == function->reported)
		return true;
	return taking->is_early && place->is_lazy &&
	       ky_tokio_elf_is_in(taking->elf, value, 1, PF_R | PF_X, PF_W);
}

static bool take(void *ctx, const struct ky_tokio_got_place *place)
{
	struct taking *taking = ctx;
	struct function *function = find(place->name);

	if (!function || !is_theirs(taking, place, function))
		return true;
	if (ky_tokio_live_note(place->slot, __atomic_load_n(place->slot, __ATOMIC_RELAXED),
			       function->ours) &&
	    write_word(taking, place->slot, function->ours))
		taking->count++;
	else
		taking->is_refused = true;
	return true;
}

/* Where our own calls go. */
static bool learn(void *ctx, const struct ky_tokio_got_place *place)
{
	struct function *function = find(place->name);

	(void)ctx;
	if (!function || !place->is_lazy)
		return true;
	function->theirs = __atomic_load_n(place->slot, __ATOMIC_RELAXED);
	if (function->next)
		memcpy(function->next, &function->theirs, sizeof(function->theirs));
	return true;
}

static bool is_ours(const struct ky_tokio_elf *elf)
{
	return ky_tokio_elf_is_in(elf, (uintptr_t)functions, 1, PF_R, 0);
}

static int learn_object(struct dl_phdr_info *info, size_t info_bytes, void *ctx)
{
	struct ky_tokio_elf elf = {
		.bias = info->dlpi_addr, .phdr = info->dlpi_phdr, .phdr_count = info->dlpi_phnum};

	(void)info_bytes;
	return is_ours(&elf) && ky_tokio_got_each(&elf, learn, ctx);
}

void *ky_tokio_alloc_address(const char *name)
{
	struct function *function = find(name);

	dl_iterate_phdr(learn_object, NULL);
	return function ? (void *)function->ours : NULL; /* NOLINT(performance-no-int-to-ptr) */
}

static int take_object(struct dl_phdr_info *info, size_t info_bytes, void *ctx)
{
	struct ky_tokio_elf elf = {
		.bias = info->dlpi_addr, .phdr = info->dlpi_phdr, .phdr_count = info->dlpi_phnum};
	struct taking *taking = ctx;

	(void)info_bytes;
	if (is_ours(&elf))
		return 0;
	taking->elf = &elf;
	ky_tokio_got_each(&elf, take, taking);
	return 0;
}

static void open_memory(struct taking *taking)
{
	taking->memory = open("/proc/self/mem", O_WRONLY | O_CLOEXEC);
}

static void close_memory(const struct taking *taking)
{
	if (taking->memory >= 0)
		close(taking->memory);
}

uint32_t ky_tokio_allocs_start(void)
{
	struct taking taking = {.is_early = true};

	dl_iterate_phdr(learn_object, NULL);
	open_memory(&taking);
	dl_iterate_phdr(take_object, &taking);
	close_memory(&taking);
	is_on = taking.count > 0;
	return taking.count;
}

void ky_tokio_allocs_late(const struct dl_phdr_info *info)
{
	struct taking taking = {.is_early = false};
	struct dl_phdr_info copy = *info;

	if (!is_on)
		return;
	open_memory(&taking);
	(void)take_object(&copy, sizeof(copy), &taking);
	close_memory(&taking);
}

void ky_tokio_allocs_stop(void)
{
	is_on = false;
}
