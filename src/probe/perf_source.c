/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <probe/perf_source.h>

#include <base/alloc.h>
#include <base/now.h>
#include <dirent.h>
#include <errno.h>
#include <probe/perf_event.h>
#include <probe/perf_record.h>
#include <probe/perf_ring.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RING_BYTES_MAX (1u << 20)
#define RING_BYTES_MIN (1u << 16)
#define STACK_BYTES_MAX (KY_PERF_RECORD_WORDS * 8 - 8192)
#define SWITCH_RING_BYTES_MIN (1u << 14)
#define THREADS_MAX 4096u
#define WAKE_PART 4u  /* of a ring */
#define TEST_TRIES 3u /* of switches: each with sleeps eight times as long */
/* Of the test of switches: sleeps in a round, and rounds with and without records. */
#define TEST_SLEEPS 8u
#define TEST_ROUNDS 3u
#define TEST_SLEEP_NS 20000 /* a timer of less may be over before the thread has left */
/* What a record can cost at all, should the measurement have been disturbed. */
#define SWITCH_COST_NS_MIN UINT64_C(500)
#define SWITCH_COST_NS_MAX UINT64_C(4000)
#define TEST_PERIOD_NS UINT64_C(100000)
#define TEST_CPU_NS UINT64_C(10000000)
#define SECOND_NS UINT64_C(1000000000)

struct ky_perf {
	struct ky_perf_options options;
	struct perf_event_attr attr;
	struct ky_perf_ring *rings;
	uint32_t cpu_count;
	size_t ring_bytes;
	int *more; /* events of threads that were reported later */
	uint32_t more_count;
	uint64_t sample_count;
	uint64_t lost_count;                   /* as the rings reported */
	uint64_t lost_asked;                   /* as ky_perf_count_lost() found it */
	uint64_t record[KY_PERF_RECORD_WORDS]; /* one that went round a ring's end */
};

/* PERF_FORMAT_LOST of kernel 6.0; headers may be older. */
#define FORMAT_LOST (UINT64_C(1) << 4)

static uint64_t period_of(uint32_t rate_hz)
{
	return rate_hz ? SECOND_NS / rate_hz : SECOND_NS;
}

/* One event says both: page faults by counting them, switches beside it. The words that are asked
 * for stand at the same places in records of both kinds. */
static void fill_switches(struct perf_event_attr *attr)
{
	attr->sample_period = 1;
	attr->sample_type = KY_PERF_SWITCH_TYPE;
	attr->sample_id_all = 1;
	attr->context_switch = 1;
}

static void fill_samples(struct perf_event_attr *attr, const struct ky_perf_options *options)
{
	attr->config = PERF_COUNT_SW_TASK_CLOCK;
	/* A period, not a frequency: what each sample stands for is then known, and the kernel's
	 * limit on frequencies does not apply. */
	attr->sample_period = period_of(options->rate_hz);
	attr->sample_type = KY_PERF_SAMPLE_TYPE;
	attr->sample_regs_user = ky_perf_record_registers();
	attr->sample_stack_user = options->stack_bytes;
	attr->exclude_callchain_user = 1;
	attr->exclude_callchain_kernel = !options->has_kernel;
	if (options->is_faults) {
		attr->sample_period = 1;
		attr->exclude_callchain_kernel = 1;
	}
}

/* The one that opens it starts it when needed. */
static bool is_opened_paused(const struct ky_perf_options *options)
{
	return options->is_switches || options->is_faults;
}

static void fill_attr(struct perf_event_attr *attr, const struct ky_perf_options *options)
{
	memset(attr, 0, sizeof(*attr));
	attr->size = sizeof(*attr);
	attr->type = PERF_TYPE_SOFTWARE;
	if (options->is_switches)
		fill_switches(attr);
	else
		fill_samples(attr, options);
	if (is_opened_paused(options))
		attr->config = options->is_minor ? PERF_COUNT_SW_PAGE_FAULTS_MIN :
						   PERF_COUNT_SW_PAGE_FAULTS_MAJ;
	attr->exclude_kernel = !options->has_kernel;
	attr->exclude_hv = 1;
	attr->disabled = 1;
	attr->inherit = 1;
#if defined(PERF_ATTR_SIZE_VER7)
	attr->inherit_thread = options->is_of_threads;
#endif
	attr->enable_on_exec = options->is_at_exec;
	attr->use_clockid = 1;
	attr->clockid = CLOCK_MONOTONIC;
	attr->read_format = FORMAT_LOST;
}

/* ---- reading ---- */

static uint32_t read_ring(struct ky_perf *perf, struct ky_perf_ring *ring, ky_perf_sample_fn fn,
			  void *ctx)
{
	const struct perf_event_header *record;
	struct ky_perf_sample sample;
	uint32_t count = 0;

	while ((record = ky_perf_ring_begin(ring, perf->record, &perf->lost_count)) != NULL) {
		if (record->type == PERF_RECORD_SAMPLE) {
			ky_perf_record_sample(record, &sample);
			count++;
			perf->sample_count++;
			fn(ctx, &sample);
		}
		ky_perf_ring_end(ring, record);
	}
	return count;
}

uint32_t ky_perf_read(struct ky_perf *perf, ky_perf_sample_fn fn, void *ctx)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < perf->cpu_count; i++) {
		if (perf->rings[i].page)
			count += read_ring(perf, &perf->rings[i], fn, ctx);
	}
	return count;
}

static uint32_t read_switch_ring(struct ky_perf *perf, struct ky_perf_ring *ring,
				 ky_perf_switch_fn fn, void *ctx)
{
	const struct perf_event_header *record;
	struct ky_perf_switch what;
	uint32_t count = 0;

	while ((record = ky_perf_ring_begin(ring, perf->record, &perf->lost_count)) != NULL) {
		if (ky_perf_record_switch(record, &what)) {
			count++;
			fn(ctx, &what);
		}
		ky_perf_ring_end(ring, record);
	}
	return count;
}

uint32_t ky_perf_read_switches(struct ky_perf *perf, ky_perf_switch_fn fn, void *ctx)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < perf->cpu_count; i++)
		if (perf->rings[i].page)
			count += read_switch_ring(perf, &perf->rings[i], fn, ctx);
	perf->sample_count += count;
	return count;
}

/* ---- opening ---- */

/* One ring a CPU, all of this size. A CPU that is off has none. */
static int open_rings(struct ky_perf *perf, pid_t pid, size_t ring_bytes)
{
	struct perf_event_attr attr = perf->attr;
	int err = 0, opened = 0;

	/* Who waits for samples hears of them before they are many. */
	attr.watermark = 1;
	attr.wakeup_watermark = (uint32_t)(ring_bytes / WAKE_PART);

	if (perf->options.is_held) {
		pid = (pid_t)syscall(SYS_gettid);
		attr.inherit = 0;
#if defined(PERF_ATTR_SIZE_VER7)
		attr.inherit_thread = 0;
#endif
	}

	perf->ring_bytes = ring_bytes;
	for (uint32_t i = 0; i < perf->cpu_count && !err; i++) {
		struct ky_perf_ring *ring = &perf->rings[i];

		ring->fd = ky_perf_event_open(&attr, pid, (int)i);
		if (ring->fd == -ENODEV) {
			ring->fd = -1;
			continue;
		}
		if (ring->fd < 0)
			err = ring->fd;
		else
			err = ky_perf_ring_map(ring, ring_bytes);
		opened += !err;
	}
	if (!err && !opened)
		err = -ENODEV;
	for (uint32_t i = 0; i < perf->cpu_count && err; i++)
		ky_perf_ring_close(&perf->rings[i]);
	return err;
}

static int make(struct ky_perf **out, const struct ky_perf_options *options)
{
	uint32_t cpus = ky_perf_event_cpus();
	struct ky_perf *perf;

	*out = NULL;
#if !defined(PERF_ATTR_SIZE_VER7)
	if (options->is_of_threads)
		return -EOPNOTSUPP;
#endif
	if (!cpus || options->stack_bytes % 8 || options->stack_bytes > STACK_BYTES_MAX)
		return -EINVAL;
	/* Zeros but for the record, whose pages are hardly ever needed. */
	perf = ky_realloc(NULL, sizeof(*perf));
	if (!perf)
		return -ENOMEM;
	memset(perf, 0, offsetof(struct ky_perf, record));
	perf->options = *options;
	perf->rings = ky_alloc(cpus * sizeof(*perf->rings));
	if (!perf->rings) {
		ky_free(perf);
		return -ENOMEM;
	}
	perf->cpu_count = cpus;
	for (uint32_t i = 0; i < perf->cpu_count; i++)
		perf->rings[i].fd = -1;
	fill_attr(&perf->attr, options);
	*out = perf;
	return 0;
}

int ky_perf_pause(struct ky_perf *perf, bool is_paused)
{
	int err = 0, failed;

	for (uint32_t i = 0; i < perf->cpu_count && !perf->options.is_held; i++) {
		failed = perf->rings[i].fd < 0 ? 0 :
						 ky_perf_event_pause(perf->rings[i].fd, is_paused);
		err = failed ? failed : err;
	}
	for (uint32_t i = 0; i < perf->more_count; i++) {
		failed = ky_perf_event_pause(perf->more[i], is_paused);
		err = failed ? failed : err;
	}
	return err;
}

int ky_perf_open(struct ky_perf **out, const struct ky_perf_options *options, pid_t pid)
{
	size_t most = options->is_switches ? KY_PERF_SWITCH_RING_BYTES : RING_BYTES_MAX;
	size_t least = options->is_switches ? SWITCH_RING_BYTES_MIN : RING_BYTES_MIN;
	struct ky_perf *perf;
	int err = make(&perf, options);

	*out = NULL;
	if (err)
		return err;
	if (options->ring_bytes_max && options->ring_bytes_max < most)
		most = options->ring_bytes_max;
	/* EPERM of mmap(): more than the unprivileged may lock. */
	for (size_t bytes = most; bytes >= least; bytes /= 2) {
		if (bytes < 2 * (size_t)options->stack_bytes)
			break;
		err = open_rings(perf, pid, bytes);
		if (err != -EPERM && err != -ENOMEM)
			break;
	}
	if (!err && !options->is_at_exec && !is_opened_paused(options))
		err = ky_perf_pause(perf, false);
	if (err) {
		ky_perf_close(perf);
		return err;
	}
	*out = perf;
	return 0;
}

int ky_perf_add(struct ky_perf *perf, pid_t tid)
{
	struct perf_event_attr attr = perf->attr;
	int *more = ky_realloc(perf->more,
			       (perf->more_count + perf->cpu_count) * sizeof(*perf->more));

	if (!more)
		return -ENOMEM;
	perf->more = more;
	attr.enable_on_exec = 0;
	attr.disabled = is_opened_paused(&perf->options);
	for (uint32_t i = 0; i < perf->cpu_count; i++) {
		int fd, err;

		if (perf->rings[i].fd < 0)
			continue;
		fd = ky_perf_event_open(&attr, tid, (int)i);
		if (fd < 0)
			return fd;
		perf->more[perf->more_count++] = fd;
		/* Into that CPU's ring. */
		err = ky_perf_event_set_output(fd, perf->rings[i].fd);
		if (err)
			return err;
	}
	return 0;
}

int ky_perf_add_all(struct ky_perf **perf, const struct ky_perf_options *options, pid_t pid)
{
	uint32_t without_tid = *perf ? (*perf)->options.without_tid : options->without_tid;
	static uint32_t tids[THREADS_MAX];
	uint32_t count = 0;
	char path[48];
	struct dirent *entry;
	DIR *tasks;
	int err = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	while (tasks && (entry = readdir(tasks)) != NULL && count < THREADS_MAX) {
		tids[count] = (uint32_t)strtoul(entry->d_name, NULL, 10);
		count += tids[count] && tids[count] != without_tid;
	}
	if (tasks)
		closedir(tasks);
	if (*perf)
		options = &(*perf)->options;
	if (options->fds_max && (uint64_t)count * ky_perf_event_cpus() > options->fds_max)
		return -EMFILE;
	for (uint32_t i = 0; i < count && !err; i++) {
		if (*perf)
			err = ky_perf_add(*perf, (pid_t)tids[i]);
		else
			err = ky_perf_open(perf, options, (pid_t)tids[i]);
		if (err == -ESRCH) /* it ended meanwhile */
			err = 0;
	}
	return err;
}

bool ky_perf_leave(struct ky_perf *perf, uint32_t most)
{
	if (!perf->options.is_held || perf->more_count > most)
		return false;
	for (uint32_t i = 0; i < perf->more_count; i++)
		ky_perf_event_close(perf->more[i]);
	perf->more_count = 0;
	return true;
}

uint32_t ky_perf_fds(const struct ky_perf *perf, int *out, uint32_t max)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < perf->cpu_count && count < max; i++)
		if (perf->rings[i].fd >= 0)
			out[count++] = perf->rings[i].fd;
	for (uint32_t i = 0; i < perf->more_count && count < max; i++)
		out[count++] = perf->more[i];
	return count;
}

static uint64_t lost_of(int fd)
{
	uint64_t words[2]; /* count, lost */

	return fd >= 0 && ky_perf_event_read(fd, words, 2) ? words[1] : 0;
}

void ky_perf_count_lost(struct ky_perf *perf)
{
	uint64_t count = 0;

	if (!perf->attr.read_format)
		return;
	for (uint32_t i = 0; i < perf->cpu_count; i++)
		count += lost_of(perf->rings[i].fd);
	for (uint32_t i = 0; i < perf->more_count; i++)
		count += lost_of(perf->more[i]);
	perf->lost_asked = count;
}

void ky_perf_about(const struct ky_perf *perf, struct ky_perf_about *out)
{
	memset(out, 0, sizeof(*out));
	for (uint32_t i = 0; i < perf->cpu_count; i++)
		out->cpu_count += perf->rings[i].page != NULL;
	out->ring_bytes = perf->ring_bytes;
	out->record_bytes = perf->options.is_switches ? KY_PERF_SWITCH_BYTES :
							perf->options.stack_bytes + 256;
	out->sample_count = perf->sample_count;
	out->lost_count = perf->lost_asked > perf->lost_count ? perf->lost_asked : perf->lost_count;
}

void ky_perf_close(struct ky_perf *perf)
{
	if (!perf)
		return;
	for (uint32_t i = 0; i < perf->cpu_count; i++)
		ky_perf_ring_close(&perf->rings[i]);
	for (uint32_t i = 0; i < perf->more_count; i++)
		ky_perf_event_close(perf->more[i]);
	ky_free(perf->more);
	ky_free(perf->rings);
	ky_free(perf);
}

/* ---- the test ---- */

struct perf_verdict {
	uint32_t tid;
	uint32_t good_count;
};

static void on_test_sample(void *ctx, const struct ky_perf_sample *sample)
{
	struct perf_verdict *verdict = ctx;

	if (sample->tid == verdict->tid && sample->ns && sample->has_registers && sample->pc &&
	    sample->stack_bytes)
		verdict->good_count++;
}

/* Of this thread alone: one ring, wherever it runs. Returns 0, -errno; *out is to be closed. */
static int open_own(struct ky_perf **out, const struct ky_perf_options *options, size_t ring_bytes)
{
	struct ky_perf *perf;
	int err = make(out, options);

	if (err)
		return err;
	perf = *out;
	if (!options->is_switches)
		perf->attr.sample_period = TEST_PERIOD_NS;
	perf->attr.enable_on_exec = 0;
	perf->attr.inherit = 0;
#if defined(PERF_ATTR_SIZE_VER7)
	perf->attr.inherit_thread = 0;
#endif
	perf->cpu_count = 1;
	perf->ring_bytes = ring_bytes;
	perf->rings[0].fd = ky_perf_event_open(&perf->attr, 0, -1);
	err = perf->rings[0].fd < 0 ? perf->rings[0].fd : 0;
	return err ? err : ky_perf_ring_map(&perf->rings[0], ring_bytes);
}

/* Whether a sample came while this thread used up some time of the CPU. */
static bool yields(struct ky_perf *perf)
{
	struct perf_verdict verdict = {.tid = (uint32_t)syscall(SYS_gettid)};
	uint64_t start_ns = ky_now_ns(CLOCK_THREAD_CPUTIME_ID);

	do {
		(void)ky_perf_read(perf, on_test_sample, &verdict);
	} while (!verdict.good_count &&
		 ky_now_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns <= TEST_CPU_NS);
	return verdict.good_count > 0;
}

static int test_once(const struct ky_perf_options *options)
{
	bool is_yielding = false;
	struct ky_perf *perf;
	int err = open_own(&perf, options, RING_BYTES_MIN * 2);

	if (!err)
		err = ky_perf_pause(perf, false);
	/* What a hypervisor takes may be booked as time of ours in which no timer could fire. */
	for (uint32_t i = 0; i < TEST_TRIES && !err && !is_yielding; i++)
		is_yielding = yields(perf);
	ky_perf_close(perf);
	return err || is_yielding ? err : -ENODATA;
}

int ky_perf_test(struct ky_perf_options *options)
{
	int err = test_once(options);

	if (err != -EACCES || !options->has_kernel)
		return err;
	options->has_kernel = false;
	return test_once(options);
}

static void on_test_switch(void *ctx, const struct ky_perf_switch *what)
{
	uint32_t *counts = ctx;

	if (what->ns)
		counts[what->kind]++;
}

static uint64_t time_sleeps(uint64_t sleep_ns)
{
	uint64_t start_ns = ky_now_ns(CLOCK_THREAD_CPUTIME_ID);

	for (uint32_t i = 0; i < TEST_SLEEPS; i++)
		ky_sleep_ns(sleep_ns);
	return (ky_now_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns) / TEST_SLEEPS;
}

uint64_t ky_perf_time_sleeps(void)
{
	return time_sleeps(TEST_SLEEP_NS);
}

static int time_switches(struct ky_perf *perf, uint64_t sleep_ns, uint64_t *cost_ns)
{
	uint64_t with_ns = UINT64_MAX, without_ns = UINT64_MAX, ns;
	uint32_t counts[KY_SWITCH_FAULT + 1] = {0};
	int err = 0;

	for (uint32_t i = 0; i < TEST_ROUNDS && !err; i++) {
		ns = time_sleeps(sleep_ns);
		without_ns = ns < without_ns ? ns : without_ns;
		err = ky_perf_pause(perf, false);
		ns = time_sleeps(sleep_ns);
		with_ns = ns < with_ns ? ns : with_ns;
		if (!err)
			err = ky_perf_pause(perf, true);
		(void)ky_perf_read_switches(perf, on_test_switch, counts);
	}
	ns = with_ns > without_ns ? with_ns - without_ns : 0;
	ns = ns < SWITCH_COST_NS_MIN ? SWITCH_COST_NS_MIN : ns;
	*cost_ns = ns > SWITCH_COST_NS_MAX ? SWITCH_COST_NS_MAX : ns;
	if (!err && (!counts[KY_SWITCH_IN] || !counts[KY_SWITCH_OUT]))
		err = -ENODATA;
	return err;
}

static int test_switches_once(const struct ky_perf_options *options, uint64_t *cost_ns)
{
	int slack = prctl(PR_GET_TIMERSLACK), err;
	uint64_t sleep_ns = TEST_SLEEP_NS;
	struct ky_perf *perf;

	err = open_own(&perf, options, SWITCH_RING_BYTES_MIN);
	/* Sleeps of some microseconds, or the test takes longer than it should. */
	if (!err && slack > 0)
		(void)prctl(PR_SET_TIMERSLACK, 1);
	if (!err)
		err = time_switches(perf, sleep_ns, cost_ns);
	/* A machine that is held up may let each timer end before the thread has left. */
	for (uint32_t i = 1; i < TEST_TRIES && err == -ENODATA; i++)
		err = time_switches(perf, sleep_ns *= 8, cost_ns);
	if (slack > 0)
		(void)prctl(PR_SET_TIMERSLACK, slack);
	ky_perf_close(perf);
	return err;
}

int ky_perf_test_switches(struct ky_perf_options *options, uint64_t *cost_ns)
{
	int err = test_switches_once(options, cost_ns);

	if (err != -EACCES || !options->has_kernel)
		return err;
	options->has_kernel = false;
	return test_switches_once(options, cost_ns);
}
