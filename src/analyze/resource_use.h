/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* resource_use.h - what the process used of what it was allowed, from the readings of a trace: sums
 * of growth, maxima, and which of them make tasks late.
 *
 * Readings are those of the range, the last before it and the first after it: what grew within the
 * range is in the sums, and up to a reading's distance more.
 * Threads: any.
 */
#ifndef KY_ANALYZE_RESOURCE_USE_H
#define KY_ANALYZE_RESOURCE_USE_H

#include <base/buf.h>
#include <read/trace.h>

#define KY_RESOURCE_QUEUES_MAX 64u
#define KY_RESOURCE_NONE UINT64_MAX /* of a value: never reported */

/* A counter: what it grew by. A gauge: what it was. */
struct ky_growth {
	uint64_t sum;                /* KY_RESOURCE_NONE: no two readings that report it */
	uint64_t max_permille;       /* of the time between two readings, of counters of time */
	uint64_t last, last_ns;      /* making only */
	uint64_t rate_from, rate_ns; /* the same: reading that the next rate counts from */
};

struct ky_gauge {
	uint64_t first, last, max; /* KY_RESOURCE_NONE: never reported */
};

struct ky_queue_use {
	uint64_t cookie, inode, port;
	uint32_t address; /* name index */
	uint8_t version;
	struct ky_gauge pending, limit;
	uint64_t waited_ns; /* of all connections; each reading stands until the next row */
	uint64_t row_ns;    /* the last row's time */
	uint64_t full_ns;   /* seen full the first time; 0: never */
	struct ky_growth dropped;
};

/* Of all groups of the process: the tightest limits, the growth where it was largest. */
struct ky_group_use {
	struct ky_growth cpu, periods, throttled_periods, throttled;
	struct ky_growth high_events, max_events, oom_kills;
	struct ky_gauge cpu_limit; /* ns of a second */
	struct ky_gauge memory, memory_limit, memory_high;
};

enum ky_resource_finding {
	KY_FOUND_THROTTLED, /* the CPU limit stopped threads */
	KY_FOUND_CPU_LIMIT, /* used 90 % of it between two readings */
	/* Tasks waited for a CPU 20 % of the time between two readings, and this process's own
	 * threads waited, too. */
	KY_FOUND_CPU_PRESSURE,
	KY_FOUND_MEMORY_PRESSURE, /* for memory, 5 % */
	KY_FOUND_IO_PRESSURE,     /* for input and output, 20 % */
	KY_FOUND_MEMORY_LIMIT,    /* a cgroup held 90 % of its limit, or was slowed down for it */
	KY_FOUND_OOM_KILL,
	KY_FOUND_MAJOR_FAULTS, /* 10 a second */
	KY_FOUND_QUEUE_FULL,   /* an accept queue was full, or dropped connections */
	KY_FOUND_DESCRIPTORS,  /* 90 % of the limit */
	KY_FOUND_COUNT
};

struct ky_resource_use {
	uint64_t from_ns, to_ns; /* first and last reading; 0: there is none */
	uint32_t reading_count;
	struct ky_growth user, system, cpu; /* cpu: both */
	struct ky_growth minor_faults, major_faults, blocks_in, blocks_out;
	struct ky_growth voluntary, involuntary;
	struct ky_gauge rss, max_rss, threads, fds, fd_limit;
	struct ky_group_use group;
	struct ky_growth pressure[2][6];   /* machine, cgroup; enum ky_pressure_value */
	struct ky_growth overflows, drops; /* of the network namespace */
	struct ky_queue_use queues[KY_RESOURCE_QUEUES_MAX];
	uint32_t queue_count, queues_more;
	/* Time that its workers' threads were runnable without a CPU, of the time that they were
	 * runnable at all; KY_RESOURCE_NONE: not read. */
	uint64_t own_delay_permille;
	uint32_t findings; /* 1 << enum ky_resource_finding */
};

/* to 0: no end. *out: NULL where no reading is in the trace, or it is of several processes;
 * ky_free() frees it. Returns 0, -ENOMEM. */
int ky_resource_use(const struct ky_trace *trace, uint64_t from_ns, uint64_t to_ns,
		    struct ky_resource_use **out);

/* "throttled", "accept_queue_full", .. */
const char *ky_resource_finding_name(uint32_t finding);

/* As the value of a key that the caller has written. */
void ky_resource_use_json(struct ky_buf *out, const struct ky_trace *trace,
			  const struct ky_resource_use *use);

#endif
