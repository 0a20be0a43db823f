/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <probe/cgroup_use.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES 2048u
#define US_NS UINT64_C(1000)
#define SECOND_NS UINT64_C(1000000000)
/* Version 1 says "no limit" by the largest number of whole pages. */
#define V1_LIMIT_MAX (UINT64_C(1) << 62)

static bool has_cpu(const char *path, bool is_v1)
{
	char text[TEXT_BYTES];
	uint64_t value;

	return ky_cgroup_read(path, "cpu.stat", text, sizeof(text)) >= 0 &&
	       ky_proc_number(text, is_v1 ? "nr_periods" : "usage_usec", &value);
}

static bool has_memory(const char *path, bool is_v1)
{
	char text[64];

	return ky_cgroup_read(path, is_v1 ? "memory.usage_in_bytes" : "memory.current", text,
			      sizeof(text)) > 0;
}

void ky_cgroup_use_find(struct ky_cgroup_use *use, int dir, const char *mount)
{
	ky_cgroup_find(&use->cpu, dir, mount, "cpu", has_cpu);
	ky_cgroup_find(&use->memory, dir, mount, "memory", has_memory);
	use->base = use->cpu.levels ? use->cpu.up[0] : use->memory.levels ? use->memory.up[0] : 0;
	if (use->memory.levels && use->memory.up[0] < use->base)
		use->base = use->memory.up[0];
}

/* A file that holds one number. False: unreadable, or a word such as "max". */
static bool read_one(const char *path, const char *name, uint64_t *out)
{
	char text[64];

	if (ky_cgroup_read(path, name, text, sizeof(text)) <= 0 || text[0] < '0' || text[0] > '9')
		return false;
	*out = strtoull(text, NULL, 10);
	return true;
}

static void set_number(struct ky_resource_row *row, uint32_t value, const char *text,
		       const char *key, uint64_t factor)
{
	uint64_t number;

	if (ky_proc_number(text, key, &number) && number <= UINT64_MAX / factor)
		ky_resource_set(row, value, number * factor);
}

/* quota of a period, both in us, as ns of a second. */
static void set_limit(struct ky_resource_row *row, uint64_t quota, uint64_t period)
{
	uint64_t whole;

	if (!period || quota > UINT64_MAX / SECOND_NS)
		return;
	whole = quota * SECOND_NS / period;
	ky_resource_set(row, KY_CGROUP_CPU_LIMIT_NS, whole);
}

static void take_stat(const struct ky_cgroup *cgroup, uint32_t at, struct ky_resource_row *row)
{
	char text[TEXT_BYTES];

	if (ky_cgroup_read(cgroup->path[at], "cpu.stat", text, sizeof(text)) < 0)
		return;
	set_number(row, KY_CGROUP_PERIODS, text, "nr_periods", 1);
	set_number(row, KY_CGROUP_THROTTLED_PERIODS, text, "nr_throttled", 1);
	if (cgroup->is_v1) {
		set_number(row, KY_CGROUP_THROTTLED_NS, text, "throttled_time", 1);
		return;
	}
	set_number(row, KY_CGROUP_CPU_NS, text, "usage_usec", US_NS);
	set_number(row, KY_CGROUP_THROTTLED_NS, text, "throttled_usec", US_NS);
}

static void take_cpu(const struct ky_cgroup *cgroup, uint32_t at, struct ky_resource_row *row)
{
	const char *path = cgroup->path[at];
	char text[TEXT_BYTES], *end;
	uint64_t quota, period;

	take_stat(cgroup, at, row);
	if (cgroup->is_v1) {
		if (read_one(path, "cpuacct.usage", &quota))
			ky_resource_set(row, KY_CGROUP_CPU_NS, quota);
		if (read_one(path, "cpu.cfs_quota_us", &quota) &&
		    read_one(path, "cpu.cfs_period_us", &period))
			set_limit(row, quota, period);
		return;
	}
	if (ky_cgroup_read(path, "cpu.max", text, sizeof(text)) <= 0 || text[0] < '0' ||
	    text[0] > '9')
		return;
	quota = strtoull(text, &end, 10);
	set_limit(row, quota, strtoull(end, NULL, 10));
}

static void set_limit_bytes(struct ky_resource_row *row, uint32_t value, const char *path,
			    const char *name)
{
	uint64_t bytes;

	if (read_one(path, name, &bytes) && bytes < V1_LIMIT_MAX)
		ky_resource_set(row, value, bytes);
}

static void take_memory(const struct ky_cgroup *cgroup, uint32_t at, struct ky_resource_row *row)
{
	const char *path = cgroup->path[at];
	char text[TEXT_BYTES];
	uint64_t value;

	if (read_one(path, cgroup->is_v1 ? "memory.usage_in_bytes" : "memory.current", &value))
		ky_resource_set(row, KY_CGROUP_MEMORY, value);
	set_limit_bytes(row, KY_CGROUP_MEMORY_LIMIT, path,
			cgroup->is_v1 ? "memory.limit_in_bytes" : "memory.max");
	if (cgroup->is_v1) {
		if (read_one(path, "memory.failcnt", &value))
			ky_resource_set(row, KY_CGROUP_MAX_EVENTS, value);
		if (ky_cgroup_read(path, "memory.oom_control", text, sizeof(text)) > 0)
			set_number(row, KY_CGROUP_OOM_KILLS, text, "oom_kill", 1);
		return;
	}
	set_limit_bytes(row, KY_CGROUP_MEMORY_HIGH, path, "memory.high");
	if (ky_cgroup_read(path, "memory.events", text, sizeof(text)) <= 0)
		return;
	set_number(row, KY_CGROUP_HIGH_EVENTS, text, "high", 1);
	set_number(row, KY_CGROUP_MAX_EVENTS, text, "max", 1);
	set_number(row, KY_CGROUP_OOM_KILLS, text, "oom_kill", 1);
}

/* Where the group so many parents up is in the list; cgroup->levels: nowhere. */
static uint32_t find_level(const struct ky_cgroup *cgroup, uint32_t up)
{
	uint32_t at = 0;

	while (at < cgroup->levels && cgroup->up[at] != up)
		at++;
	return at;
}

bool ky_cgroup_use_row(const struct ky_cgroup_use *use, uint32_t level, struct ky_resource_row *out)
{
	uint32_t cpu = find_level(&use->cpu, use->base + level);
	uint32_t memory = find_level(&use->memory, use->base + level);

	memset(out, 0, sizeof(*out));
	out->kind = KY_RESOURCE_CGROUP;
	out->scope = (uint8_t)level;
	if (cpu < use->cpu.levels)
		take_cpu(&use->cpu, cpu, out);
	if (memory < use->memory.levels)
		take_memory(&use->memory, memory, out);
	if (level && !ky_resource_has(out, KY_CGROUP_CPU_LIMIT_NS) &&
	    !ky_resource_has(out, KY_CGROUP_MEMORY_LIMIT) &&
	    !ky_resource_has(out, KY_CGROUP_MEMORY_HIGH))
		return false;
	return out->present != 0;
}

bool ky_cgroup_use_throttled(const struct ky_cgroup_use *use, uint32_t level, uint64_t *ns)
{
	uint32_t cpu = find_level(&use->cpu, use->base + level);
	struct ky_resource_row row = {.present = 0};

	if (cpu < use->cpu.levels)
		take_stat(&use->cpu, cpu, &row);
	*ns = row.values[KY_CGROUP_THROTTLED_NS];
	return ky_resource_has(&row, KY_CGROUP_THROTTLED_NS);
}

/* ---- pressure ---- */

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=12": us since the start. */
static void take_total(struct ky_resource_row *row, uint32_t value, const char *text,
		       const char *which)
{
	const char *line = text, *total;

	while (line && strncmp(line, which, strlen(which)) != 0) {
		line = strchr(line, '\n');
		if (line)
			line++;
	}
	total = line ? strstr(line, " total=") : NULL;
	if (!total || memchr(line, '\n', (size_t)(total - line)) || total[7] < '0' ||
	    total[7] > '9')
		return;
	ky_resource_set(row, value, strtoull(total + 7, NULL, 10) * US_NS);
}

int ky_pressure_row(const char *prefix, const char *suffix, uint8_t scope,
		    struct ky_resource_row *out)
{
	static const char *const names[] = {"cpu", "memory", "io"};
	char path[KY_CGROUP_PATH_BYTES + 32], text[256];
	int err = 0;

	memset(out, 0, sizeof(*out));
	out->kind = KY_RESOURCE_PRESSURE;
	out->scope = scope;
	for (uint32_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		int count = snprintf(path, sizeof(path), "%s%s%s", prefix, names[i], suffix);

		if (count < 0 || (size_t)count >= sizeof(path))
			return -ENAMETOOLONG;
		count = ky_proc_read_text(AT_FDCWD, path, text, sizeof(text));
		if (count < 0 && !err)
			err = count;
		if (count <= 0)
			continue;
		take_total(out, 2 * i, text, "some ");
		take_total(out, 2 * i + 1, text, "full ");
	}
	if (out->present)
		return 0;
	return err ? err : -ENODATA;
}
