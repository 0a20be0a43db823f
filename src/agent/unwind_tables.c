/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <agent/unwind_tables.h>

#include <base/now.h>
#include <kymo/base.h>
#include <stdio.h>

#define MS_NS UINT64_C(1000000)
#define PACE_NS (1000 * MS_NS)
#define PACE_YOUNG_NS (100 * MS_NS)
#define YOUNG_NS (2000 * MS_NS)
/* What ends at once does not pay for the tables of libraries. No thread is sampled before it has
 * used twice as much. */
#define LATER_NS (5 * MS_NS)

void ky_unwind_tables_init(struct ky_unwind_tables *tables, int fd,
			   const struct ky_ring_header *header)
{
	*tables = (struct ky_unwind_tables){.pid = header->pid, .area.access.fd = fd};
	if (header->unwind_offset == 0 || header->unwind_offset > INT64_MAX / 2 ||
	    header->unwind_bytes > KY_UNWIND_AREA_BYTES)
		return;
	tables->area.offset = header->unwind_offset;
	tables->area.bytes = header->unwind_bytes;
}

static int put(void *ctx, uint64_t offset, const void *bytes, size_t count)
{
	struct ky_unwind_tables *tables = ctx;
	int err = ky_ring_area_put(&tables->area, offset, bytes, count);

	return err || !tables->between ? err : tables->between(tables->ctx);
}

/* What maps something runs. Where there is no such clock, it may have. */
static bool has_run(struct ky_unwind_tables *tables)
{
	uint64_t before_ns = tables->clock_ns;

	return !ky_process_cpu_ns(tables->pid, &tables->clock_ns) || tables->clock_ns != before_ns;
}

static void read_mappings(struct ky_unwind_tables *tables)
{
	const struct ky_unwind_target target = {.pid = tables->pid,
						.area_bytes = tables->area.bytes,
						.write = put,
						.ctx = tables,
						.early = tables->early};
	int err;

	if (!tables->keeper) {
		tables->error = ky_unwind_keeper_open(&tables->keeper, &target);
		if (!tables->error)
			tables->error = ky_ring_access_announce(&tables->area.access,
								offsetof(struct ky_ring_header,
									 unwind_ready));
	}
	if (tables->error) {
		tables->stats.last_error = tables->error;
		return;
	}
	err = ky_unwind_keeper_scan(tables->keeper);
	ky_unwind_keeper_stats(tables->keeper, &tables->stats);
	/* At its end a process has no map any more: that is no trouble. */
	if (err < 0 && !tables->stats.module_count)
		tables->stats.last_error = err;
}

static bool is_behind(const struct ky_unwind_tables *tables)
{
	return tables->keeper && ky_unwind_keeper_is_behind(tables->keeper);
}

static uint64_t step(void *self, const struct ky_probe_moment *moment)
{
	struct ky_unwind_tables *tables = self;
	uint64_t now_ns = moment->now_ns;

	if (tables->error || !tables->area.bytes ||
	    (tables->is_wanted && !tables->is_wanted(tables->ctx)))
		return UINT64_MAX;
	if (now_ns < tables->due_ns)
		return tables->due_ns;
	if (!tables->began_ns)
		tables->began_ns = now_ns;
	tables->due_ns = now_ns + (tables->is_hasty && now_ns - tables->began_ns < YOUNG_NS ?
					   PACE_YOUNG_NS :
					   PACE_NS);
	tables->is_resting = tables->follows_cpu && !is_behind(tables) && !has_run(tables);
	if (!tables->is_resting)
		read_mappings(tables);
	if (is_behind(tables))
		tables->due_ns = now_ns + LATER_NS;
	return tables->error ? UINT64_MAX : tables->due_ns;
}

static void close_tables(void *self)
{
	struct ky_unwind_tables *tables = self;

	ky_unwind_keeper_close(tables->keeper);
	*tables = (struct ky_unwind_tables){0};
}

struct ky_probe ky_unwind_tables_probe(struct ky_unwind_tables *tables)
{
	return (struct ky_probe){.self = tables, .step = step, .close = close_tables};
}

void ky_unwind_tables_text(const struct ky_unwind_stats *stats, char *out, size_t capacity)
{
	int count;

	if (!stats->module_count) {
		(void)snprintf(out, capacity, "none: %s",
			       stats->last_error ? kymo_error_text(stats->last_error) :
						   "recording ended before they were made");
		return;
	}
	count = snprintf(out, capacity, "%u modules, %llu rows", stats->module_count,
			 (unsigned long long)stats->row_count);
	if (stats->refused_count && count > 0 && (size_t)count < capacity)
		(void)snprintf(out + count, capacity - (size_t)count, ", %u without (%s)",
			       stats->refused_count, kymo_error_text(stats->last_error));
}
