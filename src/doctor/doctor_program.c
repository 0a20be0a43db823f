/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <doctor/doctor.h>
#include <doctor/doctor_tokio.h>

#include <proc/cgroup_limits.h>
#include <base/out_text.h>
#include <elf/run_target.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <symbol/debug_search.h>
#include <symbol/object_file.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 1024u
#define LIMIT_BYTES 128u
#define LIMIT_FILE_COLUMNS 64u

/* Returns true when no library can be preloaded into it, for it is linked statically. */
static bool check_reach(struct ky_doctor *doctor, const char *path)
{
	enum ky_run_reach reach = ky_run_target_reach(path);
	struct ky_doctor_check *check = ky_doctor_add(doctor, "reach", "%.160s %s", path,
						      reach == KY_RUN_REACHABLE ?
							      "can be recorded by kymo run" :
							      "cannot be recorded by kymo run");

	if (reach == KY_RUN_REACHABLE)
		return false;
	ky_doctor_effect(check, KY_DOCTOR_NONE, "it %.200s", ky_run_reach_text(reach));
	if (reach == KY_RUN_STATIC)
		ky_doctor_fix(check, "cargo build --release --target x86_64-unknown-linux-gnu (any "
				     "target with a dynamic libc)");
	return reach == KY_RUN_STATIC;
}

/* An allocator that is linked into the program under names of its own is called through no slot. */
static void check_allocator(struct ky_doctor *doctor, const struct ky_elf *elf, bool is_static)
{
	static const struct {
		const char *symbol, *name;
	} known[] = {{"_rjem_malloc", "jemalloc"},  {"je_malloc", "jemalloc"},
		     {"mi_free", "mimalloc"},       {"tc_malloc", "tcmalloc"},
		     {"sn_rust_alloc", "snmalloc"}, {"malloc", "its own malloc"}};
	const struct ky_elf_symbol *symbols;
	struct ky_doctor_check *check;
	const char *found = NULL;
	char name[32];
	size_t count;

	symbols = ky_elf_symbols(elf, &count);
	for (size_t i = 0; i < count && !found; i++) {
		if (!ky_elf_symbol_name(elf, &symbols[i], name, sizeof(name)))
			continue;
		for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
			if (strcmp(name, known[k].symbol) == 0)
				found = known[k].name;
	}
	check = ky_doctor_add(doctor, "allocator",
			      found ? "%s, linked into it" : "%s, whichever is loaded",
			      found ? found : "malloc");
	if (!found)
		return;
	ky_doctor_effect(check, KY_DOCTOR_LIMITED,
			 "kymo run --alloc sees what its libraries allocate, not what it does "
			 "itself");
	if (!is_static)
		ky_doctor_fix(check, "leave #[global_allocator] out, and preload the allocator: "
				     "LD_PRELOAD=libjemalloc.so.2 kymo run --alloc ...");
}

/* A .dynsym says nothing of the program's own functions. */
static bool has_symtab(int fd)
{
	Elf64_Ehdr header;
	Elf64_Shdr section;

	if (pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
	    header.e_shentsize != sizeof(section))
		return false;
	for (uint32_t i = 0; i < header.e_shnum; i++) {
		off_t at = (off_t)(header.e_shoff + (uint64_t)i * sizeof(section));

		if (at < 0 || pread(fd, &section, sizeof(section), at) != (ssize_t)sizeof(section))
			return false;
		if (section.sh_type == SHT_SYMTAB)
			return true;
	}
	return false;
}

static void check_symbols(struct ky_doctor *doctor, const struct ky_object *object, bool is_named)
{
	struct ky_doctor_check *check;

	check = ky_doctor_add(doctor, "symbols", is_named ? "it has a symbol table" : "stripped");
	if (!is_named) {
		ky_doctor_effect(check, KY_DOCTOR_LIMITED, "functions are module+offset");
		ky_doctor_fix(check, KY_DOCTOR_KEEP_SYMBOLS);
	}
	check = ky_doctor_add(doctor, "build_id",
			      object->build_id_bytes ? "it has a build id" : "none");
	if (!object->build_id_bytes) {
		ky_doctor_effect(
			check, KY_DOCTOR_LIMITED,
			"names may be those of another build; debug files are found by name only");
		ky_doctor_fix(check, "RUSTFLAGS=\"-C link-arg=-Wl,--build-id\" cargo build "
				     "--release");
	}
}

static void check_debug(struct ky_doctor *doctor, const char *path, const struct ky_object *object)
{
	struct ky_code_place place = {.kind = KY_CODE_MODULE,
				      .path = path,
				      .build_id = object->build_id,
				      .build_id_bytes = object->build_id_bytes};
	static struct ky_debug_file module, debug; /* paths are long */
	struct ky_debug_search search = {0};
	struct ky_doctor_check *check;
	uint32_t why;

	if (object->has_dwarf) {
		(void)ky_doctor_add(doctor, "debug_info", "it has its own");
		return;
	}
	if (ky_debug_search_add_system(&search) == 0 &&
	    ky_debug_search_module(&search, &place, &module, &why) == 0) {
		if (ky_debug_search_debug(&search, &place, &module, &debug) == 0) {
			(void)ky_doctor_add(doctor, "debug_info", "in %.200s", debug.name);
			ky_debug_file_close(&debug);
			ky_debug_file_close(&module);
			ky_debug_search_release(&search);
			return;
		}
		ky_debug_file_close(&module);
	}
	ky_debug_search_release(&search);
	check = ky_doctor_add(doctor, "debug_info", "none");
	ky_doctor_effect(check, KY_DOCTOR_LIMITED,
			 "no files, lines and inlined functions, only what has a symbol");
	ky_doctor_fix(check, "CARGO_PROFILE_RELEASE_DEBUG=limited cargo build --release");
}

static bool has_segment(int fd, uint32_t type)
{
	Elf64_Ehdr header;
	Elf64_Phdr segment;

	if (pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
	    header.e_phentsize != sizeof(segment))
		return false;
	for (uint32_t i = 0; i < header.e_phnum; i++) {
		off_t at = (off_t)(header.e_phoff + (uint64_t)i * sizeof(segment));

		if (at < 0 || pread(fd, &segment, sizeof(segment), at) != (ssize_t)sizeof(segment))
			return false;
		if (segment.p_type == type)
			return true;
	}
	return false;
}

static void check_unwind(struct ky_doctor *doctor, int fd)
{
	bool has_tables = has_segment(fd, PT_GNU_EH_FRAME);
	struct ky_doctor_check *check = ky_doctor_add(
		doctor, "unwind_tables", has_tables ? "it has .eh_frame" : "no .eh_frame");

	if (has_tables)
		return;
	ky_doctor_effect(check, KY_DOCTOR_LIMITED,
			 "stacks follow frame pointers, where there are "
			 "any");
	ky_doctor_fix(check, "RUSTFLAGS=\"-C force-unwind-tables=yes\" cargo build --release");
}

void ky_doctor_program(struct ky_doctor *doctor, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct ky_doctor_check *check;
	struct ky_object object = {0};
	struct ky_elf *elf = NULL;
	int result = fd < 0 ? -errno : ky_object_read_fd(&object, fd);
	bool is_named, is_static;

	if (result < 0) {
		check = ky_doctor_add(doctor, "program", "%.160s: %s", path,
				      result == KYMO_E_UNSUPPORTED ? "no ELF file of 64 bits" :
								     kymo_error_text(result));
		ky_doctor_effect(check, KY_DOCTOR_NONE,
				 "nothing can be said of it; of a script, ask for the program that "
				 "it starts");
		if (fd >= 0)
			(void)close(fd);
		return;
	}
	is_static = check_reach(doctor, path);
	(void)ky_elf_open_fd(&elf, fcntl(fd, F_DUPFD_CLOEXEC, 3));
	is_named = has_symtab(fd);
	check_symbols(doctor, &object, is_named);
	check_debug(doctor, path, &object);
	check_unwind(doctor, fd);
	if (elf) {
		ky_doctor_tokio(doctor, fd, elf);
		check_allocator(doctor, elf, is_static);
	}
	ky_elf_close(elf);
	(void)close(fd);
}

/* ---- a process ---- */

static void check_dumpable(struct ky_doctor *doctor, uint32_t pid)
{
	struct ky_doctor_check *check;
	struct stat about;
	char path[64];
	bool is_open;

	(void)snprintf(path, sizeof(path), "/proc/%u/mem", pid);
	is_open = access(path, R_OK) == 0;
	(void)snprintf(path, sizeof(path), "/proc/%u/maps", pid);
	if (is_open && stat(path, &about) == 0 && (geteuid() == 0 || about.st_uid == geteuid())) {
		(void)ky_doctor_add(doctor, "process", "%u may be inspected", pid);
		return;
	}
	check = ky_doctor_add(doctor, "process",
			      "%u may not be inspected: another user's, or not dumpable", pid);
	ky_doctor_effect(check, KY_DOCTOR_LIMITED, "no attach, no stacks of its stuck threads");
	ky_doctor_fix(check, "sudo kymo doctor %u", pid);
}

/* "memory 64.0 MiB (/sys/fs/cgroup/a/memory.max)": what tells groups apart stands at the end. */
static void limit_text(char *out, const char *what, const char *value,
		       const struct ky_cgroup_limit *limit)
{
	size_t bytes = strlen(limit->file), cut = 0;

	if (bytes > LIMIT_FILE_COLUMNS)
		cut = bytes - LIMIT_FILE_COLUMNS;
	if (!limit->has_group)
		(void)snprintf(out, LIMIT_BYTES, "%s: no group that can be read", what);
	else if (!limit->is_limited)
		(void)snprintf(out, LIMIT_BYTES, "%s: no limit", what);
	else
		(void)snprintf(out, LIMIT_BYTES, "%s %s (%s%.64s)", what, value, cut ? "..." : "",
			       limit->file + cut);
}

void ky_doctor_cgroup(struct ky_doctor *doctor, const char *proc)
{
	char memory[LIMIT_BYTES], cpu[LIMIT_BYTES], size[KY_OUT_CELL_BYTES], share[64];
	int dir = open(proc, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct ky_cgroup_limits limits;
	struct ky_doctor_check *check;

	ky_cgroup_limits_find(&limits, dir, NULL);
	if (dir >= 0)
		(void)close(dir);
	(void)ky_out_bytes(size, limits.memory.value);
	(void)snprintf(share, sizeof(share), "%" PRIu64 ".%02" PRIu64 " CPUs",
		       limits.cpu.value / 1000, limits.cpu.value % 1000 / 10);
	limit_text(memory, "memory", size, &limits.memory);
	limit_text(cpu, "CPU time", share, &limits.cpu);
	check = ky_doctor_add(doctor, "cgroup", "%s, %s%s", memory, cpu,
			      limits.memory.is_v1 || limits.cpu.is_v1 ? " (version 1)" : "");
	if (!limits.memory.is_limited || limits.memory.value >= UINT64_C(256) << 20)
		return;
	ky_doctor_effect(check, KY_DOCTOR_LIMITED,
			 "the ring counts against %s of memory: 32 MiB of it by default", size);
	ky_doctor_fix(check, "kymo run --ring-bytes 8M ...");
}

int ky_doctor_process(struct ky_doctor *doctor, uint32_t pid)
{
	char path[64], target[8];

	(void)snprintf(path, sizeof(path), "/proc/%u", pid);
	if (access(path, F_OK) != 0)
		return -ESRCH;
	check_dumpable(doctor, pid);
	ky_doctor_cgroup(doctor, path);
	(void)snprintf(path, sizeof(path), "/proc/%u/exe", pid);
	if (readlink(path, target, sizeof(target)) < 0)
		return -EACCES;
	ky_doctor_program(doctor, path);
	return 0;
}
