/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_status.h - everything that one ring says at this moment, copied: for `kymo status`.
 *
 * The image is untrusted and changes under our eyes. Memory: bounded by KY_STATE_POLLS_MAX and the
 * ring's threads.     Threads: owner.
 */
#ifndef KY_RING_RING_STATUS_H
#define KY_RING_RING_STATUS_H

#include <base/buf.h>
#include <ring/ring_count.h>
#include <ring/ring_finder.h>
#include <ring/ring_mark.h>
#include <ring/ring_settings.h>

#define KY_STATE_POLLS_MAX 1024u
#define KY_STATE_NAME_BYTES 256u

struct ky_state_poll {
	uint32_t tid;
	uint32_t thread; /* index in the directory */
	uint32_t depth;  /* 0: the outermost of its thread */
	uint32_t name;   /* id in the directory; 0: none */
	uint64_t task;
	uint64_t begin_ticks;
	uint64_t length_ns; /* up to now, or to the last that is known of a dead process */
	char thread_name[32];
	char text[KY_STATE_NAME_BYTES]; /* "": unknown */
};

struct ky_state_counter {
	char name[KY_COUNTER_NAME_BYTES + 1];
	int64_t value;
	bool counts_errors;
};

struct ky_ring_status {
	struct ky_setting_changes settings; /* values in `before` */
	uint32_t slot_count, populated_count, usable_count, thread_count;
	uint64_t claim_index;
	uint64_t directory_bytes, directory_used, directory_overflow_count;
	uint64_t dropped, dropped_signal, dropped_no_slot, dropped_no_state, dropped_exited;
	uint64_t fork_disarmed_count;
	struct ky_ring_count count;
	/* of the CPU; as the trace says it */
	char sampling[96], sampling_choice[128], sampling_refused[256];
	uint32_t sample_hz;
	uint64_t samples_min;      /* taken since the start, at least */
	uint64_t samples_lost;     /* by their source */
	uint64_t all_samples_lost; /* and those of memory, of calls and of await points */
	/* As the process that streams the ring counted them: records that it never saw, without
	 * those dropped, and samples of all kinds. */
	uint64_t records_lost, drain_samples_lost;
	uint64_t record_count;    /* of all threads that are still seen */
	uint32_t open_poll_count; /* all; the first KY_STATE_POLLS_MAX are listed, longest first */
	uint32_t listed_count;
	struct ky_state_poll *polls;
	bool has_side;
	uint32_t mark_count;
	struct ky_mark marks[KY_MARKS];
	uint32_t counter_count;
	struct ky_state_counter counters[KY_COUNTERS];
	char arch[17], recorder_version[17];
	struct ky_buf metadata; /* key, value, key, value, ...: each NUL-terminated */
	char drained_path[KY_DRAINED_PATH_BYTES]; /* "": no process has noted where it goes */
};

/* Names of code that the ring knows by address alone. */
struct ky_ring_namer {
	ky_name_fn name; /* NULL: such names stay empty */
	void *ctx;
};

/* Inside ky_ring_guarded(). Returns 0, -ENOMEM, KYMO_E_*. Release it in either case. */
int ky_ring_status_read(struct ky_ring_status *out, const struct ky_open_ring *ring,
			const struct ky_found_ring *found, const struct ky_ring_namer *namer);
void ky_ring_status_release(struct ky_ring_status *state);

#endif
