/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* listeners.h - accept queues of the listening TCP sockets of a process.
 *
 * The kernel is asked for listening sockets alone (sock_diag), so that what a reading costs does
 * not grow with connections; of a process in another network namespace /proc/PID/net is read, up to
 * the first line that is no listener. Whose they are is found by the inodes of the process's
 * descriptors: once a socket, KY_LISTENER_FDS_MAX descriptors a reading at most.
 * Threads: owner. Memory: none but the structure.
 */
#ifndef KY_PROBE_LISTENERS_H
#define KY_PROBE_LISTENERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KY_LISTENERS_MAX 512u
#define KY_LISTENER_FDS_MAX 512u

/* One socket, as the kernel reports it. */
struct ky_listener {
	uint64_t cookie; /* 0: not reported */
	uint64_t inode;
	uint8_t address[16];
	uint32_t pending, limit, drops;
	uint16_t port;
	uint8_t version; /* 4 or 6 */
	bool has_drops;
};

enum ky_listener_owner {
	KY_LISTENER_SEARCHED = 0,
	KY_LISTENER_OURS,
	KY_LISTENER_OTHERS
};

struct ky_listener_known {
	struct ky_listener now;
	uint8_t owner;  /* enum ky_listener_owner */
	bool is_there;  /* at this reading */
	bool is_news;   /* changed since it was reported */
	uint32_t round; /* of the search that must end before it is another's */
	uint32_t reported_reading;
};

struct ky_listeners {
	struct ky_listener_known known[KY_LISTENERS_MAX];
	uint32_t count;
	bool is_overfull; /* there are more than we follow */
	uint32_t reading, recheck_reading;
	uint32_t search_round;
	int64_t search_at;                        /* where the search for descriptors continues */
	struct ky_listener all[KY_LISTENERS_MAX]; /* of this reading, of all processes */
	_Alignas(8) uint8_t bytes[16384];
};

/* A reading of all of them. dir: /proc/PID; is_own: it is the calling process. Returns 0, or
 * -errno: nothing could be read. */
int ky_listeners_read(struct ky_listeners *listeners, int dir, bool is_own);

/* Between readings: asks for each queue of the process's alone. What no reading has seen stays
 * unknown, and so do sockets that share their address with others, or of another network namespace.
 * False: as before. */
bool ky_listeners_look(struct ky_listeners *listeners);

/* Is one of them still searched for? */
bool ky_listeners_are_searched(const struct ky_listeners *listeners);

/* A file of the shape of /proc/net/tcp (version 4) or tcp6 (6): the listeners at its beginning.
 * text ends in a zero. Returns how many were put. */
uint32_t ky_listeners_parse(const char *text, uint8_t version, struct ky_listener *out,
			    uint32_t max);

/* Messages of the kernel about sockets. Returns 1: more to come, 0: that was all, or -errno. */
int ky_listeners_message(const void *bytes, size_t count, struct ky_listener *out, uint32_t max,
			 uint32_t *used);

#endif
