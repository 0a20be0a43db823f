/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* run_outside.h - CMD as it can be seen from outside, where it has no ring: a program without
 * Tokio, stripped, static, or kept from making one.
 *
 * The ring is made here, on behalf of CMD, with KY_RING_OUTSIDE in its header, and is then found,
 * drained, dumped and recovered like any other. In it are CMD's modules, samples of the processor
 * and looks at its resources; there are no slots with events, and the trace says so
 * ("recorder.unseen").
 *
 * Invariant: whoever makes a ring of its own is not in need of this one: run_rings.h keeps it back
 *            until its room is needed, and drops it for a child of CMD that records.
 * Errors:    a ring that cannot be made is none; CMD is as it was.
 * Threads:   owner.
 */
#ifndef KY_CLI_RUN_OUTSIDE_H
#define KY_CLI_RUN_OUTSIDE_H

#include <cli/run_environment.h>
#include <cli/run_options.h>
#include <drain/module_list.h>
#include <drain/ring_view.h>
#include <stdbool.h>
#include <stdint.h>
#include <wire/ring_image.h>

#define KY_OUTSIDE_WHY_BYTES 512u

struct ky_run_outside {
	const struct ky_run_options *options;
	const char *directory; /* of the rings */
	uint64_t session;
	bool is_static;                /* no library is loaded into it, so no word comes of it */
	struct ky_clock_anchor anchor; /* where the ring begins */
	uint64_t settle_ns;            /* of CMD's life, before there is a ring */
	uint64_t start_ns;             /* of CMD */
	uint32_t pid;                  /* of CMD; 0: it is not there yet */
	bool is_over;                  /* somebody records himself, or it cannot be had */
	bool is_launcher; /* as far as is known: it has no Tokio, as a shell has none */
	int error;        /* -errno: why there is no ring */
	char why[KY_OUTSIDE_WHY_BYTES]; /* "it does not use Tokio"; "": not decided */
	char program[256];              /* /proc/PID/exe as the ring began */
	uint32_t ring_count;            /* made so far */
	/* The ring; fd < 0: none. */
	int fd;
	struct ky_ring_header header;
	uint64_t directory_used;
	uint64_t look_ns;  /* next look at what is mapped */
	uint64_t *modules; /* keys of what the directory has */
	uint32_t module_count;
};

/* directory, options: the caller's. Before CMD is started: its first instruction is in reach. */
void ky_run_outside_open(struct ky_run_outside *outside, const struct ky_run_options *options,
			 const char *directory, uint64_t session);
void ky_run_outside_close(struct ky_run_outside *outside);

/* CMD is process `pid`. is_static: it can say nothing about itself. patience_ns: how long samples
 * can wait for a ring; 0: there are none. */
void ky_run_outside_child(struct ky_run_outside *outside, uint32_t pid, bool is_static,
			  uint64_t patience_ns);

/* A look at CMD. status, reason: of its library. has_rings: somebody of the session has a ring of
 * his own. Returns true while it is not decided whether CMD needs a ring. */
bool ky_run_outside_step(struct ky_run_outside *outside, enum ky_run_status status,
			 const char *reason, bool has_rings, uint64_t now_ns);

/* False: nothing to speak of, for CMD ended at once, or slept, as a shell does. is_sampled: samples
 * are taken. looks: at its resources. */
bool ky_run_outside_is_worth(bool is_sampled, uint64_t sample_count, uint32_t looks);
/* Keeping it any longer would cost what came first. */
bool ky_run_outside_is_half_full(const struct ky_ring_view *view);

#endif
