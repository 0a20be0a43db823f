/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/alloc.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/base.h>
#include <limits.h>
#include <elf/elf_image.h>
#include <symbol/ring_names.h>
#include <symbol/task_names.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FILES_MAX 64u
#define ENTRIES_MAX (1u << 20)

struct ring_module {
	struct ky_entry_module entry;
	uint32_t number;
	uint8_t build_id[KY_BUILD_ID_BYTES_MAX];
	char path[PATH_MAX];
};

struct ring_module_file {
	uint32_t module;
	struct ky_task_names *names; /* NULL: could not be opened; not tried again */
};

struct ky_ring_names {
	const uint8_t *image;
	size_t image_bytes;
	int program_fd; /* /proc/PID/exe, held from the start: outlives process and path */
	char program_path[PATH_MAX];
	uint32_t pid;
	bool is_elsewhere; /* another mount namespace, perhaps: its files are below its root */
	struct ring_module_file files[FILES_MAX];
	size_t file_count;
	struct ring_module module;
	ky_add_symbols_fn add_symbols; /* NULL: those of the file itself alone */
};

static void find_program(struct ky_ring_names *names)
{
	char path[64];
	ssize_t bytes;

	snprintf(path, sizeof(path), "/proc/%u/exe", names->pid);
	names->program_fd = open(path, O_RDONLY | O_CLOEXEC);
	bytes = readlink(path, names->program_path, sizeof(names->program_path) - 1);
	names->program_path[bytes > 0 ? bytes : 0] = '\0';
}

int ky_ring_names_open(struct ky_ring_names **out, const uint8_t *image, size_t image_bytes,
		       ky_add_symbols_fn add_symbols)
{
	struct ky_ring_names *names = ky_alloc(sizeof(*names));

	*out = NULL;
	if (names == NULL)
		return -ENOMEM;
	names->image = image;
	names->image_bytes = image_bytes;
	names->add_symbols = add_symbols;
	names->program_fd = -1;
	*out = names;
	if (image_bytes < sizeof(struct ky_ring_header))
		return 0;
	memcpy(&names->pid, image + offsetof(struct ky_ring_header, pid), sizeof(names->pid));
	find_program(names);
	return 0;
}

void ky_ring_names_process(struct ky_ring_names *names, uint32_t pid)
{
	if (names->program_fd >= 0)
		close(names->program_fd);
	names->pid = pid;
	names->is_elsewhere = true;
	find_program(names);
}

void ky_ring_names_close(struct ky_ring_names *names)
{
	size_t i;

	if (names == NULL)
		return;
	for (i = 0; i < names->file_count; i++)
		ky_task_names_close(names->files[i].names);
	if (names->program_fd >= 0)
		close(names->program_fd);
	ky_free(names);
}

/* The directory's bytes as far as they are published and inside the image. */
static const uint8_t *borrow_directory(const struct ky_ring_names *names, size_t *byte_count)
{
	const struct ky_ring_header *header = (const struct ky_ring_header *)(const void *)
						      names->image;
	uint64_t offset, room, used;

	*byte_count = 0;
	if (names->image_bytes < sizeof(*header))
		return names->image;
	offset = header->directory_offset;
	room = header->directory_bytes;
	used = atomic_load_explicit(&header->directory_used, memory_order_acquire);
	if (offset > names->image_bytes)
		return names->image;
	if (room > names->image_bytes - offset)
		room = names->image_bytes - offset;
	*byte_count = (size_t)(used < room ? used : room);
	return names->image + offset;
}

/* Copies the module out: the image may change under our eyes. Returns false when it is malformed.
 */
static bool read_module(struct ring_module *out, uint32_t number, const uint8_t *payload,
			size_t byte_count)
{
	size_t id_bytes, path_bytes;

	if (byte_count < sizeof(out->entry))
		return false;
	memcpy(&out->entry, payload, sizeof(out->entry));
	id_bytes = out->entry.build_id_bytes;
	path_bytes = out->entry.path_bytes;
	if (id_bytes > KY_BUILD_ID_BYTES_MAX || path_bytes >= sizeof(out->path) ||
	    byte_count - sizeof(out->entry) < id_bytes + path_bytes)
		return false;
	memcpy(out->build_id, payload + sizeof(out->entry), id_bytes);
	memcpy(out->path, payload + sizeof(out->entry) + id_bytes, path_bytes);
	out->path[path_bytes] = '\0';
	out->number = number;
	return true;
}

/* The module mapped over this address, the latest one where several were. */
static bool find_module(struct ky_ring_names *names, uint64_t address)
{
	size_t byte_count, at = 0, entries = 0;
	const uint8_t *directory = borrow_directory(names, &byte_count);
	bool is_found = false;

	while (byte_count - at >= sizeof(struct ky_entry) && entries++ < ENTRIES_MAX) {
		struct ky_entry entry;
		struct ky_entry_module module;
		size_t room, padded;

		memcpy(&entry, directory + at, sizeof(entry));
		at += sizeof(entry);
		room = byte_count - at;
		padded = ((size_t)entry.payload_bytes + 7) & ~(size_t)7;
		if (entry.payload_bytes > room)
			break;
		if (entry.kind == KY_ENTRY_MODULE && entry.payload_bytes >= sizeof(module)) {
			memcpy(&module, directory + at, sizeof(module));
			if (address >= module.start && address < module.end &&
			    read_module(&names->module, entry.id, directory + at,
					entry.payload_bytes))
				is_found = true;
		}
		if (padded > room)
			break;
		at += padded;
	}
	return is_found;
}

static struct ky_task_names *open_program(const struct ky_ring_names *names)
{
	const struct ring_module *module = &names->module;
	struct ky_task_names *file = NULL;
	int fd;

	/* The link says "PATH (deleted)" once the file was replaced: it is still the right one. */
	if (names->program_fd < 0 ||
	    strncmp(names->program_path, module->path, strlen(module->path)) != 0)
		return NULL;
	fd = fcntl(names->program_fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0 ||
	    ky_task_names_open_fd(&file, fd, module->build_id, module->entry.build_id_bytes) < 0)
		return NULL;
	return file;
}

static struct ky_task_names *open_module(const struct ky_ring_names *names)
{
	const struct ring_module *module = &names->module;
	struct ky_task_names *file = open_program(names);
	char mapped[96], rooted[1024];

	if (file != NULL || module->path[0] != '/')
		return file;
	if (names->is_elsewhere &&
	    snprintf(rooted, sizeof(rooted), "/proc/%u/root%s", names->pid, module->path) <
		    (int)sizeof(rooted) &&
	    ky_task_names_open(&file, rooted, module->build_id, module->entry.build_id_bytes) == 0)
		return file;
	if (ky_task_names_open(&file, module->path, module->build_id,
			       module->entry.build_id_bytes) == 0)
		return file;
	/* Replaced on disk meanwhile, and not the program itself: what is mapped (needs
	 * privileges). */
	snprintf(mapped, sizeof(mapped), "/proc/%u/map_files/%llx-%llx", names->pid,
		 (unsigned long long)module->entry.start, (unsigned long long)module->entry.end);
	if (ky_task_names_open(&file, mapped, module->build_id, module->entry.build_id_bytes) == 0)
		return file;
	return NULL;
}

static void add_symbols(const struct ky_ring_names *names, struct ky_task_names *file)
{
	const struct ring_module *module = &names->module;
	struct ky_code_place place = {.kind = KY_CODE_MODULE,
				      .path = module->path,
				      .build_id = module->build_id,
				      .build_id_bytes = module->entry.build_id_bytes};

	names->add_symbols(file, &place, names->pid);
}

/* One object per file, found by path and build id of the module of the latest lookup. */
static struct ky_task_names *file_of_module(struct ky_ring_names *names)
{
	struct ky_task_names *file;
	size_t i;

	for (i = 0; i < names->file_count; i++)
		if (names->files[i].module == names->module.number)
			return names->files[i].names;
	if (names->file_count == FILES_MAX)
		return NULL;
	names->files[names->file_count].module = names->module.number;
	file = open_module(names);
	if (file && names->add_symbols)
		add_symbols(names, file);
	names->files[names->file_count].names = file;
	return names->files[names->file_count++].names;
}

size_t ky_ring_names_text(void *ctx, const struct ky_entry_name *entry, char *out, size_t capacity)
{
	struct ky_ring_names *names = ctx;
	uint64_t address = entry->table_address != 0 ? entry->table_address : entry->code_address;
	struct ky_task_names *file;

	if (address == 0 || capacity == 0 || !find_module(names, address))
		return 0;
	file = file_of_module(names);
	if (file == NULL)
		return 0;
	address -= names->module.entry.load_bias;
	/* A table whose type the file does not report has no better name than its place: the
	 * function in it is Tokio's own, the same for every type. */
	return entry->table_address != 0 ? ky_task_name(file, address, out, capacity) :
					   ky_function_name(file, address, out, capacity);
}
