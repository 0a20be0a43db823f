/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <record/sample/perf_source.h>

#include <base/alloc.h>
#include <base/now.h>
#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096u
#define CPUS_MAX 1024u
#define RING_BYTES_MAX (1u << 20)
#define RING_BYTES_MIN (1u << 16)
#define RECORD_BYTES_MAX 65536u
#define SWITCH_RING_BYTES_MIN (1u << 14)
#define SWITCH_BYTES 32u
#define SWOLLEN_BYTES (4 * SWITCH_BYTES)
#define THREADS_MAX 4096u
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

#if defined(__x86_64__)
/* Numbers of asm/perf_regs.h. */
enum {
	REG_SECOND = 1, /* rbx */
	REG_FP = 6,
	REG_SP = 7,
	REG_PC = 8
};
#else
/* aarch64; elsewhere nothing is sampled, because the test of it fails. */
enum {
	REG_FP = 29,
	REG_SECOND = 30, /* the link register */
	REG_SP = 31,
	REG_PC = 32
};
#endif

struct cpu_ring {
	int fd;
	struct perf_event_mmap_page *page; /* NULL: none */
	bool is_at_work;                   /* its next record was handed out, and not ended */
};

struct ky_perf {
	struct ky_perf_options options;
	struct perf_event_attr attr;
	struct cpu_ring *rings;
	uint32_t cpu_count;
	size_t ring_bytes;
	int *more; /* events of threads that were told later */
	uint32_t more_count;
	uint64_t sample_count;
	uint64_t lost_count;                   /* as the rings told */
	uint64_t lost_asked;                   /* as ky_perf_count_lost() found it */
	uint64_t record[RECORD_BYTES_MAX / 8]; /* one that went round a ring's end */
};

_Static_assert(RECORD_BYTES_MAX > UINT16_MAX, "its header counts a record's bytes by 16 bits");

/* PERF_FORMAT_LOST of kernel 6.0; headers may be older. */
#define FORMAT_LOST (UINT64_C(1) << 4)

#define REGISTERS                                                                                  \
	(UINT64_C(1) << REG_PC | UINT64_C(1) << REG_SP | UINT64_C(1) << REG_FP |                   \
	 UINT64_C(1) << REG_SECOND)

static uint64_t period_of(uint32_t rate_hz)
{
	return rate_hz ? SECOND_NS / rate_hz : SECOND_NS;
}

/* One event says both: page faults by counting them, switches beside it. The words that are asked
 * for stand at the same places in records of both kinds. */
static void fill_switches(struct perf_event_attr *attr, bool is_without_switches)
{
	attr->sample_period = 1;
	attr->sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU;
	attr->sample_id_all = 1;
	attr->context_switch = !is_without_switches;
	attr->task = is_without_switches;
}

static void fill_samples(struct perf_event_attr *attr, const struct ky_perf_options *options)
{
	attr->config = PERF_COUNT_SW_TASK_CLOCK;
	/* A period, not a frequency: what each sample stands for is then known, and the kernel's
	 * limit on frequencies does not apply. */
	attr->sample_period = period_of(options->rate_hz);
	attr->sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU |
			    PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER |
			    PERF_SAMPLE_STACK_USER;
	attr->sample_regs_user = REGISTERS;
	attr->sample_stack_user = options->stack_bytes;
	attr->exclude_callchain_user = 1;
	attr->exclude_callchain_kernel = !options->has_kernel;
	if (options->is_faults) {
		attr->sample_period = 1;
		attr->exclude_callchain_kernel = 1;
	}
}

/* For who opens it lets it go on when he wants it. */
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
		fill_switches(attr, options->is_without_switches);
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

static int open_event(struct perf_event_attr *attr, pid_t tid, int cpu)
{
	long fd = syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0 && errno == EINVAL && attr->read_format) { /* before 6.0 */
		attr->read_format = 0;
		fd = syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	}
	return fd < 0 ? -errno : (int)fd;
}

static void close_ring(struct cpu_ring *ring, size_t ring_bytes)
{
	if (ring->page)
		munmap(ring->page, PAGE + ring_bytes);
	if (ring->fd >= 0)
		close(ring->fd);
	ring->page = NULL;
	ring->fd = -1;
}

static int map_ring(struct cpu_ring *ring, size_t ring_bytes)
{
	void *page = mmap(NULL, PAGE + ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);

	if (page == MAP_FAILED)
		return -errno;
	ring->page = page;
	return 0;
}

/* ---- reading ---- */

/* The next record, read where it lies: most of a stack's copy is never looked at, and it is in
 * another processor's cache. Copied only where it goes round the ring's end. NULL: there is none.
 * Its room is given back by give_back(). */
static const struct perf_event_header *next_record(struct ky_perf *perf, struct cpu_ring *ring)
{
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = ring->page->data_tail, mask = perf->ring_bytes - 1, first;
	const uint8_t *data = (const uint8_t *)ring->page + PAGE;
	/* Records are multiples of 8 bytes, so a header never wraps. */
	const struct perf_event_header *header = (const void *)(data + (tail & mask));

	if (head - tail < sizeof(*header))
		return NULL;
	if (header->size < sizeof(*header) || header->size > head - tail) {
		__atomic_store_n(&ring->page->data_tail, head, __ATOMIC_RELEASE);
		return NULL;
	}
	first = perf->ring_bytes - (tail & mask);
	if (first >= header->size)
		return header;
	memcpy(perf->record, header, first);
	memcpy((uint8_t *)perf->record + first, data, header->size - first);
	return (const void *)perf->record;
}

static void give_back(struct cpu_ring *ring, const struct perf_event_header *record)
{
	__atomic_store_n(&ring->page->data_tail, ring->page->data_tail + record->size,
			 __ATOMIC_RELEASE);
}

/* The same for a record that is handed out. Who takes it may leave by a jump, because what he
 * writes to has gone; then it is lost, and not met again and again. */
static const struct perf_event_header *begin_record(struct ky_perf *perf, struct cpu_ring *ring)
{
	const struct perf_event_header *record = next_record(perf, ring);

	if (record && ring->is_at_work) {
		perf->lost_count++;
		give_back(ring, record);
		record = next_record(perf, ring);
	}
	ring->is_at_work = record != NULL;
	return record;
}

static void end_record(struct cpu_ring *ring, const struct perf_event_header *record)
{
	give_back(ring, record);
	ring->is_at_work = false;
}

static void count_lost(struct ky_perf *perf, const struct perf_event_header *record)
{
	if (record->type == PERF_RECORD_LOST && record->size >= 24)
		perf->lost_count += ((const uint64_t *)(const void *)record)[2];
}

/* The words of a record, never beyond its end. */
struct words {
	const uint64_t *at, *end;
};

static uint64_t next_word(struct words *words)
{
	return words->at < words->end ? *words->at++ : 0;
}

static const uint64_t *take_words(struct words *words, uint64_t count)
{
	const uint64_t *at = words->at;

	if (count > (uint64_t)(words->end - words->at))
		return NULL;
	words->at += count;
	return at;
}

/* The kernel's frames behind the mark that says what follows. */
static void read_chain(struct words *words, struct ky_perf_sample *out)
{
	uint64_t count = next_word(words);
	const uint64_t *chain = take_words(words, count);

	if (!chain)
		return;
	/* Marks are the last 4,095 values: PERF_CONTEXT_KERNEL. */
	if (count && chain[0] >= (uint64_t)-4095) {
		chain++;
		count--;
	}
	out->kernel = chain;
	out->kernel_count = (uint32_t)count;
}

static void read_registers(struct words *words, struct ky_perf_sample *out)
{
	const uint64_t *value;

	if (next_word(words) == PERF_SAMPLE_REGS_ABI_NONE)
		return;
	value = take_words(words, 4);
	if (!value)
		return;
	out->has_registers = true;
	/* In the order of their numbers. */
#if defined(__x86_64__)
	out->second = value[0];
	out->fp = value[1];
	out->sp = value[2];
#else
	out->fp = value[0];
	out->second = value[1];
	out->sp = value[2];
#endif
	out->pc = value[3];
}

static void read_stack(struct words *words, struct ky_perf_sample *out)
{
	uint64_t bytes = next_word(words), filled;
	const uint64_t *stack = take_words(words, bytes / 8);

	if (!bytes || !stack)
		return;
	filled = next_word(words);
	out->stack = (const uint8_t *)stack;
	out->stack_bytes = (uint32_t)(filled < bytes ? filled : bytes);
}

static void read_sample(const struct perf_event_header *record, struct ky_perf_sample *out)
{
	const uint64_t *at = (const void *)record;
	struct words words = {at + 1, at + record->size / 8};
	uint64_t word;

	memset(out, 0, sizeof(*out));
	word = next_word(&words);
	out->pid = (uint32_t)word;
	out->tid = (uint32_t)(word >> 32);
	out->ns = next_word(&words);
	out->cpu = (uint32_t)next_word(&words);
	out->period_ns = next_word(&words);
	read_chain(&words, out);
	read_registers(&words, out);
	read_stack(&words, out);
}

static uint32_t read_ring(struct ky_perf *perf, struct cpu_ring *ring, ky_perf_sample_fn fn,
			  void *ctx)
{
	const struct perf_event_header *record;
	struct ky_perf_sample sample;
	uint32_t count = 0;

	while ((record = begin_record(perf, ring)) != NULL) {
		count_lost(perf, record);
		if (record->type == PERF_RECORD_SAMPLE) {
			read_sample(record, &sample);
			count++;
			perf->sample_count++;
			fn(ctx, &sample);
		}
		end_record(ring, record);
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

/* Who, when and where: of a fault its sample, of a switch what stands behind every record. */
static bool read_switch(const struct perf_event_header *record, struct ky_perf_switch *out)
{
	const uint64_t *words = (const void *)record;

	if (record->size < SWITCH_BYTES)
		return false;
	memset(out, 0, sizeof(*out));
	out->pid = (uint32_t)words[1];
	out->tid = (uint32_t)(words[1] >> 32);
	out->ns = words[2];
	if (record->type == PERF_RECORD_FORK) {
		out->kind = KY_SWITCH_BORN;
		out->tid = (uint32_t)words[2];
		out->ns = words[3];
		return true;
	}
	out->is_swollen = record->size > SWOLLEN_BYTES;
	if (record->type == PERF_RECORD_SAMPLE)
		out->kind = KY_SWITCH_FAULT;
	else if (!(record->misc & PERF_RECORD_MISC_SWITCH_OUT))
		out->kind = KY_SWITCH_IN;
	else if (record->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT)
		out->kind = KY_SWITCH_PREEMPTED;
	else
		out->kind = KY_SWITCH_OUT;
	return record->type == PERF_RECORD_SAMPLE || record->type == PERF_RECORD_SWITCH;
}

static uint32_t read_switch_ring(struct ky_perf *perf, struct cpu_ring *ring, ky_perf_switch_fn fn,
				 void *ctx)
{
	const struct perf_event_header *record;
	struct ky_perf_switch what;
	uint32_t count = 0;

	while ((record = begin_record(perf, ring)) != NULL) {
		count_lost(perf, record);
		if (read_switch(record, &what)) {
			count++;
			fn(ctx, &what);
		}
		end_record(ring, record);
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

/* One ring a processor, all of this size. A processor that is off has none. */
static int open_rings(struct ky_perf *perf, pid_t pid, size_t ring_bytes)
{
	int err = 0, opened = 0;

	perf->ring_bytes = ring_bytes;
	for (uint32_t i = 0; i < perf->cpu_count && !err; i++) {
		struct cpu_ring *ring = &perf->rings[i];

		ring->fd = open_event(&perf->attr, pid, (int)i);
		if (ring->fd == -ENODEV) {
			ring->fd = -1;
			continue;
		}
		if (ring->fd < 0)
			err = ring->fd;
		else
			err = map_ring(ring, ring_bytes);
		opened += !err;
	}
	if (!err && !opened)
		err = -ENODEV;
	for (uint32_t i = 0; i < perf->cpu_count && err; i++)
		close_ring(&perf->rings[i], ring_bytes);
	return err;
}

static int make(struct ky_perf **out, const struct ky_perf_options *options)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	struct ky_perf *perf;

	*out = NULL;
#if !defined(PERF_ATTR_SIZE_VER7)
	if (options->is_of_threads)
		return -EOPNOTSUPP;
#endif
	if (cpus < 1 || cpus > (long)CPUS_MAX || options->stack_bytes % 8 ||
	    options->stack_bytes > RECORD_BYTES_MAX - 8192)
		return -EINVAL;
	perf = ky_alloc(sizeof(*perf));
	if (!perf)
		return -ENOMEM;
	perf->options = *options;
	perf->rings = ky_alloc((size_t)cpus * sizeof(*perf->rings));
	if (!perf->rings) {
		ky_free(perf);
		return -ENOMEM;
	}
	perf->cpu_count = (uint32_t)cpus;
	for (uint32_t i = 0; i < perf->cpu_count; i++)
		perf->rings[i].fd = -1;
	fill_attr(&perf->attr, options);
	*out = perf;
	return 0;
}

int ky_perf_pause(struct ky_perf *perf, bool is_paused)
{
	unsigned long request = is_paused ? PERF_EVENT_IOC_DISABLE : PERF_EVENT_IOC_ENABLE;
	int err = 0;

	for (uint32_t i = 0; i < perf->cpu_count; i++)
		if (perf->rings[i].fd >= 0 && ioctl(perf->rings[i].fd, request, 0) != 0)
			err = -errno;
	for (uint32_t i = 0; i < perf->more_count; i++)
		if (ioctl(perf->more[i], request, 0) != 0)
			err = -errno;
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
		int fd;

		if (perf->rings[i].fd < 0)
			continue;
		fd = open_event(&attr, tid, (int)i);
		if (fd < 0)
			return fd;
		perf->more[perf->more_count++] = fd;
		/* Into that processor's ring. */
		if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, perf->rings[i].fd) != 0)
			return -errno;
	}
	return 0;
}

int ky_perf_add_all(struct ky_perf **perf, const struct ky_perf_options *options, pid_t pid)
{
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
		count += tids[count] && tids[count] != options->without_tid;
	}
	if (tasks)
		closedir(tasks);
	if (options->fds_max &&
	    (uint64_t)count * (uint64_t)sysconf(_SC_NPROCESSORS_CONF) > options->fds_max)
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

	return fd >= 0 && read(fd, words, sizeof(words)) == (ssize_t)sizeof(words) ? words[1] : 0;
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
	out->record_bytes = perf->options.is_switches ? SWITCH_BYTES :
							perf->options.stack_bytes + 256;
	out->sample_count = perf->sample_count;
	out->lost_count = perf->lost_asked > perf->lost_count ? perf->lost_asked : perf->lost_count;
}

void ky_perf_close(struct ky_perf *perf)
{
	if (!perf)
		return;
	for (uint32_t i = 0; i < perf->cpu_count; i++)
		close_ring(&perf->rings[i], perf->ring_bytes);
	for (uint32_t i = 0; i < perf->more_count; i++)
		close(perf->more[i]);
	ky_free(perf->more);
	ky_free(perf->rings);
	ky_free(perf);
}

/* ---- the test ---- */

struct verdict {
	uint32_t tid;
	uint32_t good_count;
};

static void on_test_sample(void *ctx, const struct ky_perf_sample *sample)
{
	struct verdict *verdict = ctx;

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
	perf->rings[0].fd = open_event(&perf->attr, 0, -1);
	err = perf->rings[0].fd < 0 ? perf->rings[0].fd : 0;
	return err ? err : map_ring(&perf->rings[0], ring_bytes);
}

/* Whether a sample came while this thread used up some time of the processor. */
static bool yields(struct ky_perf *perf)
{
	struct verdict verdict = {.tid = (uint32_t)syscall(SYS_gettid)};
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

static uint64_t time_sleeps(long sleep_ns)
{
	const struct timespec moment = {.tv_nsec = sleep_ns};
	uint64_t start_ns = ky_now_ns(CLOCK_THREAD_CPUTIME_ID);

	for (uint32_t i = 0; i < TEST_SLEEPS; i++)
		(void)nanosleep(&moment, NULL);
	return (ky_now_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns) / TEST_SLEEPS;
}

uint64_t ky_perf_time_sleeps(void)
{
	return time_sleeps(TEST_SLEEP_NS);
}

static int time_switches(struct ky_perf *perf, long sleep_ns, uint64_t *cost_ns)
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
	long sleep_ns = TEST_SLEEP_NS;
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
