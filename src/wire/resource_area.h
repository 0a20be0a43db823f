/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* resource_area.h - the part of the ring file that keeps what was seen of the process's resources:
 * the last KY_RESOURCE_ENTRIES rows, so that a dump and a recovery have the minutes before. Plain
 * layouts, and the function that its writer needs.
 *
 * Area:    page 0      struct ky_resource_head
 *          then        KY_RESOURCE_ENTRIES entries; row n lies in entry n % KY_RESOURCE_ENTRIES
 * Writer:  one: the process that takes the readings (kymo, or the library's thread), never a thread
 *          of the host. `put` stores bytes into the area, through a mapping or by pwrite(); a
 *          serial is a store of its own, after the row that it vouches for.
 * Readers: trust nothing: copy an entry, read its serial again.
 * Memory:  sparse. ky_ring_header.resource_ready is set (release) once the head is there; entries
 *          exist up to its claim index. Nothing else of it may be read.
 */
#ifndef KY_WIRE_RESOURCE_AREA_H
#define KY_WIRE_RESOURCE_AREA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KY_RESOURCE_ENTRIES 2048u
#define KY_RESOURCE_VALUES 13u
#define KY_RESOURCE_PATH_BYTES 512u
#define KY_RESOURCE_ENTRIES_OFFSET 4096u
#define KY_RESOURCE_MS_MIN 1000u /* between readings */
#define KY_RESOURCE_MS_MAX 3600000u

enum ky_resource_kind {
	KY_RESOURCE_USAGE = 1,     /* values: enum ky_usage_value */
	KY_RESOURCE_CGROUP = 2,    /* values: enum ky_cgroup_value; scope: level, 0 the process's */
	KY_RESOURCE_PRESSURE = 3,  /* values: enum ky_pressure_value; scope: 0 machine, 1 cgroup */
	KY_RESOURCE_LISTENER = 4,  /* values: enum ky_listener_value; scope: 4 or 6 */
	KY_RESOURCE_DROPS = 5,     /* values: overflows, drops of the network namespace */
	KY_RESOURCE_THREAD = 6,    /* values: enum ky_thread_value */
	KY_RESOURCE_STATE = 7,     /* values: enum ky_state_value; scope: enum ky_process_change */
	KY_RESOURCE_THROTTLED = 8, /* values: enum ky_throttled_value; scope: level, as above */
	KY_RESOURCE_SOCKET = 9     /* values: enum ky_socket_value */
};

enum ky_usage_value {
	KY_USAGE_USER_NS,
	KY_USAGE_SYSTEM_NS,
	KY_USAGE_MAX_RSS,
	KY_USAGE_MINOR_FAULTS,
	KY_USAGE_MAJOR_FAULTS,
	KY_USAGE_BLOCKS_IN,
	KY_USAGE_BLOCKS_OUT,
	KY_USAGE_VOLUNTARY,
	KY_USAGE_INVOLUNTARY,
	KY_USAGE_RSS,
	KY_USAGE_THREADS,
	KY_USAGE_FDS,
	KY_USAGE_FD_LIMIT
};

enum ky_cgroup_value {
	KY_CGROUP_CPU_NS,
	KY_CGROUP_CPU_LIMIT_NS, /* a second of wall time */
	KY_CGROUP_PERIODS,
	KY_CGROUP_THROTTLED_PERIODS,
	KY_CGROUP_THROTTLED_NS,
	KY_CGROUP_MEMORY,
	KY_CGROUP_MEMORY_LIMIT,
	KY_CGROUP_MEMORY_HIGH,
	KY_CGROUP_HIGH_EVENTS,
	KY_CGROUP_MAX_EVENTS,
	KY_CGROUP_OOM_KILLS
};

enum ky_pressure_value {
	KY_PRESSURE_CPU_SOME,
	KY_PRESSURE_CPU_FULL,
	KY_PRESSURE_MEMORY_SOME,
	KY_PRESSURE_MEMORY_FULL,
	KY_PRESSURE_IO_SOME,
	KY_PRESSURE_IO_FULL
};

enum ky_listener_value {
	KY_LISTENER_COOKIE,
	KY_LISTENER_INODE,
	KY_LISTENER_PORT,
	KY_LISTENER_PENDING,
	KY_LISTENER_LIMIT,
	KY_LISTENER_DROPS,
	KY_LISTENER_ADDRESS, /* 16 bytes in the order of the network, 4 of them of version 4 */
	KY_LISTENER_ADDRESS_2
};

enum ky_thread_value {
	KY_THREAD_TID,
	KY_THREAD_CPU_NS,
	KY_THREAD_DELAY_NS,
	KY_THREAD_VOLUNTARY,
	KY_THREAD_INVOLUNTARY,
	KY_THREAD_NAME, /* KY_THREAD_NAME_BYTES, ended by zeros */
	KY_THREAD_NAME_2
};
#define KY_THREAD_NAME_BYTES 16u

enum ky_process_change {
	KY_PROCESS_STOPPED = 1,
	KY_PROCESS_CONTINUED,
	KY_PROCESS_EXITED,
	KY_PROCESS_KILLED
};

enum ky_state_value {
	KY_STATE_DETAIL,   /* signal or exit status */
	KY_STATE_AFTER_NS, /* 0: told as it happened */
	KY_STATE_BY_NS,
	KY_STATE_SOURCE /* enum ky_state_source */
};

enum ky_state_source {
	KY_STATE_TOLD = 1,   /* by waitid() */
	KY_STATE_SEEN,       /* looked at */
	KY_STATE_WITH_READER /* what reads it was stopped, too */
};

enum ky_throttled_value {
	KY_THROTTLED_FROM_NS,
	KY_THROTTLED_TO_NS,
	KY_THROTTLED_NS
};

/* Of a TCP socket that a thread stands in a call on. */
enum ky_socket_value {
	KY_SOCKET_TID,
	KY_SOCKET_FD,
	KY_SOCKET_SYSCALL,
	KY_SOCKET_SINCE_NS, /* at the latest */
	KY_SOCKET_STATE,    /* as the kernel numbers them */
	KY_SOCKET_LOCAL_PORT,
	KY_SOCKET_PEER_PORT,
	KY_SOCKET_UNACKED,     /* segments */
	KY_SOCKET_RETRANSMITS, /* of the oldest of them, in a row */
	KY_SOCKET_SEND_QUEUE,  /* bytes not acknowledged or not sent */
	KY_SOCKET_SILENT_NS    /* since data came in last, or the connection was made */
};

/* One row; values whose bit is not set in `present` are not known. */
struct ky_resource_row {
	uint64_t monotonic_ns;
	uint8_t kind; /* enum ky_resource_kind */
	uint8_t scope;
	uint16_t reserved;
	uint32_t present; /* bit by index in values */
	uint64_t values[KY_RESOURCE_VALUES];
};

struct ky_resource_entry {
	_Atomic uint64_t serial; /* number of the row + 1; 0: being written */
	struct ky_resource_row row;
};

/* What is not known, each once, and why: metadata resources.missing. */
enum ky_resource_part {
	KY_PART_CPU,
	KY_PART_RSS,
	KY_PART_MAX_RSS,
	KY_PART_IO,
	KY_PART_SWITCHES,
	KY_PART_FDS,
	KY_PART_FD_LIMIT,
	KY_PART_CGROUP_CPU,
	KY_PART_CGROUP_MEMORY,
	KY_PART_PRESSURE,
	KY_PART_CGROUP_PRESSURE,
	KY_PART_LISTENERS,
	KY_PART_DROPS,
	KY_PART_SOCKETS,
	KY_PART_COUNT
};

/* Why, where it is not an errno. */
enum ky_resource_why {
	KY_WHY_OTHER_NAMESPACE = 10001, /* the process lives in another pid namespace */
	KY_WHY_TOO_MANY = 10002,        /* to be counted in every reading */
	KY_WHY_NO_CONTROLLER = 10003,   /* no cgroup that counts it */
	KY_WHY_BEING_SEARCHED = 10004   /* which of the listeners are the process's */
};

struct ky_resource_head {
	_Atomic uint64_t claim_index;            /* rows put so far (release) */
	_Atomic uint64_t interval_ns;            /* between readings now; 0: off */
	_Atomic uint32_t missing[KY_PART_COUNT]; /* errno, enum ky_resource_why; 0: nothing is */
	_Atomic uint32_t path_bytes;             /* of the cgroup's path (release); 0: none */
	char path[KY_RESOURCE_PATH_BYTES];
};

#define KY_RESOURCE_AREA_BYTES                                                                     \
	(KY_RESOURCE_ENTRIES_OFFSET + KY_RESOURCE_ENTRIES * sizeof(struct ky_resource_entry))

_Static_assert(sizeof(struct ky_resource_entry) == 128, "an entry never crosses a page");
_Static_assert(sizeof(struct ky_resource_head) <= KY_RESOURCE_ENTRIES_OFFSET, "the head is a page");
_Static_assert(KY_RESOURCE_AREA_BYTES % 4096 == 0, "whole pages");

static inline uint64_t ky_resource_entry_offset(uint64_t number)
{
	return KY_RESOURCE_ENTRIES_OFFSET +
	       number % KY_RESOURCE_ENTRIES * sizeof(struct ky_resource_entry);
}

static inline void ky_resource_set(struct ky_resource_row *row, uint32_t value, uint64_t number)
{
	row->values[value] = number;
	row->present |= 1u << value;
}

static inline bool ky_resource_has(const struct ky_resource_row *row, uint32_t value)
{
	return (row->present & 1u << value) != 0;
}

#endif
