/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* resource_source.h - reads what a process uses and what limits it, from outside its threads,
 * and puts rows into the resource area of its ring (wire/resource_area.h).
 *
 * A step function like the watchdog. What cannot be read is absent, and reported once with its
 * reason. Of a process that has not run since the last reading, what only it can change is not read
 * again but repeated; its memory, limits, queues, cgroups and the machine are read all the same.
 * Counts of dropped connections are read every KY_RESOURCE_SELDOM readings while it does not run
 * and its queues are empty. A thread that stands in a call on a TCP socket from one reading to the
 * next has a row with the state of that socket. The pages of the ring that it has mapped are not
 * counted as its memory.
 * Threads: owner. Memory: none but the structure; no descriptor is kept between readings.
 */
#ifndef KY_PROBE_RESOURCE_SOURCE_H
#define KY_PROBE_RESOURCE_SOURCE_H

#include <probe/cgroup_use.h>
#include <probe/listeners.h>
#include <probe/socket_waits.h>
#include <proc/proc_reader.h>
#include <wire/ring_image.h>

#define KY_RESOURCE_INTERVAL_NS UINT64_C(1000000000) /* the default */
/* Steps between two readings of what hardly ever changes, or cannot without the process. */
#define KY_RESOURCE_SELDOM 10u
/* Threads that are read one by one; of more there is no sum of switches, and no row of the rest. */
#define KY_RESOURCE_THREADS_MAX 64u
/* A thread has a row of its own in a reading since whose last row it ran or waited so long. */
#define KY_RESOURCE_THREAD_NS 1000000u
/* Descriptors counted one by one, on kernels before 6.2. */
#define KY_RESOURCE_FDS_MAX 16384u

/* Bytes into the area, at once, a multiple of 8. False: there is no room, or no area. */
typedef bool (*ky_resource_put_fn)(void *ctx, uint64_t offset, const void *bytes, size_t count);

#define KY_QUEUE_LOOK_NS UINT64_C(50000000)
#define KY_QUEUE_LOOK_SHARE 2000u

struct ky_thread_counted {
	uint32_t tid; /* 0: none */
	bool is_there;
	uint64_t voluntary, involuntary;
	uint64_t cpu_ns, delay_ns; /* of its last row; both 0: it has none */
	struct ky_socket_wait wait;
};

struct ky_resource_source {
	/* the owner's */
	ky_resource_put_fn put;
	void *put_ctx;
	const char *proc, *cgroup;         /* NULL: the usual places */
	bool is_own;                       /* the process is the calling one */
	uint64_t ring_address, ring_bytes; /* the ring in its memory; 0: not known */

	uint64_t claim_index; /* rows put */
	uint64_t next_ns;     /* the next reading; 0: at once */
	uint64_t look_ns;     /* not before: the next look at the accept queues */
	uint32_t readings;
	bool has_head;   /* the area's is what `head` says */
	bool is_broken;  /* no area, or no room */
	uint64_t cpu_ns; /* of the thread that read */
	struct ky_resource_head head;
	struct ky_cgroup_use groups;
	struct ky_listeners listeners;
	struct ky_thread_counted threads[KY_RESOURCE_THREADS_MAX];
	uint64_t voluntary, involuntary; /* sums */
	uint32_t sockets;                /* asked in this reading */
	uint64_t now_ns;
	bool is_last;            /* every thread has a row */
	uint32_t limited_levels; /* 1 << level: a cgroup with a CPU limit */
	bool is_idle;            /* it has not run since the last reading */
	uint64_t clock_ns;       /* of its CPU time, just before the last reading; 0: unknown */
	struct ky_resource_row usage;    /* the last one */
	uint32_t missing[KY_PART_COUNT]; /* of this reading */
	uint32_t kept[KY_PART_COUNT];    /* of the one before it */
	char text[8192];                 /* of a file that is large */
};

/* interval_ns: between readings; 0: none, which is reported, too. reader: the process. Returns when
 * to call again, CLOCK_MONOTONIC; UINT64_MAX: when the interval changes. */
uint64_t ky_resource_step(struct ky_resource_source *source, const struct ky_proc_reader *reader,
			  uint64_t interval_ns, uint64_t now_ns);

/* Would a step at this moment do anything? */
bool ky_resource_is_due(const struct ky_resource_source *source, uint64_t interval_ns,
			uint64_t now_ns);

/* Between readings, whenever the caller is awake: the accept queues, which fill and empty in
 * between. At most every KY_QUEUE_LOOK_NS, and for 1/KY_QUEUE_LOOK_SHARE of a CPU; nothing of a
 * process that was idle at its last reading or that listens nowhere. */
void ky_resource_look(struct ky_resource_source *source, uint64_t now_ns);

/* Reads once more, whenever the next reading is due: the process ends, or its recording. Of one
 * that has ended and was not waited for yet, what the kernel still counts for it; of one that was,
 * the machine's and its groups'. */
void ky_resource_last(struct ky_resource_source *source, const struct ky_proc_reader *reader,
		      uint64_t interval_ns, uint64_t now_ns);

/* A row that is no reading, after the first of them. */
void ky_resource_tell(struct ky_resource_source *source, struct ky_resource_row *row,
		      uint64_t now_ns);

/* Another ring, or the same after a pause: its head is reported anew. claim_index: rows that it
 * has. */
void ky_resource_begin(struct ky_resource_source *source, uint64_t claim_index);

/* What the settings of a ring say: `wish_ms` of them, or what it was started with. */
static inline uint64_t ky_resource_interval(uint32_t wish_ms, uint64_t started_ns)
{
	return wish_ms == KY_SETTING_OFF ? 0 : wish_ms ? wish_ms * UINT64_C(1000000) : started_ns;
}

#endif
