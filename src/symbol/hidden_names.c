/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <symbol/hidden_names.h>

#include <base/alloc.h>
#include <elf/call_target.h>
#include <fcntl.h>
#include <string.h>
#include <symbol/blaze.h>
#include <symbol/object_methods.h>

#define NAME_BYTES 4096u
#define FOLDED_MAX 32u /* symbols read for one address */

struct ky_hidden_names {
	int fd;
	struct ky_elf *elf; /* NULL: not asked for, or it cannot be read */
	struct ky_object_methods methods;
	bool is_read, has_methods;
	/* Of the address that is asked for. */
	uint64_t address;
	ky_symbol_fn report;
	void *ctx;
	struct ky_symbol_row last;
	char name[NAME_BYTES], text[NAME_BYTES];
};

struct ky_hidden_names *ky_hidden_names_open(int fd)
{
	struct ky_hidden_names *names = ky_alloc(sizeof(*names));

	if (names)
		names->fd = fd;
	return names;
}

void ky_hidden_names_close(struct ky_hidden_names *names)
{
	if (!names)
		return;
	ky_object_methods_release(&names->methods);
	if (names->elf)
		ky_elf_close(names->elf);
	ky_free(names);
}

static bool is_open(struct ky_hidden_names *names)
{
	int fd = names->is_read ? -1 : fcntl(names->fd, F_DUPFD_CLOEXEC, 0);

	names->is_read = true;
	if (fd >= 0 && ky_elf_open_fd(&names->elf, fd) < 0)
		names->elf = NULL;
	return names->elf != NULL;
}

void ky_hidden_names_begin(struct ky_hidden_names *names, uint64_t address, ky_symbol_fn report,
			   void *ctx)
{
	names->address = address;
	names->report = report;
	names->ctx = ctx;
	names->last = (struct ky_symbol_row){0};
}

/* A closure of a type with parameters: "<F as app::Handler<T>>::call::{{closure}}". */
static bool is_generic_closure(const char *name)
{
	const char *tail = strrchr(name, '>');

	return name[0] == '<' && tail && strstr(tail, "closure");
}

static size_t type_of(struct ky_hidden_names *names, uint64_t function, const char *name)
{
	if (!is_generic_closure(name) || !is_open(names))
		return 0;
	if (!names->has_methods)
		(void)ky_object_methods_read(&names->methods, names->elf);
	names->has_methods = true;
	return ky_object_method_name(&names->methods, names->elf, function, name, names->text,
				     sizeof(names->text));
}

void ky_hidden_names_row(void *ctx, const struct ky_symbol_row *row)
{
	struct ky_hidden_names *names = ctx;
	struct ky_symbol_row out = *row;
	size_t bytes = row->name_bytes < NAME_BYTES ? row->name_bytes : NAME_BYTES - 1;

	memcpy(names->name, row->name, bytes);
	names->name[bytes] = '\0';
	bytes = row->depth == 0 ? type_of(names, row->start, names->name) : 0;
	if (bytes) {
		out.name = names->text;
		out.name_bytes = bytes;
	}
	names->last = *row;
	names->report(names->ctx, &out);
}

/* Gives back permits of tokio::sync, or a part of that. */
static bool is_release(const char *name)
{
	static const char *const parts[] = {
		"tokio::sync::semaphore::", "tokio::sync::batch_semaphore::Semaphore>::release",
		"tokio::sync::batch_semaphore::Semaphore::release",
		"tokio::sync::mpsc::bounded::Semaphore"};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strstr(name, parts[i]))
			return true;
	return false;
}

/* The first symbol of a function that is a release. Returns its bytes, 0: none is. */
static size_t release_at(struct ky_hidden_names *names, uint64_t address)
{
	size_t count;
	const struct ky_elf_symbol *symbols = ky_elf_symbols_at(names->elf, address, &count);

	for (size_t i = 0; i < count && i < FOLDED_MAX; i++) {
		size_t bytes = ky_elf_symbol_name(names->elf, &symbols[i], names->name,
						  sizeof(names->name));

		if (!bytes || !strstr(names->name, "emaphore"))
			continue;
		bytes = ky_blaze_demangle(names->name, bytes, names->text, sizeof(names->text) - 1);
		names->text[bytes] = '\0';
		if (is_release(names->text))
			return bytes;
	}
	return 0;
}

int ky_hidden_names_end(struct ky_hidden_names *names)
{
	struct ky_symbol_row out = names->last;
	uint64_t target;

	/* A function of Tokio's own that releases is known by its name. */
	if (!out.name_bytes || names->address == UINT64_MAX || !is_open(names) ||
	    !ky_call_target(names->elf, names->address + 1, &target))
		return 0;
	out.name_bytes = release_at(names, target);
	if (!out.name_bytes)
		return 0;
	out.name = names->text;
	out.file_bytes = out.line = 0;
	out.depth++;
	names->report(names->ctx, &out);
	return 1;
}
