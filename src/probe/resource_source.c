/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <probe/resource_source.h>

#include <base/now.h>
#include <errno.h>
#include <fcntl.h>
#include <probe/ring_pages.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KIB UINT64_C(1024)
#define BLOCK_BYTES 512u
#define GROUP_READINGS 30u /* a process is moved to other groups rarely */

/* ---- what goes into the area ---- */

static void put(struct ky_resource_source *source, uint64_t offset, const void *bytes, size_t count)
{
	if (!source->is_broken)
		source->is_broken = !source->put(source->put_ctx, offset, bytes, count);
}

/* Its serial is zero while the row is written. */
static void put_row(struct ky_resource_source *source, struct ky_resource_row *row)
{
	uint64_t at = ky_resource_entry_offset(source->claim_index),
		 serial = source->claim_index + 1;
	uint64_t words[sizeof(struct ky_resource_entry) / 8] = {0};

	row->monotonic_ns = source->now_ns;
	memcpy(words + 1, row, sizeof(*row));
	put(source, at, words, sizeof(words));
	put(source, at, &serial, sizeof(serial));
	if (!source->is_broken)
		source->claim_index = serial;
}

static void put_claim_index(struct ky_resource_source *source)
{
	put(source, offsetof(struct ky_resource_head, claim_index), &source->claim_index,
	    sizeof(source->claim_index));
}

#define HEAD_FROM offsetof(struct ky_resource_head, interval_ns)
_Static_assert(HEAD_FROM == 8 && (sizeof(struct ky_resource_head) - HEAD_FROM) % 8 == 0,
	       "the head is stored in words, without its index");

static void set_path(struct ky_resource_head *head, const char *path)
{
	size_t bytes = strnlen(path, KY_RESOURCE_PATH_BYTES);

	memset(head->path, 0, sizeof(head->path));
	memcpy(head->path, path, bytes);
	atomic_store_explicit(&head->path_bytes, (uint32_t)bytes, memory_order_relaxed);
}

/* The head, where it is news. */
static void put_head(struct ky_resource_source *source, uint64_t interval_ns)
{
	const struct ky_cgroup_use *groups = &source->groups;
	static const struct ky_resource_head empty;
	struct ky_resource_head head = empty;

	/* Of version 1 each controller has its own. */
	if (interval_ns)
		set_path(&head, strlen(groups->cpu.name) > strlen(groups->memory.name) ?
					groups->cpu.name :
					groups->memory.name);
	atomic_store_explicit(&head.interval_ns, interval_ns, memory_order_relaxed);
	for (uint32_t i = 0; interval_ns && i < KY_PART_COUNT; i++)
		atomic_store_explicit(&head.missing[i], source->missing[i], memory_order_relaxed);
	if (source->has_head &&
	    memcmp((uint8_t *)&head + HEAD_FROM, (uint8_t *)&source->head + HEAD_FROM,
		   sizeof(head) - HEAD_FROM) == 0)
		return;
	put(source, HEAD_FROM, (uint8_t *)&head + HEAD_FROM, sizeof(head) - HEAD_FROM);
	memcpy(&source->head, &head, sizeof(head));
	source->has_head = !source->is_broken;
}

void ky_resource_begin(struct ky_resource_source *source, uint64_t claim_index)
{
	source->claim_index = claim_index;
	source->next_ns = 0;
	source->has_head = source->is_broken = false;
	source->clock_ns = 0;
	source->usage.present = 0;
}

/* err: -errno or an enum ky_resource_why. */
static void miss(struct ky_resource_source *source, enum ky_resource_part part, int err)
{
	source->missing[part] = (uint32_t)(err < 0 ? -err : err);
}

/* What was missing at the last reading is still. */
static void keep_missing(struct ky_resource_source *source, enum ky_resource_part part)
{
	source->missing[part] = source->kept[part];
}

static bool is_seldom(const struct ky_resource_source *source)
{
	return source->readings % KY_RESOURCE_SELDOM == 0;
}

/* ---- the process ---- */

static void take_own(struct ky_resource_source *source, struct ky_resource_row *row)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage) != 0) {
		miss(source, KY_PART_CPU, -errno);
		return;
	}
	ky_resource_set(row, KY_USAGE_USER_NS,
			(uint64_t)usage.ru_utime.tv_sec * UINT64_C(1000000000) +
				(uint64_t)usage.ru_utime.tv_usec * 1000);
	ky_resource_set(row, KY_USAGE_SYSTEM_NS,
			(uint64_t)usage.ru_stime.tv_sec * UINT64_C(1000000000) +
				(uint64_t)usage.ru_stime.tv_usec * 1000);
	ky_resource_set(row, KY_USAGE_MAX_RSS, (uint64_t)usage.ru_maxrss * KIB);
	ky_resource_set(row, KY_USAGE_MINOR_FAULTS, (uint64_t)usage.ru_minflt);
	ky_resource_set(row, KY_USAGE_MAJOR_FAULTS, (uint64_t)usage.ru_majflt);
	ky_resource_set(row, KY_USAGE_BLOCKS_IN, (uint64_t)usage.ru_inblock);
	ky_resource_set(row, KY_USAGE_BLOCKS_OUT, (uint64_t)usage.ru_oublock);
	ky_resource_set(row, KY_USAGE_VOLUNTARY, (uint64_t)usage.ru_nvcsw);
	ky_resource_set(row, KY_USAGE_INVOLUNTARY, (uint64_t)usage.ru_nivcsw);
}

static void take_stat(struct ky_resource_source *source, const struct ky_proc_reader *reader,
		      struct ky_resource_row *row, uint64_t *threads)
{
	struct ky_proc_stat stat;
	int err = ky_proc_reader_stat(reader, &stat);

	*threads = 0;
	if (err) {
		miss(source, KY_PART_CPU, err);
		return;
	}
	*threads = stat.threads;
	ky_resource_set(row, KY_USAGE_THREADS, stat.threads);
	if (source->is_own)
		return;
	ky_resource_set(row, KY_USAGE_USER_NS, stat.user_ns);
	ky_resource_set(row, KY_USAGE_SYSTEM_NS, stat.kernel_ns);
	ky_resource_set(row, KY_USAGE_MINOR_FAULTS, stat.minor_faults);
	ky_resource_set(row, KY_USAGE_MAJOR_FAULTS, stat.major_faults);
}

/* Returns false where the process has no memory any more: it is ending. The kernel takes its memory
 * first, so what was read before this is of the living process. */
static bool take_rss(struct ky_resource_source *source, const struct ky_proc_reader *reader,
		     struct ky_resource_row *row)
{
	uint64_t value;

	if (!ky_proc_reader_rss(reader, NULL, &value)) {
		miss(source, KY_PART_RSS, -ENODATA);
		return true;
	}
	ky_resource_set(row, KY_USAGE_RSS, value);
	return value > 0;
}

static void take_max_rss(struct ky_resource_source *source, const struct ky_proc_reader *reader,
			 struct ky_resource_row *row)
{
	char text[3072];
	uint64_t value;
	int err;

	if (source->is_own)
		return;
	err = ky_proc_read_text(reader->dir, "status", text, sizeof(text));
	if (err <= 0)
		miss(source, KY_PART_MAX_RSS, err < 0 ? err : -ENODATA);
	else if (ky_proc_number(text, "VmHWM:", &value)) /* else it has no memory: it is ending */
		ky_resource_set(row, KY_USAGE_MAX_RSS, value * KIB);
}

static void take_io(struct ky_resource_source *source, const struct ky_proc_reader *reader,
		    struct ky_resource_row *row)
{
	uint64_t in, out;
	char text[512];
	int err = ky_proc_read_text(reader->dir, "io", text, sizeof(text));

	if (err <= 0 || !ky_proc_number(text, "read_bytes:", &in) ||
	    !ky_proc_number(text, "write_bytes:", &out)) {
		miss(source, KY_PART_IO, err < 0 ? err : -ENODATA);
		return;
	}
	ky_resource_set(row, KY_USAGE_BLOCKS_IN, in / BLOCK_BYTES);
	ky_resource_set(row, KY_USAGE_BLOCKS_OUT, out / BLOCK_BYTES);
}

/* ---- entries of a folder ---- */

struct folder_entry {
	uint64_t inode;
	int64_t next;
	uint16_t bytes;
	uint8_t type;
	char name[];
};

/* Calls for each entry but "." and ".."; stops when that returns false. Returns 0 or -errno. */
static int list(int dir, const char *path, bool (*each)(void *ctx, const char *name), void *ctx)
{
	_Alignas(8) uint8_t bytes[2048];
	int fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool goes_on = true;
	long count = 0;

	if (fd < 0)
		return -errno;
	while (goes_on && (count = syscall(SYS_getdents64, fd, bytes, sizeof(bytes))) > 0) {
		for (long at = 0; at < count && goes_on;) {
			const struct folder_entry *entry = (const void *)(bytes + at);

			if (entry->name[0] != '.')
				goes_on = each(ctx, entry->name);
			at += entry->bytes;
		}
	}
	count = count < 0 ? -errno : 0;
	close(fd);
	return (int)count;
}

/* ---- threads ---- */

struct switches {
	struct ky_resource_source *source;
	const struct ky_proc_reader *reader;
};

static struct ky_thread_counted *place_of(struct ky_resource_source *source, uint32_t tid)
{
	struct ky_thread_counted *found = NULL;

	for (uint32_t i = 0; i < KY_RESOURCE_THREADS_MAX; i++) {
		struct ky_thread_counted *thread = &source->threads[i];

		if (thread->tid == tid)
			return thread;
		if (!thread->tid && !found)
			found = thread;
	}
	if (found)
		*found = (struct ky_thread_counted){.tid = tid};
	return found;
}

/* What the kernel has counted for one thread, where it ran or waited since its last row. */
static void put_thread(struct ky_resource_source *source, const struct ky_proc_reader *reader,
		       struct ky_thread_counted *thread)
{
	struct ky_resource_row row = {.kind = KY_RESOURCE_THREAD};
	char name[KY_THREAD_NAME_BYTES] = "";
	uint64_t cpu_ns, delay_ns;

	if (!ky_proc_reader_sched(reader, thread->tid, &cpu_ns, &delay_ns))
		return;
	if (!source->is_last && cpu_ns + delay_ns >= thread->cpu_ns + thread->delay_ns &&
	    cpu_ns + delay_ns - thread->cpu_ns - thread->delay_ns < KY_RESOURCE_THREAD_NS)
		return;
	thread->cpu_ns = cpu_ns;
	thread->delay_ns = delay_ns;
	ky_proc_reader_thread_name(reader, thread->tid, name, sizeof(name));
	ky_resource_set(&row, KY_THREAD_TID, thread->tid);
	ky_resource_set(&row, KY_THREAD_CPU_NS, cpu_ns);
	ky_resource_set(&row, KY_THREAD_DELAY_NS, delay_ns);
	ky_resource_set(&row, KY_THREAD_VOLUNTARY, thread->voluntary);
	ky_resource_set(&row, KY_THREAD_INVOLUNTARY, thread->involuntary);
	row.present |= 1u << KY_THREAD_NAME | 1u << KY_THREAD_NAME_2;
	memcpy(&row.values[KY_THREAD_NAME], name, sizeof(name));
	put_row(source, &row);
}

/* Of a thread that has not switched since the reading before. */
static void put_socket(struct ky_resource_source *source, const struct ky_proc_reader *reader,
		       struct ky_thread_counted *thread)
{
	struct ky_resource_row row;
	int got;

	if (source->sockets == KY_SOCKET_WAITS_MAX)
		return;
	got = ky_socket_wait_read(&thread->wait, reader, source->is_own, thread->tid, &row);
	if (got < 0)
		miss(source, KY_PART_SOCKETS, got);
	source->sockets += got > 0;
	if (got > 0)
		put_row(source, &row);
}

static void put_sockets(struct ky_resource_source *source, const struct ky_proc_reader *reader)
{
	for (uint32_t i = 0; i < KY_RESOURCE_THREADS_MAX; i++)
		if (source->threads[i].tid)
			put_socket(source, reader, &source->threads[i]);
}

static bool take_thread(void *ctx, const char *name)
{
	struct switches *switches = ctx;
	struct ky_resource_source *source = switches->source;
	uint32_t tid = (uint32_t)strtoul(name, NULL, 10);
	struct ky_thread_counted *thread;
	uint64_t voluntary, involuntary;
	bool is_still;

	if (!tid || !ky_proc_reader_switches(switches->reader, tid, &voluntary, &involuntary))
		return true; /* it ended meanwhile */
	thread = place_of(source, tid);
	if (!thread)
		return false;
	is_still = thread->wait.since_ns && voluntary == thread->voluntary &&
		   involuntary == thread->involuntary;
	/* Backwards: the number is another thread's by now. */
	if (voluntary < thread->voluntary || involuntary < thread->involuntary)
		thread->voluntary = thread->involuntary = 0;
	source->voluntary += voluntary - thread->voluntary;
	source->involuntary += involuntary - thread->involuntary;
	thread->voluntary = voluntary;
	thread->involuntary = involuntary;
	thread->is_there = true;
	put_thread(source, switches->reader, thread);
	if (is_still)
		put_socket(source, switches->reader, thread);
	else
		ky_socket_wait_begin(&thread->wait, source->now_ns);
	return true;
}

static void take_threads(struct ky_resource_source *source, const struct ky_proc_reader *reader,
			 uint64_t threads, struct ky_resource_row *row)
{
	struct switches switches = {source, reader};
	int err;

	for (uint32_t i = 0; i < KY_RESOURCE_THREADS_MAX; i++)
		source->threads[i].is_there = false;
	err = list(reader->dir, "task", take_thread, &switches);
	for (uint32_t i = 0; i < KY_RESOURCE_THREADS_MAX; i++)
		if (!source->threads[i].is_there)
			source->threads[i].tid = 0;
	if (source->is_own) /* their sum is known from elsewhere */
		return;
	if (err || threads > KY_RESOURCE_THREADS_MAX) {
		miss(source, KY_PART_SWITCHES, err ? err : KY_WHY_TOO_MANY);
		return;
	}
	ky_resource_set(row, KY_USAGE_VOLUNTARY, source->voluntary);
	ky_resource_set(row, KY_USAGE_INVOLUNTARY, source->involuntary);
}

/* ---- descriptors ---- */

static bool count_one(void *ctx, const char *name)
{
	uint64_t *count = ctx;

	(void)name;
	return ++*count <= KY_RESOURCE_FDS_MAX;
}

/* Since Linux 6.2 the folder's size is their number. */
static void take_descriptors(struct ky_resource_source *source, const struct ky_proc_reader *reader,
			     struct ky_resource_row *row)
{
	uint64_t count = 0;
	struct stat st;
	int err = 0;

	if (fstatat(reader->dir, "fd", &st, 0) == 0 && st.st_size > 0)
		count = (uint64_t)st.st_size;
	else
		err = list(reader->dir, "fd", count_one, &count);
	if (err)
		miss(source, KY_PART_FDS, err);
	else if (count > KY_RESOURCE_FDS_MAX && st.st_size <= 0)
		miss(source, KY_PART_FDS, KY_WHY_TOO_MANY);
	else
		ky_resource_set(row, KY_USAGE_FDS, count);
}

static void take_descriptor_limit(struct ky_resource_source *source,
				  const struct ky_proc_reader *reader, struct ky_resource_row *row)
{
	uint64_t limit;
	char text[3072], *at;
	int err;

	row->present &= ~(1u << KY_USAGE_FD_LIMIT);
	err = ky_proc_read_text(reader->dir, "limits", text, sizeof(text));
	at = err > 0 ? strstr(text, "Max open files ") : NULL;
	if (!at) {
		miss(source, KY_PART_FD_LIMIT, err < 0 ? err : -ENODATA);
		return;
	}
	at += strlen("Max open files ");
	limit = strtoull(at, &at, 10);
	if (limit) /* else "unlimited" */
		ky_resource_set(row, KY_USAGE_FD_LIMIT, limit);
}

/* What only the process changes, and only by running. */
static void take_usage(struct ky_resource_source *source, const struct ky_proc_reader *reader,
		       struct ky_resource_row *row)
{
	uint64_t threads;

	if (source->is_own)
		take_own(source, row);
	take_stat(source, reader, row, &threads);
	take_max_rss(source, reader, row);
	if (!source->is_own)
		take_io(source, reader, row);
	take_threads(source, reader, threads, row);
	take_descriptors(source, reader, row);
}

static void repeat_usage(struct ky_resource_source *source, struct ky_resource_row *row)
{
	static const enum ky_resource_part parts[] = {KY_PART_CPU, KY_PART_MAX_RSS, KY_PART_IO,
						      KY_PART_SWITCHES, KY_PART_FDS};

	*row = source->usage;
	row->present &= ~(1u << KY_USAGE_RSS);
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		keep_missing(source, parts[i]);
}

/* The clock is read before the files: what stands in them is at least as new. */
static void read_cpu_clock(struct ky_resource_source *source, const struct ky_proc_reader *reader)
{
	uint64_t ns;

	source->is_idle = false;
	if (source->is_own || !ky_proc_reader_clock(reader, &ns)) {
		source->clock_ns = 0;
		return;
	}
	source->is_idle = source->clock_ns && ns == source->clock_ns;
	source->clock_ns = ns;
}

static void read_the_process(struct ky_resource_source *source, const struct ky_proc_reader *reader)
{
	struct ky_resource_row row = {.kind = KY_RESOURCE_USAGE};

	read_cpu_clock(source, reader);
	source->sockets = 0;
	if (source->is_idle) {
		repeat_usage(source, &row);
		put_sockets(source, reader);
	} else {
		take_usage(source, reader, &row);
	}
	take_descriptor_limit(source, reader, &row);
	if (!take_rss(source, reader, &row))
		return;
	source->usage = row; /* which may be repeated: as the kernel counts */
	ky_ring_pages_leave_out(&row, reader, source->ring_address, source->ring_bytes);
	if (row.present)
		put_row(source, &row);
}

/* ---- what limits it ---- */

static void put_groups(struct ky_resource_source *source)
{
	struct ky_resource_row row;

	source->limited_levels = 0;
	for (uint32_t level = 0; level < KY_CGROUP_LEVELS; level++) {
		if (!ky_cgroup_use_row(&source->groups, level, &row))
			continue;
		if (ky_resource_has(&row, KY_CGROUP_CPU_LIMIT_NS))
			source->limited_levels |= 1u << level;
		put_row(source, &row);
	}
}

static void read_groups(struct ky_resource_source *source, const struct ky_proc_reader *reader)
{
	struct ky_cgroup_use *groups = &source->groups;
	struct ky_resource_row row;
	char prefix[KY_CGROUP_PATH_BYTES + 2];
	int err;

	if (source->readings % GROUP_READINGS == 0)
		ky_cgroup_use_find(groups, reader->dir, source->cgroup);
	if (!groups->cpu.levels)
		miss(source, KY_PART_CGROUP_CPU, KY_WHY_NO_CONTROLLER);
	if (!groups->memory.levels)
		miss(source, KY_PART_CGROUP_MEMORY, KY_WHY_NO_CONTROLLER);
	put_groups(source);
	if (!groups->cpu.levels || groups->cpu.is_v1) {
		miss(source, KY_PART_CGROUP_PRESSURE, KY_WHY_NO_CONTROLLER);
		return;
	}
	snprintf(prefix, sizeof(prefix), "%s/", groups->cpu.path[0]);
	err = ky_pressure_row(prefix, ".pressure", 1, &row);
	if (err)
		miss(source, KY_PART_CGROUP_PRESSURE, err);
	else
		put_row(source, &row);
}

static void read_machine(struct ky_resource_source *source)
{
	char prefix[256];
	struct ky_resource_row row;
	int err;

	snprintf(prefix, sizeof(prefix), "%s/pressure/", source->proc ? source->proc : "/proc");
	err = ky_pressure_row(prefix, "", 0, &row);
	if (err)
		miss(source, KY_PART_PRESSURE, err);
	else
		put_row(source, &row);
}

/* ---- sockets ---- */

static void put_listener(struct ky_resource_source *source, struct ky_listener_known *known)
{
	const struct ky_listener *now = &known->now;
	struct ky_resource_row row = {.kind = KY_RESOURCE_LISTENER, .scope = now->version};

	ky_resource_set(&row, KY_LISTENER_COOKIE, now->cookie);
	ky_resource_set(&row, KY_LISTENER_INODE, now->inode);
	ky_resource_set(&row, KY_LISTENER_PORT, now->port);
	ky_resource_set(&row, KY_LISTENER_PENDING, now->pending);
	ky_resource_set(&row, KY_LISTENER_LIMIT, now->limit);
	if (now->has_drops)
		ky_resource_set(&row, KY_LISTENER_DROPS, now->drops);
	row.present |= 1u << KY_LISTENER_ADDRESS | 1u << KY_LISTENER_ADDRESS_2;
	memcpy(&row.values[KY_LISTENER_ADDRESS], now->address, sizeof(now->address));
	put_row(source, &row);
	known->is_news = false;
	known->reported_reading = source->listeners.reading;
}

/* Counts of the whole network namespace: two lines, names and values. Returns 0 or -errno. */
static int read_drops(char *text, size_t text_bytes, int dir, uint64_t *overflows, uint64_t *drops)
{
	int err = ky_proc_read_text(dir, "net/netstat", text, text_bytes);
	char *names, *values, *name, *value, *rest_names, *rest_values;
	uint32_t found = 0;

	if (err < 0)
		return err;
	names = strstr(text, "TcpExt: ");
	values = names ? strstr(names + 1, "\nTcpExt: ") : NULL;
	if (!values)
		return -ENODATA;
	*values++ = 0;
	values[strcspn(values, "\n")] = 0;
	name = strtok_r(names, " ", &rest_names);
	value = strtok_r(values, " ", &rest_values);
	while (name && value) {
		if (strcmp(name, "ListenOverflows") == 0 && ++found)
			*overflows = strtoull(value, NULL, 10);
		if (strcmp(name, "ListenDrops") == 0 && ++found)
			*drops = strtoull(value, NULL, 10);
		name = strtok_r(NULL, " ", &rest_names);
		value = strtok_r(NULL, " ", &rest_values);
	}
	return found == 2 ? 0 : -ENODATA;
}

static bool has_pending(const struct ky_listeners *listeners)
{
	for (uint32_t i = 0; i < listeners->count; i++)
		if (listeners->known[i].owner != KY_LISTENER_OTHERS &&
		    listeners->known[i].now.pending)
			return true;
	return false;
}

/* Of the whole network namespace: a large file. */
static void read_listen_drops(struct ky_resource_source *source,
			      const struct ky_proc_reader *reader)
{
	struct ky_resource_row row = {.kind = KY_RESOURCE_DROPS};
	uint64_t overflows = 0, drops = 0;
	int err;

	if (source->is_idle && !is_seldom(source) && !has_pending(&source->listeners)) {
		keep_missing(source, KY_PART_DROPS);
		return;
	}
	err = read_drops(source->text, sizeof(source->text), reader->dir, &overflows, &drops);
	if (err) {
		miss(source, KY_PART_DROPS, err);
		return;
	}
	ky_resource_set(&row, 0, overflows);
	ky_resource_set(&row, 1, drops);
	put_row(source, &row);
}

static void put_news(struct ky_resource_source *source)
{
	struct ky_listeners *listeners = &source->listeners;

	for (uint32_t i = 0; i < listeners->count; i++)
		if (listeners->known[i].owner == KY_LISTENER_OURS && listeners->known[i].is_there &&
		    listeners->known[i].is_news)
			put_listener(source, &listeners->known[i]);
}

static bool listens(const struct ky_listeners *listeners)
{
	for (uint32_t i = 0; i < listeners->count; i++)
		if (listeners->known[i].owner == KY_LISTENER_OURS)
			return true;
	return false;
}

static void read_sockets(struct ky_resource_source *source, const struct ky_proc_reader *reader)
{
	struct ky_listeners *listeners = &source->listeners;
	int err = ky_listeners_read(listeners, reader->dir, source->is_own);

	if (err)
		miss(source, KY_PART_LISTENERS, err);
	else if (listeners->is_overfull)
		miss(source, KY_PART_LISTENERS, KY_WHY_TOO_MANY);
	else if (ky_listeners_are_searched(listeners))
		miss(source, KY_PART_LISTENERS, KY_WHY_BEING_SEARCHED);
	put_news(source);
	read_listen_drops(source, reader);
}

/* ---- a reading ---- */

static void read_everything(struct ky_resource_source *source, const struct ky_proc_reader *reader)
{
	static const enum ky_resource_part of_process[] = {
		KY_PART_CPU,           KY_PART_RSS,
		KY_PART_MAX_RSS,       KY_PART_IO,
		KY_PART_SWITCHES,      KY_PART_FDS,
		KY_PART_FD_LIMIT,      KY_PART_CGROUP_CPU,
		KY_PART_CGROUP_MEMORY, KY_PART_CGROUP_PRESSURE,
		KY_PART_LISTENERS,     KY_PART_DROPS,
		KY_PART_SOCKETS};

	memcpy(source->kept, source->missing, sizeof(source->kept));
	memset(source->missing, 0, sizeof(source->missing));
	read_machine(source);
	if (reader->dir >= 0 && !reader->is_foreign) {
		read_the_process(source, reader);
		read_groups(source, reader);
		read_sockets(source, reader);
		return;
	}
	for (size_t i = 0; i < sizeof(of_process) / sizeof(*of_process); i++)
		miss(source, of_process[i], reader->is_foreign ? KY_WHY_OTHER_NAMESPACE : -ENOENT);
}

bool ky_resource_is_due(const struct ky_resource_source *source, uint64_t interval_ns,
			uint64_t now_ns)
{
	if (source->is_broken)
		return false;
	if (!interval_ns) /* that is reported once, after a reading */
		return source->has_head &&
		       atomic_load_explicit(&source->head.interval_ns, memory_order_relaxed) != 0;
	/* The interval may have been longer before. */
	return now_ns >= source->next_ns || source->next_ns > now_ns + interval_ns;
}

uint64_t ky_resource_step(struct ky_resource_source *source, const struct ky_proc_reader *reader,
			  uint64_t interval_ns, uint64_t now_ns)
{
	uint64_t cpu_ns;

	if (!ky_resource_is_due(source, interval_ns, now_ns))
		return interval_ns && !source->is_broken ? source->next_ns : UINT64_MAX;
	if (!interval_ns) {
		put_head(source, 0);
		source->next_ns = 0;
		return UINT64_MAX;
	}
	cpu_ns = ky_now_ns(CLOCK_THREAD_CPUTIME_ID);
	source->now_ns = now_ns;
	/* Late by more than a reading: from now on, not to be made up for. */
	source->next_ns = source->next_ns <= now_ns && now_ns - source->next_ns < interval_ns ?
				  source->next_ns + interval_ns :
				  now_ns + interval_ns;
	read_everything(source, reader);
	source->readings++;
	put_head(source, interval_ns);
	put_claim_index(source);
	source->cpu_ns += ky_now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
	return source->is_broken ? UINT64_MAX : source->next_ns;
}

void ky_resource_look(struct ky_resource_source *source, uint64_t now_ns)
{
	uint64_t cpu_ns, pause_ns;

	if (source->is_broken || !source->next_ns || source->is_idle || now_ns < source->look_ns ||
	    !listens(&source->listeners))
		return;
	cpu_ns = ky_now_ns(CLOCK_THREAD_CPUTIME_ID);
	if (ky_listeners_look(&source->listeners)) {
		source->now_ns = now_ns;
		put_news(source);
		put_claim_index(source);
	}
	cpu_ns = ky_now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
	source->cpu_ns += cpu_ns;
	pause_ns = cpu_ns * KY_QUEUE_LOOK_SHARE;
	source->look_ns = now_ns + (pause_ns > KY_QUEUE_LOOK_NS ? pause_ns : KY_QUEUE_LOOK_NS);
}

void ky_resource_tell(struct ky_resource_source *source, struct ky_resource_row *row,
		      uint64_t now_ns)
{
	if (!source->readings)
		return;
	source->now_ns = now_ns;
	put_row(source, row);
	put_claim_index(source);
}

/* Of a process that has ended and was not waited for: its counters, and those of its groups.
 * Nothing is reported as missing that was there before. */
static void read_remains(struct ky_resource_source *source, const struct ky_proc_reader *reader)
{
	struct ky_resource_row row = {.kind = KY_RESOURCE_USAGE};
	struct ky_proc_stat stat;

	memcpy(source->kept, source->missing, sizeof(source->kept));
	if (ky_proc_reader_stat(reader, &stat) == 0) {
		ky_resource_set(&row, KY_USAGE_USER_NS, stat.user_ns);
		ky_resource_set(&row, KY_USAGE_SYSTEM_NS, stat.kernel_ns);
		ky_resource_set(&row, KY_USAGE_MINOR_FAULTS, stat.minor_faults);
		ky_resource_set(&row, KY_USAGE_MAJOR_FAULTS, stat.major_faults);
		take_io(source, reader, &row);
		put_row(source, &row);
	}
	read_machine(source);
	put_groups(source);
	memcpy(source->missing, source->kept, sizeof(source->missing));
}

void ky_resource_last(struct ky_resource_source *source, const struct ky_proc_reader *reader,
		      uint64_t interval_ns, uint64_t now_ns)
{
	uint64_t rss;

	if (source->is_broken || !interval_ns)
		return;
	if (ky_proc_reader_rss(reader, NULL, &rss) && rss) {
		source->next_ns = 0;
		source->is_last = true;
		(void)ky_resource_step(source, reader, interval_ns, now_ns);
		source->is_last = false;
	} else if (source->readings) {
		source->now_ns = now_ns;
		read_remains(source, reader);
		put_claim_index(source);
	}
}
