/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/alloc.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <symbol/debug_search.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LAYOUTS 6
#define PATH_BYTES 1400
#define LINE_BYTES 1024
#define HEX_BYTES (2 * KY_BUILD_ID_BYTES_MAX + 1)

/* A path that does not fit is none. */
__attribute__((format(printf, 2, 3))) static bool put_path(char out[PATH_BYTES], const char *format,
							   ...)
{
	va_list arguments;
	int count;

	va_start(arguments, format);
	count = vsnprintf(out, PATH_BYTES, format, arguments);
	va_end(arguments);
	return count >= 0 && count < PATH_BYTES;
}

int ky_debug_search_add(struct ky_debug_search *search, const char *dir)
{
	char *copy;

	if (search->dir_count == KY_SEARCH_DIRS_MAX)
		return 0;
	copy = strdup(dir);
	if (!copy)
		return -ENOMEM;
	search->dirs[search->dir_count++] = copy;
	return 0;
}

int ky_debug_search_add_system(struct ky_debug_search *search)
{
	const char *cache = getenv("DEBUGINFOD_CACHE_PATH"), *home = getenv("HOME");
	const char *xdg = getenv("XDG_CACHE_HOME");
	char path[PATH_BYTES] = "";
	int err = ky_debug_search_add(search, "/usr/lib/debug");

	if (cache && *cache)
		(void)snprintf(path, sizeof(path), "%s", cache);
	else if (xdg && *xdg)
		(void)snprintf(path, sizeof(path), "%s/debuginfod_client", xdg);
	else if (home && *home)
		(void)snprintf(path, sizeof(path), "%s/.cache/debuginfod_client", home);
	return err || !path[0] ? err : ky_debug_search_add(search, path);
}

void ky_debug_search_release(struct ky_debug_search *search)
{
	for (size_t i = 0; i < search->dir_count; i++)
		free(search->dirs[i]);
	search->dir_count = 0;
}

void ky_debug_file_close(struct ky_debug_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
}

/* How a library reaches the file that is open here: it searches for neighbours of it (.dwp), so by
 * its name where that still leads to it. */
static void set_path(struct ky_debug_file *file, const char *path)
{
	struct stat open_file, named;

	(void)snprintf(file->name, sizeof(file->name), "%s", path);
	if (strncmp(path, "/proc/", 6) != 0 && fstat(file->fd, &open_file) == 0 &&
	    stat(path, &named) == 0 && open_file.st_dev == named.st_dev &&
	    open_file.st_ino == named.st_ino)
		(void)snprintf(file->path, sizeof(file->path), "%s", path);
	else
		(void)snprintf(file->path, sizeof(file->path), "/proc/self/fd/%d", file->fd);
}

static bool is_same_id(const struct ky_object *object, const uint8_t *id, size_t id_bytes)
{
	return object->build_id_bytes == id_bytes &&
	       (id_bytes == 0 || memcmp(object->build_id, id, id_bytes) == 0);
}

/* Returns 0, or why it does not serve: enum ky_symbol_why. The file is open when 0 is returned. */
static uint32_t try_file(struct ky_debug_file *out, const char *path,
			 const struct ky_code_place *place)
{
	int err;

	/* Not blocking: a FIFO may stand there. */
	out->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (out->fd < 0)
		return KY_SYMBOL_NO_FILE;
	err = ky_object_read_fd(&out->object, out->fd);
	if (err < 0 || !out->object.is_sane) {
		ky_debug_file_close(out);
		return KY_SYMBOL_DAMAGED;
	}
	if (!is_same_id(&out->object, place->build_id, place->build_id_bytes)) {
		ky_debug_file_close(out);
		return KY_SYMBOL_OTHER_FILE;
	}
	set_path(out, path);
	return 0;
}

/* The first mapping of the module, under its name in map_files. */
static bool find_mapping(uint32_t pid, uint64_t start, char *out, size_t capacity)
{
	char maps[64], line[LINE_BYTES];
	bool is_found = false;
	FILE *file;

	(void)snprintf(maps, sizeof(maps), "/proc/%" PRIu32 "/maps", pid);
	file = fopen(maps, "re");
	if (!file)
		return false;
	while (!is_found && fgets(line, sizeof(line), file)) {
		char *end;
		uint64_t from = strtoull(line, &end, 16), to;

		if (*end != '-' || from != start)
			continue;
		to = strtoull(end + 1, NULL, 16);
		(void)snprintf(out, capacity, "/proc/%" PRIu32 "/map_files/%" PRIx64 "-%" PRIx64,
			       pid, from, to);
		is_found = true;
	}
	(void)fclose(file);
	return is_found;
}

/* Through the process: a program that was replaced on disk is still read as it was started. */
static uint32_t try_process(const struct ky_debug_search *search, const struct ky_code_place *place,
			    struct ky_debug_file *out)
{
	char path[PATH_BYTES];

	if (find_mapping(search->pid, place->start, path, sizeof(path)) &&
	    try_file(out, path, place) == 0)
		return 0;
	(void)snprintf(path, sizeof(path), "/proc/%" PRIu32 "/exe", search->pid);
	/* Without a build id nothing would say that it is this module. */
	if (place->build_id_bytes > 0 && try_file(out, path, place) == 0)
		return 0;
	return place->path[0] == '/' && put_path(path, "/proc/%" PRIu32 "/root%s", search->pid,
						 place->path) ?
		       try_file(out, path, place) :
		       KY_SYMBOL_NO_FILE;
}

static void put_hex(char *out, const uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		(void)snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

enum wanted {
	WANTED_CODE,
	WANTED_DEBUG,  /* DWARF */
	WANTED_SYMBOLS /* that, or the symbols that were stripped off a program without DWARF */
};

static bool serves(const struct ky_debug_file *file, enum wanted wanted)
{
	if (file->object.has_dwarf)
		return true;
	return (wanted == WANTED_CODE && file->object.has_symbols) ||
	       (wanted == WANTED_SYMBOLS && file->object.has_symtab);
}

/* By build id, in one directory. */
static int try_dir(const char *dir, const struct ky_code_place *place, enum wanted wanted,
		   struct ky_debug_file *out)
{
	char hex[HEX_BYTES], path[PATH_BYTES];
	int i;

	if (place->build_id_bytes < 2 || place->build_id_bytes > KY_BUILD_ID_BYTES_MAX)
		return -ENOENT;
	put_hex(hex, place->build_id, place->build_id_bytes);
	for (i = 0; i < LAYOUTS; i++) {
		bool fits;

		if (i < 2)
			fits = put_path(path, "%s/%s/%.2s/%s.debug", dir,
					i ? "buildid" : ".build-id", hex, hex + 2);
		else
			fits = put_path(path, "%s/%s%s/%s", dir, i % 2 ? "buildid/" : "", hex,
					i < 4 ? "debuginfo" : "executable");
		if (!fits || try_file(out, path, place) != 0)
			continue;
		if (serves(out, wanted))
			return 0;
		ky_debug_file_close(out);
	}
	return -ENOENT;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Copies that stand in a directory under the module's own path or name. */
static int try_copies(const struct ky_debug_search *search, const struct ky_code_place *place,
		      enum wanted wanted, struct ky_debug_file *out)
{
	const char *base = base_name(place->path);
	char path[PATH_BYTES];

	/* Only a build id can say that they are the same. */
	for (size_t i = 0; i < search->dir_count && *base && place->build_id_bytes > 0; i++) {
		for (int form = 0; form < 4; form++) {
			const char *name = form < 2 ? place->path : base;

			if (form < 2 && place->path[0] != '/')
				continue;
			if (!put_path(path, "%s/%s%s", search->dirs[i], name,
				      form % 2 ? ".debug" : "") ||
			    try_file(out, path, place) != 0)
				continue;
			if (serves(out, wanted))
				return 0;
			ky_debug_file_close(out);
		}
	}
	return -ENOENT;
}

int ky_debug_search_module(const struct ky_debug_search *search, const struct ky_code_place *place,
			   struct ky_debug_file *out, uint32_t *why)
{
	uint32_t on_disk = KY_SYMBOL_NO_FILE;

	out->fd = -1;
	*why = 0;
	if (search->pid && try_process(search, place, out) == 0)
		return 0;
	if (place->path[0] == '/')
		on_disk = try_file(out, place->path, place);
	if (on_disk == 0)
		return 0;
	for (size_t i = 0; i < search->dir_count; i++)
		if (try_dir(search->dirs[i], place, WANTED_CODE, out) == 0)
			return 0;
	if (try_copies(search, place, WANTED_CODE, out) == 0)
		return 0;
	*why = on_disk;
	return -ENOENT;
}

/* Does the file carry what the link asks for? */
static bool is_linked(const struct ky_debug_file *file, const struct ky_debug_file *module)
{
	uint32_t crc;

	if (module->object.build_id_bytes > 0 && file->object.build_id_bytes > 0)
		return is_same_id(&file->object, module->object.build_id,
				  module->object.build_id_bytes);
	return ky_object_crc(file->fd, &crc) == 0 && crc == module->object.link_crc;
}

static int try_link(const char *path, const struct ky_debug_file *module, enum wanted wanted,
		    struct ky_debug_file *out)
{
	out->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (out->fd < 0)
		return -ENOENT;
	if (ky_object_read_fd(&out->object, out->fd) == 0 && out->object.is_sane &&
	    serves(out, wanted) && is_linked(out, module)) {
		set_path(out, path);
		return 0;
	}
	ky_debug_file_close(out);
	return -ENOENT;
}

static int follow_link(const struct ky_debug_search *search, const struct ky_code_place *place,
		       const struct ky_debug_file *module, enum wanted wanted,
		       struct ky_debug_file *out)
{
	const char *link = module->object.link;
	int dir_bytes = (int)(base_name(place->path) - place->path);
	char path[PATH_BYTES];

	if (!link[0])
		return -ENOENT;
	for (int form = 0; form < 2 && place->path[0] == '/'; form++) {
		if (put_path(path, "%.*s%s%s", dir_bytes, place->path, form ? ".debug/" : "",
			     link) &&
		    try_link(path, module, wanted, out) == 0)
			return 0;
	}
	for (size_t i = 0; i < search->dir_count; i++) {
		if (put_path(path, "%s%.*s%s", search->dirs[i], dir_bytes, place->path, link) &&
		    try_link(path, module, wanted, out) == 0)
			return 0;
		if (put_path(path, "%s/%s", search->dirs[i], link) &&
		    try_link(path, module, wanted, out) == 0)
			return 0;
	}
	return -ENOENT;
}

int ky_debug_search_debug(const struct ky_debug_search *search, const struct ky_code_place *place,
			  const struct ky_debug_file *module, struct ky_debug_file *out)
{
	enum wanted wanted = module && !module->object.has_symtab ? WANTED_SYMBOLS : WANTED_DEBUG;

	out->fd = -1;
	for (size_t i = 0; i < search->dir_count; i++)
		if (try_dir(search->dirs[i], place, wanted, out) == 0)
			return 0;
	if (try_copies(search, place, wanted, out) == 0)
		return 0;
	return module ? follow_link(search, place, module, wanted, out) : -ENOENT;
}
