/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <proc/cgroup_limits.h>

#include <base/alloc.h>
#include <proc/cgroup_files.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Version 1 says "no limit" by the largest number of whole pages. */
#define V1_MEMORY_MAX (UINT64_C(1) << 62)

static bool read_text(const char *folder, const char *name, char *out, size_t out_bytes)
{
	return ky_cgroup_read(folder, name, out, out_bytes) > 0;
}

static bool has_memory(const char *folder, bool is_v1)
{
	char text[64];

	return read_text(folder, is_v1 ? "memory.limit_in_bytes" : "memory.max", text,
			 sizeof(text));
}

static bool has_cpu(const char *folder, bool is_v1)
{
	char text[64];

	return read_text(folder, is_v1 ? "cpu.cfs_quota_us" : "cpu.max", text, sizeof(text));
}

/* False: a word such as "max", or -1: no limit. */
static bool take_number(const char *text, uint64_t *out)
{
	if (*text < '0' || *text > '9')
		return false;
	*out = strtoull(text, NULL, 10);
	return true;
}

static void keep(struct ky_cgroup_limit *limit, uint64_t value, const char *folder,
		 const char *name)
{
	if (limit->is_limited && limit->value <= value)
		return;
	limit->is_limited = true;
	limit->value = value;
	(void)snprintf(limit->file, sizeof(limit->file), "%s/%s", folder, name);
}

static void take_memory(struct ky_cgroup_limit *limit, const char *folder)
{
	static const char *const names[] = {"memory.max", "memory.high"};
	char text[64];
	uint64_t bytes;

	if (limit->is_v1) {
		if (read_text(folder, "memory.limit_in_bytes", text, sizeof(text)) &&
		    take_number(text, &bytes) && bytes < V1_MEMORY_MAX)
			keep(limit, bytes, folder, "memory.limit_in_bytes");
		return;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (read_text(folder, names[i], text, sizeof(text)) && take_number(text, &bytes))
			keep(limit, bytes, folder, names[i]);
}

static void take_cpu(struct ky_cgroup_limit *limit, const char *folder)
{
	const char *name = limit->is_v1 ? "cpu.cfs_quota_us" : "cpu.max";
	uint64_t quota, period = 0;
	char text[64], *rest;

	if (!read_text(folder, name, text, sizeof(text)) || !take_number(text, &quota))
		return;
	(void)strtoull(text, &rest, 10);
	if (limit->is_v1 && !read_text(folder, "cpu.cfs_period_us", text, sizeof(text)))
		return;
	period = strtoull(limit->is_v1 ? text : rest, NULL, 10);
	if (period && quota < UINT64_MAX / 1000)
		keep(limit, quota * 1000 / period, folder, name);
}

static void take_levels(struct ky_cgroup_limit *limit, const struct ky_cgroup *group,
			void (*take)(struct ky_cgroup_limit *limit, const char *folder))
{
	limit->has_group = group->levels > 0;
	limit->is_v1 = group->is_v1;
	for (uint32_t i = 0; i < group->levels; i++)
		take(limit, group->path[i]);
}

void ky_cgroup_limits_find(struct ky_cgroup_limits *out, int dir, const char *mount)
{
	struct ky_cgroup *group = ky_alloc(sizeof(*group));

	memset(out, 0, sizeof(*out));
	if (!group)
		return;
	ky_cgroup_find(group, dir, mount, "memory", has_memory);
	take_levels(&out->memory, group, take_memory);
	ky_cgroup_find(group, dir, mount, "cpu", has_cpu);
	take_levels(&out->cpu, group, take_cpu);
	ky_free(group);
}
