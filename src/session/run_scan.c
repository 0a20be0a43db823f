/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <session/run_scan.h>

#include <base/hash.h>
#include <string.h>
#include <sys/statvfs.h>

#define MS_NS UINT64_C(1000000)
#define START_NS (20 * MS_NS)
/* Less than this much room left: recorders go to anonymous memory. */
#define ROOM_BYTES_MIN (UINT64_C(4) << 20)
#define ANONYMOUS_FIRST_NS (200 * MS_NS)
#define ANONYMOUS_LAST_NS (60000 * MS_NS)

void ky_run_scan_init(struct ky_run_scan *scan, uint64_t now_ns)
{
	scan->opened_ns = now_ns;
	scan->anonymous_pace_ns = ANONYMOUS_FIRST_NS;
	scan->anonymous_ns = now_ns + ANONYMOUS_FIRST_NS;
}

void ky_run_scan_news(struct ky_run_scan *scan, uint64_t now_ns)
{
	if (scan->due_ns > now_ns + START_NS)
		scan->due_ns = now_ns + START_NS;
}

uint64_t ky_run_scan_pace_ns(const struct ky_run_scan *scan, bool is_quiet, bool has_news,
			     uint64_t now_ns)
{
	uint64_t pace_ns = (now_ns - scan->opened_ns) / 2;
	uint64_t most_ns = has_news ? KY_RUN_SCAN_NEWS_NS :
			   is_quiet ? KY_RUN_SCAN_FLIGHT_NS :
				      KY_RUN_SCAN_IDLE_NS;

	if (pace_ns > most_ns)
		return most_ns;
	return pace_ns > START_NS ? pace_ns : START_NS;
}

bool ky_run_scan_wants_anonymous(struct ky_run_scan *scan, int directory_fd, uint64_t now_ns)
{
	struct statvfs room;
	bool is_tight = directory_fd < 0 || fstatvfs(directory_fd, &room) != 0 ||
			(uint64_t)room.f_bavail * room.f_frsize < ROOM_BYTES_MIN;

	if (!is_tight && now_ns < scan->anonymous_ns)
		return false;
	if (now_ns >= scan->anonymous_ns) {
		if (scan->anonymous_pace_ns < ANONYMOUS_LAST_NS)
			scan->anonymous_pace_ns *= 2;
		scan->anonymous_ns = now_ns + scan->anonymous_pace_ns;
	}
	return true;
}

/* A deleted file's number goes to the next one made; its name, with pid and start time, does not.
 */
static uint64_t key_of(const char *name, ino_t inode)
{
	return ky_hash_bytes((uint64_t)inode, name, strlen(name));
}

void ky_run_scan_ignore(struct ky_run_scan *scan, const char *name, ino_t inode)
{
	if (scan->ignored_count < KY_RUN_SCAN_IGNORED_MAX)
		scan->ignored[scan->ignored_count++] = key_of(name, inode);
}

bool ky_run_scan_ignores(const struct ky_run_scan *scan, const char *name, ino_t inode)
{
	uint64_t key = key_of(name, inode);

	for (uint32_t i = 0; i < scan->ignored_count; i++)
		if (scan->ignored[i] == key)
			return true;
	return false;
}
