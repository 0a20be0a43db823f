/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "fake_proc.h"

#include "cmocka_all.h"
#include "temp_tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void path_of(const struct fake_proc *fake, const char *path, char *out, size_t out_bytes)
{
	int count = path[0] == '/' ?
			    snprintf(out, out_bytes, "%s%s", fake->cgroup, path) :
			    snprintf(out, out_bytes, "%s/%u/%s", fake->proc, fake->pid, path);

	assert_in_range(count, 1, out_bytes - 1);
}

void fake_proc_open(struct fake_proc *fake, uint32_t pid)
{
	const char *base = getenv("TMPDIR");

	memset(fake, 0, sizeof(*fake));
	snprintf(fake->root, sizeof(fake->root), "%s/ky-proc-XXXXXX",
		 base && strlen(base) < 40 ? base : "/tmp");
	assert_non_null(mkdtemp(fake->root));
	snprintf(fake->proc, sizeof(fake->proc), "%s/proc", fake->root);
	snprintf(fake->cgroup, sizeof(fake->cgroup), "%s/cgroup", fake->root);
	fake->pid = pid;
	fake_proc_stat(fake, 'S', 0);
	fake_proc_write(fake, "statm", "1000 100 50 1 0 200 0\n");
}

void fake_proc_close(struct fake_proc *fake)
{
	temp_tree_remove(fake->root);
}

static void make_folders(char *path)
{
	for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = 0;
		mkdir(path, 0700);
		*at = '/';
	}
}

void fake_proc_write(struct fake_proc *fake, const char *path, const char *format, ...)
{
	char name[300];
	va_list list;
	FILE *file;

	path_of(fake, path, name, sizeof(name));
	make_folders(name);
	file = fopen(name, "w");
	assert_non_null(file);
	va_start(list, format);
	vfprintf(file, format, list);
	va_end(list);
	fclose(file);
}

void fake_proc_remove(struct fake_proc *fake, const char *path)
{
	char name[300];

	path_of(fake, path, name, sizeof(name));
	assert_int_equal(unlink(name), 0);
}

/* The name is one that a careless parser stumbles over. */
static void write_stat(struct fake_proc *fake, const char *path, uint32_t id, char state,
		       uint64_t user_ticks, uint64_t kernel_ticks)
{
	fake_proc_write(
		fake, path,
		"%u (a) S 1 (b) %c 1 1 1 0 -1 4194560 1 0 0 0 %llu %llu 0 0 20 0 9 0 777 1\n", id,
		state, (unsigned long long)user_ticks, (unsigned long long)kernel_ticks);
}

void fake_proc_stat(struct fake_proc *fake, char state, uint64_t cpu_ms)
{
	uint64_t ticks = cpu_ms * (uint64_t)sysconf(_SC_CLK_TCK) / 1000;

	write_stat(fake, "stat", fake->pid, state, ticks / 2, ticks - ticks / 2);
}

void fake_proc_thread(struct fake_proc *fake, uint32_t tid, char state, const char *syscall,
		      const char *wchan)
{
	char path[64];

	snprintf(path, sizeof(path), "task/%u/stat", tid);
	write_stat(fake, path, tid, state, 0, 0);
	snprintf(path, sizeof(path), "task/%u/syscall", tid);
	fake_proc_write(fake, path, "%s\n", syscall);
	snprintf(path, sizeof(path), "task/%u/wchan", tid);
	fake_proc_write(fake, path, "%s", wchan);
}
