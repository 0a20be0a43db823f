/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* run_scan.h - when `kymo run` searches for new rings again, and which files it passes over.
 * Threads: owner.
 */
#ifndef KY_SESSION_RUN_SCAN_H
#define KY_SESSION_RUN_SCAN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define KY_RUN_SCAN_IDLE_NS UINT64_C(200000000)
/* In flight mode nothing is read before the end: only new rings are searched for. */
#define KY_RUN_SCAN_FLIGHT_NS UINT64_C(500000000)
#define KY_RUN_SCAN_NEWS_NS UINT64_C(1000000000)
#define KY_RUN_SCAN_IGNORED_MAX 4096u

struct ky_run_scan {
	uint64_t opened_ns;
	uint64_t due_ns;                           /* next scan for new rings */
	uint64_t anonymous_ns, anonymous_pace_ns;  /* next scan for anonymous rings */
	uint64_t ignored[KY_RUN_SCAN_IGNORED_MAX]; /* of other sessions, not opened again */
	uint32_t ignored_count;
};

void ky_run_scan_init(struct ky_run_scan *scan, uint64_t now_ns);

/* Until the next scan. At first often: samples of a process whose ring is not found yet are lost.
 * is_quiet: a flight without rules; has_news: it is reported when a name comes, and all that have
 * come are known. */
uint64_t ky_run_scan_pace_ns(const struct ky_run_scan *scan, bool is_quiet, bool has_news,
			     uint64_t now_ns);

/* A name has come: it is a ring some moments later. */
void ky_run_scan_news(struct ky_run_scan *scan, uint64_t now_ns);

/* Where there is no room for ring files they are searched for at every step, for one without a file
 * dies with its process unless we hold it. There are other reasons (a host that changed its user,
 * say), so the rest of the time now and then. directory_fd: of the ring files. */
bool ky_run_scan_wants_anonymous(struct ky_run_scan *scan, int directory_fd, uint64_t now_ns);

void ky_run_scan_ignore(struct ky_run_scan *scan, const char *name, ino_t inode);
bool ky_run_scan_ignores(const struct ky_run_scan *scan, const char *name, ino_t inode);

#endif
