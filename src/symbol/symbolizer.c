/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <base/alloc.h>
#include <base/first_line.h>
#include <base/now.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <link.h>
#include <malloc.h>
#include <symbol/blaze.h>
#include <symbol/debug_search.h>
#include <symbol/hidden_names.h>
#include <symbol/symbol_list.h>
#include <symbol/symbolizer.h>
#include <symbol/unpacked_object.h>
#include <elf/vdso.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MODULES_MAX 4096u
#define OPEN_BYTES_MAX (UINT64_C(1) << 30)
#define LIST_BYTES_MAX (128u << 20)
#define PIECE_BYTES (64u << 10)
#define SECOND_NS INT64_C(1000000000)
#define TICKS_MAX (UINT64_C(1) << 32)
/* By how much a module may grow after its first look-up before it is begun anew: so much, and no
 * less than a part of what its beginning took, since that is read again then. */
#define GROWTH_BYTES_MIN (UINT64_C(1) << 20)
#define GROWTH_PART 4u
/* Compressed sections, which a look-up would hold whole, are put on disk, up to this. */
#define UNPACKED_BYTES_MAX (UINT64_C(256) << 20)
#define MAP_SLACK_NS (2 * SECOND_NS) /* clocks are set, and what is written last comes late */

/* What became of one module of the trace. */
struct symbol_module {
	uint32_t number;
	uint32_t why; /* 0: there is a file */
	struct ky_blaze *debug, *plain;
	struct ky_debug_file code, dwarf;
	int unpacked_fd; /* of the one with debug information, -1: it is read as it is */
	struct ky_hidden_names *hidden; /* NULL: not asked for */
	bool is_open, has_code, has_dwarf;
	uint64_t bytes, last_used;
	/* memory of the process before the first look-up and after it; 0: none yet */
	uint64_t before_bytes, first_bytes;
};

struct lazy_list {
	struct ky_symbol_list list;
	uint32_t why; /* 0: it is there */
	bool is_read;
};

struct ky_symbolizer {
	struct ky_debug_search search;
	struct ky_symbol_process process;
	char kallsyms_path[256], perf_map_dir[256], boot_id_path[256];
	bool is_same_boot, is_sorted;
	struct symbol_module **modules;
	uint32_t module_count, module_capacity;
	uint64_t clock;
	struct lazy_list kernel, compiled;
	struct ky_vdso vdso;
	bool is_vdso_read;
};

/* ---- the process ---- */

static size_t read_small(const char *path, char *out, size_t capacity)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd >= 0 ? read(fd, out, capacity - 1) : -1;

	if (fd >= 0)
		close(fd);
	out[got > 0 ? got : 0] = '\0';
	return got > 0 ? (size_t)got : 0;
}

static bool is_same_boot(const struct ky_symbolizer *symbolizer)
{
	char now[64];

	return ky_read_first_line(symbolizer->boot_id_path, now, sizeof(now)) && now[0] &&
	       strcmp(now, symbolizer->process.boot_id) == 0;
}

/* A process number alone says nothing: it is used again. */
static bool is_alive(const struct ky_symbol_process *process)
{
	char path[64], text[1024];
	const char *at;
	char *end;

	if (!process->pid || !process->start_time_ticks)
		return false;
	(void)snprintf(path, sizeof(path), "/proc/%" PRIu32 "/stat", process->pid);
	if (!read_small(path, text, sizeof(text)))
		return false;
	at = strrchr(text, ')'); /* the name may hold anything */
	for (int i = 0; at && i < 20; i++) {
		at = strchr(at + 1, ' ');
		if (!at)
			return false;
	}
	return at && strtoull(at + 1, &end, 10) == process->start_time_ticks;
}

/* Memory that is this process's own: pages of mapped files are the system's, which takes them when
 * it needs them. 0: not known. */
static uint64_t own_bytes(void)
{
	char text[128], *at;
	uint64_t resident, shared;

	if (!read_small("/proc/self/statm", text, sizeof(text)))
		return 0;
	(void)strtoull(text, &at, 10);
	resident = strtoull(at, &at, 10);
	shared = strtoull(at, &at, 10);
	return resident > shared ? (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

/* ---- opening ---- */

int ky_symbolizer_open(struct ky_symbolizer **out, const struct ky_symbolizer_options *options)
{
	struct ky_symbolizer *symbolizer = ky_alloc(sizeof(*symbolizer));
	const char *text;
	int err = 0;

	*out = symbolizer;
	if (!symbolizer)
		return -ENOMEM;
	ky_blaze_quiet();
	symbolizer->process = options->process;
	symbolizer->process.boot_id[sizeof(options->process.boot_id) - 1] = '\0';
	text = options->kallsyms_path ? options->kallsyms_path : "/proc/kallsyms";
	(void)snprintf(symbolizer->kallsyms_path, sizeof(symbolizer->kallsyms_path), "%s", text);
	text = options->perf_map_dir ? options->perf_map_dir : "/tmp";
	(void)snprintf(symbolizer->perf_map_dir, sizeof(symbolizer->perf_map_dir), "%s", text);
	text = options->boot_id_path ? options->boot_id_path : KY_BOOT_ID_PATH;
	(void)snprintf(symbolizer->boot_id_path, sizeof(symbolizer->boot_id_path), "%s", text);
	symbolizer->is_sorted = options->is_sorted;
	symbolizer->is_same_boot = is_same_boot(symbolizer);
	if (symbolizer->is_same_boot && is_alive(&options->process))
		symbolizer->search.pid = options->process.pid;
	ky_symbol_list_init(&symbolizer->kernel.list);
	ky_symbol_list_init(&symbolizer->compiled.list);
	for (size_t i = 0; i < options->debug_dir_count && !err; i++)
		err = ky_debug_search_add(&symbolizer->search, options->debug_dirs[i]);
	if (!err && !options->has_no_system_dirs)
		err = ky_debug_search_add_system(&symbolizer->search);
	if (err) {
		ky_symbolizer_close(symbolizer);
		*out = NULL;
	}
	return err;
}

/* What was read of the files; they stay open. */
static void forget_module(struct symbol_module *module)
{
	ky_blaze_close(module->debug);
	ky_blaze_close(module->plain);
	module->debug = module->plain = NULL;
	ky_hidden_names_close(module->hidden);
	module->hidden = NULL;
	module->first_bytes = 0;
}

static void close_module(struct symbol_module *module)
{
	forget_module(module);
	if (module->has_code)
		ky_debug_file_close(&module->code);
	if (module->has_dwarf)
		ky_debug_file_close(&module->dwarf);
	if (module->unpacked_fd >= 0)
		close(module->unpacked_fd);
	module->unpacked_fd = -1;
	module->has_code = module->has_dwarf = module->is_open = false;
}

void ky_symbolizer_close(struct ky_symbolizer *symbolizer)
{
	if (!symbolizer)
		return;
	for (uint32_t i = 0; i < symbolizer->module_count; i++) {
		close_module(symbolizer->modules[i]);
		ky_free(symbolizer->modules[i]);
	}
	ky_free(symbolizer->modules);
	ky_debug_search_release(&symbolizer->search);
	ky_symbol_list_release(&symbolizer->kernel.list);
	ky_symbol_list_release(&symbolizer->compiled.list);
	ky_vdso_close(&symbolizer->vdso);
	ky_free(symbolizer);
}

/* ---- modules ---- */

static struct symbol_module *find_module(const struct ky_symbolizer *symbolizer, uint32_t number)
{
	for (uint32_t i = 0; i < symbolizer->module_count; i++)
		if (symbolizer->modules[i]->number == number)
			return symbolizer->modules[i];
	return NULL;
}

static struct symbol_module *add_module(struct ky_symbolizer *symbolizer, uint32_t number)
{
	struct symbol_module *module;

	if (symbolizer->module_count == MODULES_MAX ||
	    ky_grow(&symbolizer->modules, &symbolizer->module_capacity,
		    symbolizer->module_count + 1, sizeof(struct symbol_module *)))
		return NULL;
	module = ky_alloc(sizeof(*module));
	if (!module)
		return NULL;
	module->number = number;
	module->unpacked_fd = -1;
	symbolizer->modules[symbolizer->module_count++] = module;
	return module;
}

/* Makes room for one more open file: those used longest ago go. */
static void evict(struct ky_symbolizer *symbolizer, uint64_t bytes)
{
	for (;;) {
		uint64_t open_bytes = bytes;
		uint32_t open_count = 0;
		struct symbol_module *oldest = NULL;

		for (uint32_t i = 0; i < symbolizer->module_count; i++) {
			struct symbol_module *module = symbolizer->modules[i];

			if (!module->is_open)
				continue;
			open_bytes += module->bytes;
			open_count++;
			if (!oldest || module->last_used < oldest->last_used)
				oldest = module;
		}
		if (!oldest || (open_count < (symbolizer->is_sorted ? 1 : KY_SYMBOLIZER_OPEN_MAX) &&
				open_bytes <= OPEN_BYTES_MAX))
			return;
		close_module(oldest);
		if (symbolizer->is_sorted)
			(void)malloc_trim(0);
	}
}

static uint64_t weight(const struct ky_debug_file *file)
{
	return file->object.file_bytes + file->object.unpacked_bytes;
}

/* Puts the files in place that were found. Returns false when memory is out. */
static bool open_files(struct symbol_module *module)
{
	const struct ky_debug_file *debug = module->has_dwarf ? &module->dwarf : &module->code;
	const struct ky_debug_file *plain = module->has_code ? &module->code : NULL;

	/* The symbols that were stripped off, without DWARF. */
	if (module->has_dwarf && !module->dwarf.object.has_dwarf)
		plain = &module->dwarf;
	if (debug->object.has_dwarf) {
		char unpacked[32];
		const char *path = debug->path;

		if (module->unpacked_fd >= 0) {
			(void)snprintf(unpacked, sizeof(unpacked), "/proc/self/fd/%d",
				       module->unpacked_fd);
			path = unpacked;
		}
		module->debug = ky_blaze_open(path, strlen(path), 1);
		if (!module->debug)
			return false;
	}
	if (plain) {
		module->plain = ky_blaze_open(plain->path, strlen(plain->path), 0);
		if (!module->plain)
			return false;
	}
	return true;
}

/* Where that fails it is read as it is, which takes memory. */
static void unpack_debug(struct symbol_module *module)
{
	const struct ky_debug_file *debug = module->has_dwarf ? &module->dwarf : &module->code;
	char package[1024];

	/* A package of split debug information is searched for beside it. */
	if (snprintf(package, sizeof(package), "%s.dwp", debug->path) >= (int)sizeof(package))
		return;
	if (debug->object.has_dwarf && debug->object.unpacked_bytes && access(package, F_OK) != 0)
		module->unpacked_fd = ky_unpacked_object_open(debug->fd, UNPACKED_BYTES_MAX);
}

static void open_module(struct ky_symbolizer *symbolizer, struct symbol_module *module,
			const struct ky_code_place *place)
{
	module->why = 0;
	module->has_code = ky_debug_search_module(&symbolizer->search, place, &module->code,
						  &module->why) == 0;
	if (!module->has_code || !module->code.object.has_dwarf)
		module->has_dwarf = ky_debug_search_debug(&symbolizer->search, place,
							  module->has_code ? &module->code : NULL,
							  &module->dwarf) == 0;
	if (!module->has_code && !module->has_dwarf)
		return;
	module->why = 0;
	module->bytes = (module->has_code ? weight(&module->code) : 0) +
			(module->has_dwarf ? weight(&module->dwarf) : 0);
	evict(symbolizer, module->bytes);
	module->is_open = true;
	if (symbolizer->is_sorted)
		unpack_debug(module);
	module->before_bytes = own_bytes();
	if (!open_files(module)) {
		close_module(module);
		module->why = KY_SYMBOL_DAMAGED;
	}
}

/* A symbol table says less than debug information does: hidden_names.h. */
static int ask_plain(struct symbol_module *module, uint64_t address, ky_symbol_fn report, void *ctx)
{
	bool is_code = module->has_code && module->code.object.has_symtab;
	int count;

	if (is_code && !module->hidden)
		module->hidden = ky_hidden_names_open(module->code.fd);
	if (!is_code || !module->hidden)
		return ky_blaze_find(module->plain, address, report, ctx);
	ky_hidden_names_begin(module->hidden, address, report, ctx);
	count = ky_blaze_find(module->plain, address, ky_hidden_names_row, module->hidden);
	return count > 0 ? count + ky_hidden_names_end(module->hidden) : count;
}

/* A unit of debug information that was read stays until its file is closed, and addresses that
 * ascend come back to few of them. */
static void shrink(struct symbol_module *module)
{
	uint64_t now = own_bytes(), base = 0;

	if (!module->first_bytes) {
		module->first_bytes = now;
		return;
	}
	if (module->first_bytes > module->before_bytes)
		base = (module->first_bytes - module->before_bytes) / GROWTH_PART;
	if (now < module->first_bytes + (base > GROWTH_BYTES_MIN ? base : GROWTH_BYTES_MIN))
		return;
	forget_module(module);
	(void)malloc_trim(0);
	module->before_bytes = own_bytes();
	if (!open_files(module)) {
		close_module(module);
		module->why = KY_SYMBOL_DAMAGED;
	}
}

static int ask_module(struct symbol_module *module, uint64_t address, ky_symbol_fn report,
		      void *ctx, uint32_t *why)
{
	int count = 0;

	*why = KY_SYMBOL_NO_SYMBOL;
	if (module->debug)
		count = ky_blaze_find(module->debug, address, report, ctx);
	if (count > 0)
		return count;
	if (count < 0)
		*why = KY_SYMBOL_DAMAGED;
	if (module->plain)
		count = ask_plain(module, address, report, ctx);
	if (count < 0)
		*why = KY_SYMBOL_DAMAGED;
	return count > 0 ? count : 0;
}

/* ---- the vDSO: the same in every process of a boot ---- */

static int ask_vdso(struct ky_symbolizer *symbolizer, const struct ky_code_place *place,
		    ky_symbol_fn report, void *ctx, uint32_t *why)
{
	const struct ky_elf_symbol *symbol;
	uint8_t id[KY_BUILD_ID_BYTES_MAX];
	struct ky_symbol_row row = {0};
	char name[256];

	if (!symbolizer->is_vdso_read)
		ky_vdso_open(&symbolizer->vdso);
	symbolizer->is_vdso_read = true;
	*why = KY_SYMBOL_NO_FILE;
	if (!symbolizer->vdso.elf)
		return 0;
	*why = KY_SYMBOL_OTHER_BOOT;
	if (place->build_id_bytes == 0 ||
	    ky_elf_build_id(symbolizer->vdso.elf, id) != place->build_id_bytes ||
	    memcmp(id, place->build_id, place->build_id_bytes) != 0)
		return 0;
	*why = KY_SYMBOL_NO_SYMBOL;
	symbol = ky_elf_symbol_covering(symbolizer->vdso.elf, place->address);
	if (!symbol)
		return 0;
	row.name = name;
	row.name_bytes = ky_elf_symbol_name(symbolizer->vdso.elf, symbol, name, sizeof(name));
	row.start = symbol->address;
	row.code_bytes = symbol->byte_count;
	if (row.name_bytes > 0)
		report(ctx, &row);
	return row.name_bytes > 0;
}

/* ---- text lists ---- */

/* Reads a file whole, as far as it fits. Returns 0, -errno. */
static int read_text(int fd, struct ky_buf *out)
{
	for (;;) {
		ssize_t got;
		int err = ky_buf_reserve(out, 65536);

		if (err == KYMO_E_LIMIT)
			return 0;
		if (err)
			return err;
		got = read(fd, out->bytes + out->used, 65536);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			return 0;
		out->used += (size_t)got;
	}
}

/* By pieces: the text is 8 MiB, of which the list keeps a third. Returns 0, -errno, -ENOMEM. */
static int read_kallsyms(int fd, struct ky_symbol_list *list)
{
	char *text = ky_alloc(PIECE_BYTES);
	size_t used = 0;
	int err = text ? 0 : -ENOMEM;

	while (!err) {
		ssize_t got = read(fd, text + used, PIECE_BYTES - used);
		const char *last;
		size_t whole;

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			err = -errno;
		if (got <= 0)
			break;
		used += (size_t)got;
		last = memrchr(text, '\n', used);
		/* A line that fills the piece is none of kallsyms: it is cut. */
		whole = last ? (size_t)(last - text) + 1 : used == PIECE_BYTES ? used : 0;
		err = ky_symbol_list_kallsyms(list, text, whole);
		used -= whole;
		memmove(text, text + whole, used);
	}
	if (!err && used)
		err = ky_symbol_list_kallsyms(list, text, used);
	ky_free(text);
	return err;
}

static uint32_t read_kernel(struct ky_symbolizer *symbolizer)
{
	int fd = open(symbolizer->kallsyms_path, O_RDONLY | O_CLOEXEC);
	uint32_t why = KY_SYMBOL_FORBIDDEN;

	if (!symbolizer->is_same_boot || fd < 0) {
		if (fd >= 0)
			close(fd);
		return symbolizer->is_same_boot ? KY_SYMBOL_FORBIDDEN : KY_SYMBOL_OTHER_BOOT;
	}
	if (read_kallsyms(fd, &symbolizer->kernel.list) == 0 &&
	    symbolizer->kernel.list.has_code) /* kptr_restrict: all zeros */
		why = 0;
	close(fd);
	ky_symbol_list_finish(&symbolizer->kernel.list);
	return why;
}

/* Any user may write into /tmp: the map must be a file of the user who runs the process, or of us,
 * and no other user may have written it. pid 0: it has ended, and no user runs it. */
static bool is_trusted(int fd, uint32_t pid)
{
	char path[64];
	struct stat st, owner;
	bool is_owners = false;

	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return false;
	(void)snprintf(path, sizeof(path), "/proc/%" PRIu32, pid);
	if (stat(path, &owner) == 0)
		is_owners = st.st_uid == owner.st_uid;
	return is_owners || st.st_uid == geteuid();
}

static int64_t ns_of(struct timespec time)
{
	return time.tv_sec * SECOND_NS + time.tv_nsec;
}

/* Was it written last while the process ran? A process that gets its number afterwards, and has a
 * map of its own, writes later; one that had it before, earlier. */
static bool is_of_then(int fd, const struct ky_symbol_process *process)
{
	uint64_t now_ns, up_ns;
	int64_t began, written;
	struct stat st;

	/* A trace may say anything: numbers that no sum of them leaves. */
	if (!process->start_time_ticks || process->start_time_ticks > TICKS_MAX ||
	    !process->last_wall_ns || process->last_wall_ns > INT64_MAX / 2 ||
	    fstat(fd, &st) != 0 || !ky_clock_read(CLOCK_REALTIME, &now_ns) ||
	    !ky_clock_read(CLOCK_BOOTTIME, &up_ns))
		return false;
	written = ns_of(st.st_mtim);
	began = (int64_t)now_ns - (int64_t)up_ns +
		(int64_t)process->start_time_ticks * (SECOND_NS / sysconf(_SC_CLK_TCK));
	return written >= began - MAP_SLACK_NS &&
	       written <= (int64_t)process->last_wall_ns + MAP_SLACK_NS;
}

/* The number of the process is used again one day: while it lives the map is known to be its own,
 * and afterwards by when it was written. */
static uint32_t read_compiled(struct ky_symbolizer *symbolizer)
{
	uint32_t pid = symbolizer->process.pid, why = KY_SYMBOL_NO_MAP;
	char path[320];
	struct ky_buf text;
	int fd;

	if (!pid || !symbolizer->is_same_boot)
		return KY_SYMBOL_NO_MAP;
	(void)snprintf(path, sizeof(path), "%s/perf-%" PRIu32 ".map", symbolizer->perf_map_dir,
		       pid);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return KY_SYMBOL_NO_MAP;
	ky_buf_init(&text, LIST_BYTES_MAX);
	if (is_trusted(fd, symbolizer->search.pid) &&
	    (symbolizer->search.pid || is_of_then(fd, &symbolizer->process)) &&
	    read_text(fd, &text) == 0 &&
	    ky_symbol_list_perf_map(&symbolizer->compiled.list, (const char *)text.bytes,
				    text.used) == 0)
		why = 0;
	close(fd);
	ky_buf_release(&text);
	ky_symbol_list_finish(&symbolizer->compiled.list);
	return why;
}

static int ask_list(const struct lazy_list *lazy, uint64_t address, uint32_t none,
		    ky_symbol_fn report, void *ctx, uint32_t *why)
{
	const struct ky_listed_symbol *symbol;
	struct ky_symbol_row row = {0};

	*why = lazy->why;
	if (lazy->why)
		return 0;
	*why = none;
	symbol = ky_symbol_list_find(&lazy->list, address, &row.name);
	if (!symbol)
		return 0;
	row.name_bytes = symbol->name_bytes;
	row.start = symbol->address;
	row.code_bytes = symbol->byte_count;
	report(ctx, &row);
	return 1;
}

static int find(void *ctx, const struct ky_code_place *place, ky_symbol_fn report, void *report_ctx,
		uint32_t *why)
{
	struct ky_symbolizer *symbolizer = ctx;
	struct symbol_module *module;
	int count;

	if (place->kind == KY_CODE_KERNEL) {
		if (!symbolizer->kernel.is_read)
			symbolizer->kernel.why = read_kernel(symbolizer);
		symbolizer->kernel.is_read = true;
		return ask_list(&symbolizer->kernel, place->address, KY_SYMBOL_NO_SYMBOL, report,
				report_ctx, why);
	}
	if (place->kind != KY_CODE_MODULE) {
		if (!symbolizer->compiled.is_read)
			symbolizer->compiled.why = read_compiled(symbolizer);
		symbolizer->compiled.is_read = true;
		return ask_list(&symbolizer->compiled, place->address, KY_SYMBOL_NO_MAP, report,
				report_ctx, why);
	}
	if (ky_vdso_is(place->path))
		return ask_vdso(symbolizer, place, report, report_ctx, why);
	module = find_module(symbolizer, place->module);
	if (!module) {
		module = add_module(symbolizer, place->module);
		if (!module)
			return -ENOMEM;
		open_module(symbolizer, module, place);
	} else if (!module->is_open && !module->why) {
		open_module(symbolizer, module, place);
	}
	module->last_used = ++symbolizer->clock;
	*why = module->why;
	if (module->why)
		return 0;
	count = ask_module(module, place->address, report, report_ctx, why);
	if (symbolizer->is_sorted)
		shrink(module);
	return count;
}

struct ky_symbol_source ky_symbolizer_source(struct ky_symbolizer *symbolizer)
{
	return (struct ky_symbol_source){.find = find, .ctx = symbolizer};
}

int ky_symbolizer_expect(struct ky_symbolizer *symbolizer, const uint64_t *addresses,
			 uint32_t count)
{
	return ky_symbol_list_want(&symbolizer->kernel.list, addresses, count);
}

int ky_symbolizer_open_code(const struct ky_symbolizer *symbolizer,
			    const struct ky_code_place *place)
{
	struct ky_debug_file *file = ky_alloc(sizeof(*file));
	uint32_t why;
	int fd = -ENOENT;

	if (!file)
		return -ENOMEM;
	if (ky_debug_search_module(&symbolizer->search, place, file, &why) == 0)
		fd = file->fd;
	ky_free(file);
	return fd;
}
