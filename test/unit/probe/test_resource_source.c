/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a process uses: of files with anything in them, of this process itself, and into an area. */
#include "../../lib/cmocka_all.h"
#include "../../lib/fake_proc.h"
#include "../../lib/prng.h"

#include <errno.h>
#include <fcntl.h>
#include <probe/resource_source.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND KY_RESOURCE_INTERVAL_NS
#define START (100 * SECOND)

static struct fake_proc fake;
static struct ky_proc_reader reader;
static struct ky_resource_source source;
static _Alignas(8) uint8_t area[KY_RESOURCE_AREA_BYTES];
static size_t room;

static bool put(void *ctx, uint64_t offset, const void *bytes, size_t count)
{
	(void)ctx;
	assert_int_equal(offset % 8, 0);
	assert_int_equal(count % 8, 0);
	assert_true(offset + count <= sizeof(area));
	if (offset + count > room)
		return false;
	memcpy(area + offset, bytes, count);
	return true;
}

static const struct ky_resource_head *head(void)
{
	return (const struct ky_resource_head *)(const void *)area;
}

static const struct ky_resource_row *row_at(uint64_t number)
{
	const struct ky_resource_entry *entry = (const void *)(area +
							       ky_resource_entry_offset(number));

	assert_int_equal(entry->serial, number + 1);
	return &entry->row;
}

/* The last row of its kind and scope. NULL: there is none. */
static const struct ky_resource_row *last(uint32_t kind, uint32_t scope)
{
	for (uint64_t at = head()->claim_index; at-- > 0;) {
		const struct ky_resource_row *row = row_at(at);

		if (row->kind == kind && row->scope == scope)
			return row;
	}
	return NULL;
}

#define VALUE(row, value) (assert_true(ky_resource_has(row, value)), (row)->values[value])

static int setup(void **state)
{
	(void)state;
	fake_proc_open(&fake, 4242);
	memset(area, 0, sizeof(area));
	memset(&source, 0, sizeof(source));
	room = sizeof(area);
	source.put = put;
	source.proc = fake.proc;
	source.cgroup = fake.cgroup;
	reader.dir = -1;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ky_proc_reader_close(&reader);
	fake_proc_close(&fake);
	return 0;
}

static void open_fake(void)
{
	ky_proc_reader_open(&reader, fake.proc, fake.cgroup, 4242, 0);
}

static uint64_t step(uint64_t at_ns)
{
	return ky_resource_step(&source, &reader, SECOND, at_ns);
}

static void write_thread(uint32_t tid, unsigned int voluntary, unsigned int involuntary)
{
	char path[64];

	snprintf(path, sizeof(path), "task/%u/status", tid);
	fake_proc_write(&fake, path,
			"Name:\tx\nvoluntary_ctxt_switches:\t%u\n"
			"nonvoluntary_ctxt_switches:\t%u\n",
			voluntary, involuntary);
}

static void write_process(void)
{
	fake_proc_write(
		&fake, "stat",
		"4242 (a) S 1 (b) S 1 1 1 0 -1 4194560 70 9 3 9 150 50 0 0 20 0 2 0 777 1\n");
	fake_proc_write(&fake, "statm", "1000 100 50 1 0 200 0\n");
	fake_proc_write(&fake, "status", "Name:\tx\nVmHWM:\t    2048 kB\n");
	fake_proc_write(&fake, "io", "rchar: 9\nread_bytes: 5120\nwrite_bytes: 1024\n");
	fake_proc_write(
		&fake, "limits",
		"Limit                     Soft Limit           Hard Limit           Units\n"
		"Max open files            1024                 4096                 files\n");
	fake_proc_write(&fake, "fd/0", "x");
	fake_proc_write(&fake, "fd/1", "x");
	fake_proc_write(&fake, "net/netstat",
			"TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 1 22 33\n"
			"IpExt: A\nIpExt: 1\n");
	fake_proc_write(&fake, "net/tcp", "  sl  local_address\n");
	write_thread(4242, 10, 1);
	write_thread(4243, 20, 2);
}

static void usage__equals_the_files(void **state)
{
	const struct ky_resource_row *row;
	uint64_t tick = 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);

	(void)state;
	write_process();
	open_fake();
	assert_int_equal(step(START), START + SECOND);
	row = last(KY_RESOURCE_USAGE, 0);
	assert_non_null(row);
	assert_int_equal(row->monotonic_ns, START);
	assert_int_equal(VALUE(row, KY_USAGE_USER_NS), 150 * tick);
	assert_int_equal(VALUE(row, KY_USAGE_SYSTEM_NS), 50 * tick);
	assert_int_equal(VALUE(row, KY_USAGE_MAX_RSS), 2048 * 1024);
	assert_int_equal(VALUE(row, KY_USAGE_MINOR_FAULTS), 70);
	assert_int_equal(VALUE(row, KY_USAGE_MAJOR_FAULTS), 3);
	assert_int_equal(VALUE(row, KY_USAGE_BLOCKS_IN), 10);
	assert_int_equal(VALUE(row, KY_USAGE_BLOCKS_OUT), 2);
	assert_int_equal(VALUE(row, KY_USAGE_VOLUNTARY), 30);
	assert_int_equal(VALUE(row, KY_USAGE_INVOLUNTARY), 3);
	assert_int_equal(VALUE(row, KY_USAGE_RSS), 100 * (uint64_t)sysconf(_SC_PAGESIZE));
	assert_int_equal(VALUE(row, KY_USAGE_THREADS), 2);
	assert_true(ky_resource_has(row, KY_USAGE_FDS));
	assert_int_equal(VALUE(row, KY_USAGE_FD_LIMIT), 1024);
	row = last(KY_RESOURCE_DROPS, 0);
	assert_int_equal(VALUE(row, 0), 22);
	assert_int_equal(VALUE(row, 1), 33);
	for (uint32_t part = 0; part <= KY_PART_FD_LIMIT; part++)
		assert_int_equal(head()->missing[part], 0);
	assert_int_equal(head()->interval_ns, SECOND);
}

static void switches__of_threads_that_end_stay_in_the_sum(void **state)
{
	(void)state;
	write_process();
	open_fake();
	step(START);
	fake_proc_remove(&fake, "task/4243/status");
	write_thread(4242, 15, 1);
	write_thread(4244, 100, 0); /* a new one */
	step(START + SECOND);
	assert_int_equal(VALUE(last(KY_RESOURCE_USAGE, 0), KY_USAGE_VOLUNTARY), 135);
	/* The same number is another thread's. */
	write_thread(4244, 7, 0);
	step(START + 2 * SECOND);
	assert_int_equal(VALUE(last(KY_RESOURCE_USAGE, 0), KY_USAGE_VOLUNTARY), 142);
}

/* A child that does nothing until it is asked to; then it runs, and does nothing again. */
static pid_t start_idle_child(int pipes[2][2])
{
	volatile uint32_t sum = 0;
	char byte = 'x';
	pid_t pid;

	assert_int_equal(pipe(pipes[0]) | pipe(pipes[1]), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid)
		return pid;
	close(pipes[0][1]);
	while (read(pipes[0][0], &byte, 1) == 1) {
		for (uint32_t i = 0; i < 1000000; i++)
			sum = sum + i;
		if (write(pipes[1][1], &byte, 1) != 1)
			break;
	}
	_exit(0);
}

/* Until it sleeps and its CPU clock stands: it is on its way there for some microseconds. */
static void wait_until_idle(void)
{
	uint64_t before = 0, ns = 1;
	char path[64], text[256];

	snprintf(path, sizeof(path), "/proc/%u/stat", reader.pid);
	while (ns != before) {
		before = ns;
		usleep(2000);
		assert_true(ky_proc_read_text(AT_FDCWD, path, text, sizeof(text)) > 0);
		if (!strstr(text, ") S "))
			before = 0;
		assert_true(ky_proc_reader_clock(&reader, &ns));
	}
}

static void run_child(int pipes[2][2])
{
	char byte = 'x';

	assert_int_equal(write(pipes[0][1], &byte, 1), 1);
	assert_int_equal(read(pipes[1][0], &byte, 1), 1);
}

static void end_child(int pipes[2][2])
{
	int status;

	for (int i = 0; i < 4; i++)
		close(pipes[i / 2][i % 2]);
	assert_int_equal(waitpid((pid_t)reader.pid, &status, 0), (pid_t)reader.pid);
}

static void usage__of_a_process_that_did_not_run_is_repeated(void **state)
{
	const struct ky_resource_row *row;
	int pipes[2][2];

	(void)state;
	write_process();
	open_fake();
	reader.pid = (uint32_t)start_idle_child(pipes);
	run_child(pipes);
	wait_until_idle();
	step(START);
	write_thread(4243, 21, 2);
	fake_proc_write(&fake, "statm", "1000 60 50 1 0 200 0\n");
	fake_proc_write(&fake, "net/netstat",
			"TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 1 23 33\n");
	step(START + SECOND);
	row = last(KY_RESOURCE_USAGE, 0);
	assert_int_equal(row->monotonic_ns, START + SECOND);
	assert_int_equal(VALUE(row, KY_USAGE_VOLUNTARY), 30);
	assert_int_equal(VALUE(row, KY_USAGE_FD_LIMIT), 1024);
	assert_int_equal(VALUE(row, KY_USAGE_RSS), 60 * (uint64_t)sysconf(_SC_PAGESIZE));
	assert_int_equal(last(KY_RESOURCE_DROPS, 0)->monotonic_ns, START);
	assert_int_equal(head()->missing[KY_PART_DROPS], 0);
	run_child(pipes);
	step(START + 2 * SECOND);
	row = last(KY_RESOURCE_USAGE, 0);
	assert_int_equal(VALUE(row, KY_USAGE_VOLUNTARY), 31);
	assert_int_equal(VALUE(last(KY_RESOURCE_DROPS, 0), 0), 23);
	end_child(pipes);
}

/* A connection may wait in them just because the process does not run. */
static void drops__are_read_while_a_connection_waits_in_a_queue(void **state)
{
	char path[128];
	int pipes[2][2];

	(void)state;
	write_process();
	snprintf(path, sizeof(path), "%s/%u/fd/5", fake.proc, fake.pid);
	assert_int_equal(symlink("socket:[777]", path), 0);
	fake_proc_write(&fake, "net/tcp",
			"  sl  local_address\n   0: 0100007F:1F90 00000000:0000 0A "
			"00000080:00000001 00:00000000 00000000     0        0 777 1 0 0\n");
	open_fake();
	reader.pid = (uint32_t)start_idle_child(pipes);
	run_child(pipes);
	wait_until_idle();
	for (uint64_t i = 0; i < 3; i++)
		step(START + i * SECOND);
	assert_int_equal(last(KY_RESOURCE_DROPS, 0)->monotonic_ns, START + 2 * SECOND);
	end_child(pipes);
}

static void missing__is_absent_and_has_a_reason(void **state)
{
	const struct ky_resource_row *row;

	(void)state;
	fake_proc_remove(&fake, "statm");
	fake_proc_write(&fake, "limits", "Max open files            unlimited            files\n");
	fake_proc_write(&fake, "io", "nothing\n");
	open_fake();
	step(START);
	row = last(KY_RESOURCE_USAGE, 0);
	assert_true(ky_resource_has(row, KY_USAGE_USER_NS));
	assert_false(ky_resource_has(row, KY_USAGE_RSS));
	assert_false(ky_resource_has(row, KY_USAGE_MAX_RSS));
	assert_false(ky_resource_has(row, KY_USAGE_BLOCKS_IN));
	assert_false(ky_resource_has(row, KY_USAGE_VOLUNTARY));
	assert_false(ky_resource_has(row, KY_USAGE_FD_LIMIT));
	assert_int_equal(head()->missing[KY_PART_CPU], 0);
	assert_int_equal(head()->missing[KY_PART_RSS], ENODATA);
	assert_int_equal(head()->missing[KY_PART_MAX_RSS], ENOENT);
	assert_int_equal(head()->missing[KY_PART_IO], ENODATA);
	assert_int_equal(head()->missing[KY_PART_SWITCHES], ENOENT);
	assert_int_equal(head()->missing[KY_PART_FDS], ENOENT);
	assert_int_equal(head()->missing[KY_PART_FD_LIMIT], 0); /* there is none */
	assert_int_equal(head()->missing[KY_PART_CGROUP_CPU], KY_WHY_NO_CONTROLLER);
	assert_int_equal(head()->missing[KY_PART_PRESSURE], ENOENT);
	assert_int_equal(head()->missing[KY_PART_DROPS], ENOENT);
	/* What comes back is not missing any more. */
	fake_proc_write(&fake, "statm", "1000 100 50 1 0 200 0\n");
	step(START + SECOND);
	assert_int_equal(head()->missing[KY_PART_RSS], 0);
}

static void process__of_another_namespace_is_not_read(void **state)
{
	(void)state;
	write_process();
	open_fake();
	reader.is_foreign = true;
	step(START);
	assert_null(last(KY_RESOURCE_USAGE, 0));
	assert_int_equal(head()->missing[KY_PART_CPU], KY_WHY_OTHER_NAMESPACE);
	ky_proc_reader_close(&reader);
	reader.is_foreign = false;
	step(START + SECOND); /* /proc is not there, or hides it */
	assert_null(last(KY_RESOURCE_USAGE, 0));
	assert_int_equal(head()->missing[KY_PART_LISTENERS], ENOENT);
}

static void switches__of_too_many_threads_are_not_read(void **state)
{
	(void)state;
	write_process();
	fake_proc_write(&fake, "stat",
			"4242 (a) S 1 1 1 0 -1 4194560 70 9 3 9 150 50 0 0 20 0 65 0 777 1\n");
	open_fake();
	step(START);
	assert_false(ky_resource_has(last(KY_RESOURCE_USAGE, 0), KY_USAGE_VOLUNTARY));
	assert_int_equal(VALUE(last(KY_RESOURCE_USAGE, 0), KY_USAGE_THREADS), 65);
	assert_int_equal(head()->missing[KY_PART_SWITCHES], KY_WHY_TOO_MANY);
}

/* ---- control groups ---- */

static void cgroup__of_version_2_has_limits_of_its_parents(void **state)
{
	const struct ky_resource_row *row;

	(void)state;
	fake_proc_write(&fake, "cgroup", "0::/a/b/c\n");
	fake_proc_write(&fake, "/a/b/c/cpu.stat",
			"usage_usec 5000\nuser_usec 1\nnr_periods 10\nnr_throttled 4\n"
			"throttled_usec 812\n");
	fake_proc_write(&fake, "/a/b/c/cpu.max", "50000 100000\n");
	fake_proc_write(&fake, "/a/b/c/memory.current", "4096\n");
	fake_proc_write(&fake, "/a/b/c/memory.max", "max\n");
	fake_proc_write(&fake, "/a/b/c/memory.high", "8192\n");
	fake_proc_write(&fake, "/a/b/c/memory.events",
			"low 0\nhigh 3\nmax 2\noom 1\noom_kill 1\noom_group_kill 0\n");
	fake_proc_write(&fake, "/a/b/c/cpu.pressure",
			"some avg10=1.00 avg60=0.00 avg300=0.00 total=77\n"
			"full avg10=0.00 avg60=0.00 avg300=0.00 total=5\n");
	/* b says nothing of note, a limits memory. */
	fake_proc_write(&fake, "/a/b/cpu.stat", "usage_usec 6000\n");
	fake_proc_write(&fake, "/a/b/cpu.max", "max 100000\n");
	fake_proc_write(&fake, "/a/cpu.stat", "usage_usec 7000\n");
	fake_proc_write(&fake, "/a/memory.current", "1000000\n");
	fake_proc_write(&fake, "/a/memory.max", "2000000\n");
	open_fake();
	step(START);
	row = last(KY_RESOURCE_CGROUP, 0);
	assert_int_equal(VALUE(row, KY_CGROUP_CPU_NS), 5000000);
	assert_int_equal(VALUE(row, KY_CGROUP_CPU_LIMIT_NS), 500000000);
	assert_int_equal(VALUE(row, KY_CGROUP_PERIODS), 10);
	assert_int_equal(VALUE(row, KY_CGROUP_THROTTLED_PERIODS), 4);
	assert_int_equal(VALUE(row, KY_CGROUP_THROTTLED_NS), 812000);
	assert_int_equal(VALUE(row, KY_CGROUP_MEMORY), 4096);
	assert_false(ky_resource_has(row, KY_CGROUP_MEMORY_LIMIT));
	assert_int_equal(VALUE(row, KY_CGROUP_MEMORY_HIGH), 8192);
	assert_int_equal(VALUE(row, KY_CGROUP_HIGH_EVENTS), 3);
	assert_int_equal(VALUE(row, KY_CGROUP_MAX_EVENTS), 2);
	assert_int_equal(VALUE(row, KY_CGROUP_OOM_KILLS), 1);
	assert_null(last(KY_RESOURCE_CGROUP, 1));
	row = last(KY_RESOURCE_CGROUP, 2);
	assert_int_equal(VALUE(row, KY_CGROUP_MEMORY_LIMIT), 2000000);
	row = last(KY_RESOURCE_PRESSURE, 1);
	assert_int_equal(VALUE(row, KY_PRESSURE_CPU_SOME), 77000);
	assert_int_equal(VALUE(row, KY_PRESSURE_CPU_FULL), 5000);
	assert_false(ky_resource_has(row, KY_PRESSURE_IO_SOME));
	assert_int_equal(head()->path_bytes, 6);
	assert_memory_equal(head()->path, "/a/b/c", 7);
}

/* In a container: the limits are those of its own group, which the mount shows as its root. */
static void cgroup__of_version_2_has_the_limits_of_the_root(void **state)
{
	const struct ky_resource_row *row;

	(void)state;
	fake_proc_write(&fake, "cgroup", "0::/init\n");
	fake_proc_write(&fake, "/init/cpu.stat", "usage_usec 5000\n");
	fake_proc_write(&fake, "/cpu.stat", "usage_usec 7000\nnr_throttled 3\n");
	open_fake();
	step(START);
	assert_int_equal(VALUE(last(KY_RESOURCE_CGROUP, 0), KY_CGROUP_CPU_NS), 5000000);
	assert_null(last(KY_RESOURCE_CGROUP, 1)); /* it does not limit */
	fake_proc_write(&fake, "/cpu.max", "50000 100000\n");
	fake_proc_write(&fake, "/memory.current", "4096\n");
	fake_proc_write(&fake, "/memory.max", "64000000\n");
	source.readings = 0; /* groups are searched */
	step(START + SECOND);
	assert_int_equal(VALUE(last(KY_RESOURCE_CGROUP, 0), KY_CGROUP_CPU_NS), 5000000);
	row = last(KY_RESOURCE_CGROUP, 1);
	assert_non_null(row);
	assert_int_equal(VALUE(row, KY_CGROUP_CPU_LIMIT_NS), 500000000);
	assert_int_equal(VALUE(row, KY_CGROUP_THROTTLED_PERIODS), 3);
	assert_int_equal(VALUE(row, KY_CGROUP_MEMORY_LIMIT), 64000000);
}

static void cgroup__of_version_1_in_a_container(void **state)
{
	const struct ky_resource_row *row;

	(void)state;
	/* The paths are the host's; the mount shows the container's own as its root. */
	fake_proc_write(&fake, "cgroup", "4:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n0::/\n");
	fake_proc_write(&fake, "/cpu,cpuacct/cpu.stat",
			"nr_periods 9\nnr_throttled 2\nthrottled_time 12345\n");
	fake_proc_write(&fake, "/cpu,cpuacct/cpu.cfs_quota_us", "150000\n");
	fake_proc_write(&fake, "/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
	fake_proc_write(&fake, "/cpu,cpuacct/cpuacct.usage", "999\n");
	fake_proc_write(&fake, "/memory/memory.usage_in_bytes", "500\n");
	fake_proc_write(&fake, "/memory/memory.limit_in_bytes", "9223372036854771712\n");
	fake_proc_write(&fake, "/memory/memory.failcnt", "6\n");
	fake_proc_write(&fake, "/memory/memory.oom_control", "oom_kill_disable 0\noom_kill 2\n");
	open_fake();
	step(START);
	row = last(KY_RESOURCE_CGROUP, 0);
	assert_non_null(row);
	assert_int_equal(VALUE(row, KY_CGROUP_CPU_NS), 999);
	assert_int_equal(VALUE(row, KY_CGROUP_CPU_LIMIT_NS), 1500000000);
	assert_int_equal(VALUE(row, KY_CGROUP_THROTTLED_NS), 12345);
	assert_int_equal(VALUE(row, KY_CGROUP_MEMORY), 500);
	assert_false(ky_resource_has(row, KY_CGROUP_MEMORY_LIMIT));
	assert_int_equal(VALUE(row, KY_CGROUP_MAX_EVENTS), 6);
	assert_int_equal(VALUE(row, KY_CGROUP_OOM_KILLS), 2);
	assert_int_equal(head()->missing[KY_PART_CGROUP_PRESSURE], KY_WHY_NO_CONTROLLER);
	fake_proc_write(&fake, "/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
	step(START + SECOND);
	assert_false(ky_resource_has(last(KY_RESOURCE_CGROUP, 0), KY_CGROUP_CPU_LIMIT_NS));
}

static void pressure__of_the_machine(void **state)
{
	char path[120];
	FILE *file;

	(void)state;
	snprintf(path, sizeof(path), "%s/pressure", fake.proc);
	fake_proc_write(&fake, "../pressure/io",
			"some avg10=0.00 avg60=0.00 avg300=0.00 total=9\nfull avg10=0.00\n");
	snprintf(path, sizeof(path), "%s/pressure/io", fake.proc);
	file = fopen(path, "r");
	assert_non_null(file);
	fclose(file);
	step(START); /* without any process */
	assert_int_equal(VALUE(last(KY_RESOURCE_PRESSURE, 0), KY_PRESSURE_IO_SOME), 9000);
	assert_false(ky_resource_has(last(KY_RESOURCE_PRESSURE, 0), KY_PRESSURE_IO_FULL));
	assert_int_equal(head()->missing[KY_PART_PRESSURE], 0);
}

/* Of ten pages of the ring three are in the process's tables. */
static void memory__is_without_the_pages_of_the_ring(void **state)
{
	const uint64_t entries[] = {UINT64_C(1) << 63, 0, UINT64_C(1) << 63 | 5, UINT64_C(1) << 62,
				    UINT64_C(1) << 63};
	const struct ky_resource_row *row;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	char path[160];
	FILE *file;

	(void)state;
	write_process();
	fake_proc_write(&fake, "pagemap", "x");
	snprintf(path, sizeof(path), "%s/4242/pagemap", fake.proc);
	file = fopen(path, "r+");
	assert_non_null(file);
	assert_int_equal(fseek(file, 1000 * (long)sizeof(*entries), SEEK_SET), 0);
	assert_int_equal(fwrite(entries, sizeof(*entries), 5, file), 5);
	fclose(file);
	source.ring_address = 1000 * page;
	source.ring_bytes = 10 * page;
	open_fake();
	step(START);
	row = last(KY_RESOURCE_USAGE, 0);
	assert_int_equal(VALUE(row, KY_USAGE_RSS), 97 * page);
	assert_int_equal(VALUE(row, KY_USAGE_MAX_RSS), 2048 * 1024 - 3 * page);
	/* No less than what it has now; and all of it where nothing says which pages. */
	fake_proc_write(&fake, "status", "Name:\tx\nVmHWM:\t    300 kB\n");
	step(START + SECOND);
	row = last(KY_RESOURCE_USAGE, 0);
	assert_int_equal(VALUE(row, KY_USAGE_MAX_RSS), 97 * page);
	fake_proc_remove(&fake, "pagemap");
	step(START + 2 * SECOND);
	assert_int_equal(VALUE(last(KY_RESOURCE_USAGE, 0), KY_USAGE_RSS), 100 * page);
}

/* A row for each thread that ran or waited since its last one; of all at the end. */
static void threads__have_rows_where_they_ran(void **state)
{
	const struct ky_resource_row *row;

	(void)state;
	write_process();
	fake_proc_write(&fake, "task/4242/schedstat", "9000000 1000000 7\n");
	fake_proc_write(&fake, "task/4242/comm", "pool-hog\n");
	open_fake();
	step(START);
	row = last(KY_RESOURCE_THREAD, 0);
	assert_non_null(row);
	assert_int_equal(VALUE(row, KY_THREAD_TID), 4242);
	assert_int_equal(VALUE(row, KY_THREAD_CPU_NS), 9000000);
	assert_int_equal(VALUE(row, KY_THREAD_DELAY_NS), 1000000);
	assert_int_equal(VALUE(row, KY_THREAD_VOLUNTARY), 10);
	assert_string_equal((const char *)&row->values[KY_THREAD_NAME], "pool-hog");
	fake_proc_write(&fake, "task/4242/schedstat", "9900000 1000000 7\n");
	step(START + SECOND);
	assert_int_equal(last(KY_RESOURCE_THREAD, 0)->monotonic_ns, START);
	fake_proc_write(&fake, "task/4242/schedstat", "9900000 1100000 7\n");
	step(START + 2 * SECOND);
	assert_int_equal(last(KY_RESOURCE_THREAD, 0)->monotonic_ns, START + 2 * SECOND);
	ky_resource_last(&source, &reader, SECOND, START + 2 * SECOND + 5);
	assert_int_equal(last(KY_RESOURCE_THREAD, 0)->monotonic_ns, START + 2 * SECOND + 5);
}

static void limit__is_what_it_is_now(void **state)
{
	(void)state;
	write_process();
	open_fake();
	step(START);
	assert_int_equal(VALUE(last(KY_RESOURCE_USAGE, 0), KY_USAGE_FD_LIMIT), 1024);
	fake_proc_write(&fake, "limits", "Max open files            500  4096  files\n");
	step(START + SECOND);
	assert_int_equal(VALUE(last(KY_RESOURCE_USAGE, 0), KY_USAGE_FD_LIMIT), 500);
}

/* ---- the end ---- */

static void last__is_a_reading_before_it_is_due(void **state)
{
	(void)state;
	write_process();
	open_fake();
	step(START);
	fake_proc_write(&fake, "statm", "1000 110 50 1 0 200 0\n");
	ky_resource_last(&source, &reader, SECOND, START + SECOND / 3);
	assert_int_equal(source.readings, 2);
	assert_int_equal(last(KY_RESOURCE_USAGE, 0)->monotonic_ns, START + SECOND / 3);
	ky_resource_last(&source, &reader, 0, START + SECOND / 2);
	assert_int_equal(source.readings, 2);
}

/* Its memory goes first: a reading that meets it then would say 0 bytes, and 0 descriptors. */
static void reading__of_a_process_that_is_ending_is_none(void **state)
{
	uint64_t rss;

	(void)state;
	write_process();
	open_fake();
	step(START);
	rss = VALUE(last(KY_RESOURCE_USAGE, 0), KY_USAGE_RSS);
	fake_proc_write(&fake, "statm", "0 0 0 0 0 0 0\n");
	fake_proc_write(&fake, "status", "Name:\ta\nState:\tR (running)\n");
	step(START + SECOND);
	assert_int_equal(source.readings, 2);
	assert_int_equal(last(KY_RESOURCE_USAGE, 0)->monotonic_ns, START);
	assert_int_equal(VALUE(last(KY_RESOURCE_USAGE, 0), KY_USAGE_RSS), rss);
	assert_int_equal(head()->missing[KY_PART_MAX_RSS], 0);
}

/* What the kernel keeps until the process is waited for: no memory, no status, no descriptors. */
static void last__of_a_process_that_ended_has_its_counters(void **state)
{
	const struct ky_resource_row *row;
	uint64_t tick = 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);

	(void)state;
	write_process();
	fake_proc_write(&fake, "cgroup", "0::/init\n");
	fake_proc_write(&fake, "/init/cpu.stat", "usage_usec 5000\n");
	open_fake();
	step(START);
	fake_proc_write(&fake, "statm", "0 0 0 0 0 0 0\n");
	fake_proc_write(
		&fake, "stat",
		"4242 (a) Z 1 (b) S 1 1 1 0 -1 4194560 75 9 4 9 190 60 0 0 20 0 2 0 777 1\n");
	fake_proc_write(&fake, "/init/cpu.stat", "usage_usec 9000\n");
	fake_proc_remove(&fake, "status");
	fake_proc_remove(&fake, "limits");
	ky_resource_last(&source, &reader, SECOND, START + 7);
	row = last(KY_RESOURCE_USAGE, 0);
	assert_int_equal(row->monotonic_ns, START + 7);
	assert_int_equal(VALUE(row, KY_USAGE_SYSTEM_NS) + VALUE(row, KY_USAGE_USER_NS), 250 * tick);
	assert_false(ky_resource_has(row, KY_USAGE_RSS));
	assert_false(ky_resource_has(row, KY_USAGE_FDS));
	assert_int_equal(VALUE(last(KY_RESOURCE_CGROUP, 0), KY_CGROUP_CPU_NS), 9000000);
	assert_int_equal(head()->missing[KY_PART_MAX_RSS], 0);
}

/* ---- when ---- */

static void reading__is_taken_once_an_interval(void **state)
{
	(void)state;
	write_process();
	open_fake();
	assert_int_equal(step(START), START + SECOND);
	assert_int_equal(step(START + SECOND / 2), START + SECOND);
	assert_int_equal(source.readings, 1);
	assert_int_equal(step(START + SECOND + 5), START + 2 * SECOND);
	/* Very late: not made up for. */
	assert_int_equal(step(START + 9 * SECOND), START + 10 * SECOND);
	assert_int_equal(source.readings, 3);
	/* A shorter interval counts at once, none ends it, and that is written once. */
	(void)ky_resource_step(&source, &reader, 60 * SECOND, START + 10 * SECOND);
	assert_int_equal(source.readings, 4);
	assert_int_equal(step(START + 12 * SECOND), START + 13 * SECOND);
	assert_int_equal(source.readings, 5);
	assert_true(ky_resource_step(&source, &reader, 0, START + 12 * SECOND) == UINT64_MAX);
	assert_int_equal(head()->interval_ns, 0);
	assert_false(ky_resource_is_due(&source, 0, START + 20 * SECOND));
	assert_int_equal(source.readings, 5);
	assert_int_equal(step(START + 30 * SECOND), START + 31 * SECOND);
	assert_int_equal(head()->interval_ns, SECOND);
}

static void area__wraps_and_ends_where_there_is_no_room(void **state)
{
	uint64_t claim_index;

	(void)state;
	write_process();
	open_fake();
	ky_resource_begin(&source, KY_RESOURCE_ENTRIES - 1);
	step(START);
	claim_index = head()->claim_index;
	assert_true(claim_index > KY_RESOURCE_ENTRIES);
	assert_int_equal(row_at(claim_index - 1)->monotonic_ns, START);
	assert_int_equal(ky_resource_entry_offset(KY_RESOURCE_ENTRIES), KY_RESOURCE_ENTRIES_OFFSET);
	/* A full file system: no reading again. */
	room = 0;
	assert_true(step(START + SECOND) == UINT64_MAX);
	assert_int_equal(head()->claim_index, claim_index);
	room = sizeof(area);
	assert_true(step(START + 2 * SECOND) == UINT64_MAX);
	assert_int_equal(source.readings, 2);
}

/* ---- ourselves ---- */

static void own__values_are_those_of_getrusage(void **state)
{
	const struct ky_resource_row *row;
	struct rusage before, after;
	int more[50];

	(void)state;
	source.is_own = true;
	source.proc = source.cgroup = NULL;
	ky_proc_reader_open(&reader, NULL, NULL, 0, 0);
	getrusage(RUSAGE_SELF, &before);
	step(START);
	getrusage(RUSAGE_SELF, &after);
	row = last(KY_RESOURCE_USAGE, 0);
	assert_in_range(VALUE(row, KY_USAGE_VOLUNTARY), before.ru_nvcsw, after.ru_nvcsw);
	assert_in_range(VALUE(row, KY_USAGE_MINOR_FAULTS), before.ru_minflt, after.ru_minflt);
	assert_in_range(VALUE(row, KY_USAGE_MAX_RSS), before.ru_maxrss * 1024,
			after.ru_maxrss * 1024);
	for (int i = 0; i < 50; i++)
		more[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	step(START + SECOND);
	assert_int_equal(VALUE(last(KY_RESOURCE_USAGE, 0), KY_USAGE_FDS),
			 VALUE(row, KY_USAGE_FDS) + 50);
	for (int i = 0; i < 50; i++)
		close(more[i]);
}

static void files__of_any_content_do_no_harm(void **state)
{
	static const char *const files[] = {
		"stat",
		"statm",
		"status",
		"io",
		"limits",
		"cgroup",
		"net/tcp",
		"net/netstat",
		"task/4242/status",
		"/a/cpu.stat",
		"/a/cpu.max",
		"/a/memory.current",
		"/a/memory.events",
		"/a/cpu.pressure",
	};
	struct test_prng prng = {77};
	char text[600];

	(void)state;
	write_process();
	fake_proc_write(&fake, "cgroup", "0::/a\n");
	open_fake();
	for (uint32_t round = 0; round < 300; round++) {
		const char *file = files[test_below(&prng, sizeof(files) / sizeof(*files))];
		size_t count = test_below(&prng, sizeof(text));

		for (size_t i = 0; i < count; i++)
			text[i] = "0123456789 :\n\t-TcpExtmaxsomefulltotal=/abc"[test_below(&prng,
											    41)];
		text[count] = 0;
		fake_proc_write(&fake, file, "%s", text);
		source.readings = 0; /* groups are searched */
		step(START + round * SECOND);
	}
	assert_false(source.is_broken);
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(usage__equals_the_files),
		CASE(switches__of_threads_that_end_stay_in_the_sum),
		CASE(usage__of_a_process_that_did_not_run_is_repeated),
		CASE(drops__are_read_while_a_connection_waits_in_a_queue),
		CASE(missing__is_absent_and_has_a_reason),
		CASE(process__of_another_namespace_is_not_read),
		CASE(switches__of_too_many_threads_are_not_read),
		CASE(cgroup__of_version_2_has_limits_of_its_parents),
		CASE(cgroup__of_version_2_has_the_limits_of_the_root),
		CASE(cgroup__of_version_1_in_a_container),
		CASE(pressure__of_the_machine),
		CASE(memory__is_without_the_pages_of_the_ring),
		CASE(threads__have_rows_where_they_ran),
		CASE(limit__is_what_it_is_now),
		CASE(last__is_a_reading_before_it_is_due),
		CASE(reading__of_a_process_that_is_ending_is_none),
		CASE(last__of_a_process_that_ended_has_its_counters),
		CASE(reading__is_taken_once_an_interval),
		CASE(area__wraps_and_ends_where_there_is_no_room),
		CASE(own__values_are_those_of_getrusage),
		CASE(files__of_any_content_do_no_harm),
	};

	return cmocka_run_group_tests_name("resource_source", tests, NULL, NULL);
}
