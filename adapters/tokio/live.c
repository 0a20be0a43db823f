/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "live.h"

#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct word {
	uintptr_t *at;
	uintptr_t theirs, ours;
	bool is_ours;
};

struct live_pass {
	bool is_applying;
	uintptr_t page_bytes;
	int error; /* the first */
};

static struct word words[KY_TOKIO_WORDS_MAX];
static uint32_t word_count;

bool ky_tokio_live_note(uintptr_t *at, uintptr_t theirs, uintptr_t ours)
{
	if (theirs == ours)
		return true;
	for (uint32_t i = word_count; i-- > 0;) {
		if (words[i].at != at)
			continue;
		words[i] = (struct word){at, theirs, ours, false};
		return true;
	}
	if (word_count == KY_TOKIO_WORDS_MAX)
		return false;
	words[word_count++] = (struct word){at, theirs, ours, false};
	return true;
}

uint32_t ky_tokio_live_count(void)
{
	return word_count;
}

static void store(struct word *word, bool is_applying)
{
	uintptr_t expected = is_applying ? word->theirs : word->ours;
	uintptr_t value = is_applying ? word->ours : word->theirs;

	/* Another thread that changed it after us knows better. */
	__atomic_compare_exchange_n(word->at, &expected, value, false, __ATOMIC_RELEASE,
				    __ATOMIC_RELAXED);
	word->is_ours = is_applying;
}

/* All words within [start, end). sealed: of pages that are read-only. */
static void change_range(struct live_pass *pass, uintptr_t start, uintptr_t end, bool is_sealed)
{
	uintptr_t low = UINTPTR_MAX, high = 0, mask = ~(pass->page_bytes - 1);

	for (uint32_t i = 0; i < word_count; i++) {
		uintptr_t at = (uintptr_t)words[i].at;

		if (at < start || at >= end || end - at < sizeof(at))
			continue;
		low = at < low ? at : low;
		high = at > high ? at : high;
	}
	if (low > high)
		return;
	low &= mask;
	high = (high + pass->page_bytes) & mask;
	if (is_sealed && mprotect((void *)low, high - low, PROT_READ | PROT_WRITE) != 0) {
		pass->error = pass->error ? pass->error : -errno;
		return;
	}
	for (uint32_t i = 0; i < word_count; i++) {
		uintptr_t at = (uintptr_t)words[i].at;

		if (at >= start && at < end && end - at >= sizeof(at))
			store(&words[i], pass->is_applying);
	}
	if (is_sealed)
		(void)mprotect((void *)low, high - low, PROT_READ);
}

/* The loader keeps the object where it is as long as this runs. */
static int on_object(struct dl_phdr_info *info, size_t info_bytes, void *ctx)
{
	struct live_pass *pass = ctx;
	uintptr_t mask = ~(pass->page_bytes - 1), relro_start = 0, relro_end = 0;

	(void)info_bytes;
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];

		if (phdr->p_type != PT_GNU_RELRO)
			continue;
		relro_start = (info->dlpi_addr + phdr->p_vaddr) & mask;
		/* As the loader rounds: the last, partial page stays writable. */
		relro_end = (info->dlpi_addr + phdr->p_vaddr + phdr->p_memsz) & mask;
		change_range(pass, relro_start, relro_end, true);
	}
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + phdr->p_vaddr, end = start + phdr->p_memsz;
		uint32_t flags = phdr->p_flags & (PF_R | PF_W | PF_X);

		if (phdr->p_type != PT_LOAD || end < start || (flags & PF_X))
			continue;
		if (flags == PF_R) {
			change_range(pass, start, end, true);
		} else if (relro_end > start && relro_start < end) {
			change_range(pass, start, relro_start, false);
			change_range(pass, relro_end, end, false);
		} else {
			change_range(pass, start, end, false);
		}
	}
	return 0;
}

static int run(bool is_applying)
{
	struct live_pass pass = {is_applying, (uintptr_t)sysconf(_SC_PAGESIZE), 0};

	dl_iterate_phdr(on_object, &pass);
	return pass.error;
}

int ky_tokio_live_apply(void)
{
	int err = run(true);

	if (err)
		(void)ky_tokio_live_restore();
	return err;
}

int ky_tokio_live_restore(void)
{
	int err = run(false);
	uint32_t kept = 0;

	for (uint32_t i = 0; err && i < word_count; i++)
		if (words[i].is_ours)
			words[kept++] = words[i];
	word_count = kept;
	return err;
}
