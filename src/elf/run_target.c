/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <elf/run_target.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#else
#define OWN_MACHINE EM_NONE
#endif

static bool is_executable_file(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

int ky_run_target_resolve(const char *command, char *out, size_t capacity)
{
	const char *path = getenv("PATH");
	const char *end;
	size_t dir_bytes;
	int bytes;

	if (strchr(command, '/') != NULL) {
		bytes = snprintf(out, capacity, "%s", command);
		return bytes >= 0 && (size_t)bytes < capacity ? 0 : -ENAMETOOLONG;
	}
	if (path == NULL)
		path = "/bin:/usr/bin";
	for (;; path = end + 1) {
		end = strchrnul(path, ':');
		dir_bytes = (size_t)(end - path);
		/* An empty element is the current directory. */
		bytes = snprintf(out, capacity, "%.*s%s%s", (int)dir_bytes, path,
				 dir_bytes == 0 ? "./" : "/", command);
		if (bytes >= 0 && (size_t)bytes < capacity && is_executable_file(out))
			return 0;
		if (*end == '\0')
			return -ENOENT;
	}
}

static bool has_interpreter(int fd, const Elf64_Ehdr *header)
{
	Elf64_Phdr segment;
	unsigned int i;

	if (header->e_phentsize != sizeof(segment))
		return true;
	for (i = 0; i < header->e_phnum; i++) {
		off_t at = (off_t)(header->e_phoff + (uint64_t)i * sizeof(segment));

		if (at < 0 || pread(fd, &segment, sizeof(segment), at) != (ssize_t)sizeof(segment))
			return true;
		if (segment.p_type == PT_INTERP)
			return true;
	}
	return false;
}

static enum ky_run_reach reach_of_elf(int fd)
{
	Elf64_Ehdr header;

	if (pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
		return KY_RUN_REACHABLE; /* a script: its interpreter inherits the environment */
	if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != OWN_MACHINE)
		return KY_RUN_FOREIGN;
	return has_interpreter(fd, &header) ? KY_RUN_REACHABLE : KY_RUN_STATIC;
}

enum ky_run_reach ky_run_target_reach(const char *path)
{
	enum ky_run_reach reach;
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
		bool changes_user = (st.st_mode & S_ISUID) != 0 && st.st_uid != getuid();
		bool changes_group = (st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) &&
				     st.st_gid != getgid();

		if (changes_user || changes_group) {
			if (fd >= 0)
				close(fd);
			return KY_RUN_SETUID;
		}
	}
	if (fd < 0)
		return KY_RUN_REACHABLE;
	reach = reach_of_elf(fd);
	if (reach == KY_RUN_REACHABLE && getuid() != 0 &&
	    fgetxattr(fd, "security.capability", NULL, 0) > 0)
		reach = KY_RUN_CAPABILITIES;
	close(fd);
	return reach;
}

const char *ky_run_reach_text(enum ky_run_reach reach)
{
	switch (reach) {
	case KY_RUN_STATIC:
		return "is statically linked, so no library can be preloaded: it is not recorded "
		       "(dynamic programs that it starts are)";
	case KY_RUN_SETUID:
		return "is setuid or setgid, where the loader ignores LD_PRELOAD: it runs "
		       "unrecorded";
	case KY_RUN_CAPABILITIES:
		return "has file capabilities, where the loader ignores LD_PRELOAD: it runs "
		       "unrecorded";
	case KY_RUN_FOREIGN:
		return "is built for another architecture than kymo: it runs unrecorded";
	case KY_RUN_REACHABLE:
		break;
	}
	return "can be recorded";
}
