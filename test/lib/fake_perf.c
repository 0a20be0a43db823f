/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include "fake_perf.h"

#include "cmocka_all.h"
#include "now_fake.h"

#include <errno.h>
#include <probe/perf_event.h>
#include <probe/perf_record.h>
#include <probe/trace_record.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FORMAT_LOST (UINT64_C(1) << 4)

struct fake_perf fake_perf;

static void answer(uint64_t ns);

static struct fake_perf_event *event_of(int fd)
{
	assert_in_range(fd, FAKE_PERF_FDS, FAKE_PERF_FDS + (int)FAKE_PERF_EVENTS - 1);
	assert_true(fake_perf.events[fd - FAKE_PERF_FDS].is_open);
	return &fake_perf.events[fd - FAKE_PERF_FDS];
}

void fake_perf_reset(void)
{
	for (uint32_t i = 0; i < FAKE_PERF_EVENTS; i++)
		free(fake_perf.events[i].page);
	memset(&fake_perf, 0, sizeof(fake_perf));
	fake_perf.cpus = FAKE_PERF_CPUS;
	test_now.on_sleep = answer;
}

uint32_t fake_perf_open_count(void)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < FAKE_PERF_EVENTS; i++)
		count += fake_perf.events[i].is_open;
	return count;
}

struct fake_perf_event *fake_perf_find(uint32_t type, uint64_t config, int cpu, uint32_t n)
{
	for (uint32_t i = 0; i < FAKE_PERF_EVENTS; i++) {
		struct fake_perf_event *event = &fake_perf.events[i];

		if (event->is_open && event->attr.type == type && event->attr.config == config &&
		    (cpu < 0 || event->cpu == cpu) && n-- == 0)
			return event;
	}
	return NULL;
}

/* ---- as perf_event.h says ---- */

uint32_t ky_perf_event_cpus(void)
{
	return fake_perf.cpus;
}

int ky_perf_event_open(struct perf_event_attr *attr, pid_t tid, int cpu)
{
	uint32_t i = 0;

	if (fake_perf.open_error)
		return fake_perf.open_error;
	if (fake_perf.is_kernel_refused && !attr->exclude_kernel)
		return -EACCES;
	if (fake_perf.off_cpu && cpu == (int)fake_perf.off_cpu - 1)
		return -ENODEV;
	if (fake_perf.is_old)
		attr->read_format = 0;
	while (i < FAKE_PERF_EVENTS && fake_perf.events[i].is_open)
		i++;
	if (i == FAKE_PERF_EVENTS)
		return -EMFILE;
	fake_perf.events[i] = (struct fake_perf_event){.is_open = true,
						       .is_enabled = !attr->disabled,
						       .attr = *attr,
						       .tid = tid,
						       .cpu = cpu,
						       .output = -1};
	return FAKE_PERF_FDS + (int)i;
}

void ky_perf_event_close(int fd)
{
	struct fake_perf_event *event = event_of(fd);

	assert_null(event->page);
	event->is_open = false;
}

void ky_perf_event_ask(bool may_ask)
{
	(void)may_ask;
}

void ky_perf_event_close_copy(int fd)
{
	assert_true(event_of(fd)->is_open);
}

int ky_perf_event_map(int fd, size_t ring_bytes, struct perf_event_mmap_page **page)
{
	struct fake_perf_event *event = event_of(fd);

	if (fake_perf.ring_bytes_most && ring_bytes > fake_perf.ring_bytes_most)
		return -EPERM;
	event->page = calloc(1, KY_PERF_PAGE_BYTES + ring_bytes);
	assert_non_null(event->page);
	event->ring_bytes = ring_bytes;
	*page = event->page;
	return 0;
}

void ky_perf_event_unmap(struct perf_event_mmap_page *page, size_t ring_bytes)
{
	for (uint32_t i = 0; i < FAKE_PERF_EVENTS; i++) {
		struct fake_perf_event *event = &fake_perf.events[i];

		if (event->is_open && event->page == page) {
			assert_int_equal(event->ring_bytes, ring_bytes);
			event->page = NULL;
			free(page);
			return;
		}
	}
	fail_msg("no such ring");
}

int ky_perf_event_pause(int fd, bool is_paused)
{
	if (fake_perf.pause_error)
		return fake_perf.pause_error;
	event_of(fd)->is_enabled = !is_paused;
	if (!is_paused)
		answer(0);
	return 0;
}

int ky_perf_event_set_output(int fd, int ring_fd)
{
	assert_non_null(event_of(ring_fd)->page);
	event_of(fd)->output = ring_fd;
	return 0;
}

int ky_perf_event_set_filter(int fd, const char *filter)
{
	struct fake_perf_event *event = event_of(fd);

	if (fake_perf.filter_error)
		return fake_perf.filter_error;
	(void)strncpy(event->filter, filter, sizeof(event->filter) - 1);
	return 0;
}

bool ky_perf_event_read(int fd, uint64_t *words, uint32_t count)
{
	const struct fake_perf_event *event = event_of(fd);

	memcpy(words, event->words, count * sizeof(*words));
	return true;
}

/* ---- and as wake_format.h does ---- */

int ky_wake_format_read(struct ky_wake_format *out)
{
	*out = (struct ky_wake_format){.id = FAKE_WAKING, .flags_at = 2, .pid_at = 24, .bytes = 28};
	return 0;
}

/* ---- records ---- */

static bool put_bytes(struct fake_perf_event *ring, const uint64_t *words)
{
	const struct perf_event_header *header = (const void *)words;
	uint64_t head = ring->page->data_head, room = ring->ring_bytes;
	uint8_t *data = (uint8_t *)ring->page + KY_PERF_PAGE_BYTES;

	if (room - (head - ring->page->data_tail) < header->size)
		return false;
	for (uint32_t i = 0; i < header->size; i++)
		data[(head + i) & (room - 1)] = ((const uint8_t *)words)[i];
	ring->page->data_head = head + header->size;
	return true;
}

static uint64_t header(uint32_t type, uint32_t misc, uint32_t bytes)
{
	const struct perf_event_header parts = {type, (uint16_t)misc, (uint16_t)bytes};
	uint64_t word;

	memcpy(&word, &parts, sizeof(word));
	return word;
}

bool fake_perf_put(struct fake_perf_event *event, const uint64_t *words)
{
	struct fake_perf_event *ring = event->output < 0 ? event : event_of(event->output);
	const uint64_t lost[3] = {header(PERF_RECORD_LOST, 0, 24), 1, ring->unreported};

	if (!event->is_enabled || !ring->page)
		return false;
	if (ring->unreported && put_bytes(ring, lost))
		ring->unreported = 0;
	if (!ring->unreported && put_bytes(ring, words))
		return true;
	ring->unreported++;
	event->words[1] += (event->attr.read_format & FORMAT_LOST) != 0;
	return false;
}

static uint64_t who(uint32_t pid, uint32_t tid)
{
	return pid | (uint64_t)tid << 32;
}

/* The event that reports switches, or of faults, on that CPU: one that counts, if there is any. */
static struct fake_perf_event *switches_on(int cpu, bool is_switch)
{
	struct fake_perf_event *found = NULL;

	for (uint32_t i = 0; i < FAKE_PERF_EVENTS; i++) {
		struct fake_perf_event *event = &fake_perf.events[i];

		if (event->is_open && event->cpu == cpu &&
		    event->attr.sample_type == KY_PERF_SWITCH_TYPE &&
		    (!is_switch || event->attr.context_switch) && (!found || event->is_enabled))
			found = event;
	}
	return found;
}

bool fake_perf_switch(int cpu, uint32_t pid, uint32_t tid, uint64_t ns, uint32_t misc)
{
	const uint64_t words[4] = {header(PERF_RECORD_SWITCH, misc, 32), who(pid, tid), ns,
				   (uint32_t)cpu};
	struct fake_perf_event *event = switches_on(cpu, true);

	return event && fake_perf_put(event, words);
}

bool fake_perf_fault(int cpu, uint32_t pid, uint32_t tid, uint64_t ns)
{
	const uint64_t words[4] = {header(PERF_RECORD_SAMPLE, 0, 32), who(pid, tid), ns,
				   (uint32_t)cpu};
	struct fake_perf_event *event = switches_on(cpu, false);

	return event && fake_perf_put(event, words);
}

/* A record of a tracepoint: who was on the CPU, and raw bytes after their count. */
static void put_trace(struct fake_perf_event *event, uint64_t id, uint64_t ns, const uint8_t *raw,
		      uint32_t raw_bytes)
{
	uint64_t words[32] = {0, id, ns, (uint32_t)event->cpu};
	uint32_t at = 4;

	memcpy((uint8_t *)(words + at), &raw_bytes, sizeof(raw_bytes));
	memcpy((uint8_t *)(words + at) + sizeof(raw_bytes), raw, raw_bytes);
	at += (raw_bytes + 4 + 7) / 8;
	words[0] = header(PERF_RECORD_SAMPLE, 0, at * 8);
	(void)fake_perf_put(event, words);
}

bool fake_perf_wake(int cpu, uint32_t pid, uint32_t tid, uint64_t ns, uint32_t woken, uint8_t flags)
{
	struct fake_perf_event *event = fake_perf_find(PERF_TYPE_TRACEPOINT, FAKE_WAKING, cpu, 0);
	uint8_t raw[28] = {FAKE_WAKING, 0, flags};

	if (!event || !event->is_enabled)
		return false;
	memcpy(raw + 24, &woken, sizeof(woken));
	put_trace(event, who(pid, tid), ns, raw, sizeof(raw));
	return true;
}

/* ---- what the caller sees of itself ---- */

static void answer_samples(struct fake_perf_event *event, uint32_t tid)
{
	/* Who, when, where, period, no frames, four registers, a stack of two words. */
	const uint64_t words[] = {header(PERF_RECORD_SAMPLE, 0, 16 * 8),
				  who((uint32_t)getpid(), tid),
				  1,
				  0,
				  100000,
				  0,
				  PERF_SAMPLE_REGS_ABI_64,
				  1,
				  2,
				  3,
				  4,
				  16,
				  5,
				  6,
				  16,
				  0};

	(void)fake_perf_put(event, words);
}

static void answer_one(struct fake_perf_event *event, uint32_t tid, bool is_sleep)
{
	uint64_t ns = test_now.ns ? test_now.ns : 1, own = who((uint32_t)getpid(), tid);
	const uint64_t out[4] = {header(PERF_RECORD_SWITCH, PERF_RECORD_MISC_SWITCH_OUT, 32), own,
				 ns, 0};
	const uint64_t in[4] = {header(PERF_RECORD_SWITCH, 0, 32), own, ns, 0};
	const uint64_t fault[4] = {header(PERF_RECORD_SAMPLE, 0, 32), own, ns, 0};

	if (event->attr.sample_type == KY_PERF_SAMPLE_TYPE) {
		answer_samples(event, tid);
	} else if (event->attr.sample_type == KY_PERF_SWITCH_TYPE && is_sleep) {
		(void)fake_perf_put(event, out);
		(void)fake_perf_put(event, in);
	} else if (event->attr.sample_type == KY_PERF_SWITCH_TYPE) {
		(void)fake_perf_put(event, fault);
	}
}

static bool is_for(const struct fake_perf_event *event, uint32_t tid)
{
	char number[16];

	(void)snprintf(number, sizeof(number), ">= %u ", tid);
	return event && event->is_enabled && strstr(event->filter, number);
}

static void answer_traces(uint32_t tid)
{
	uint64_t ns = test_now.ns ? test_now.ns : 1;

	for (int cpu = 0; cpu < (int)fake_perf.cpus; cpu++) {
		if (!is_for(fake_perf_find(PERF_TYPE_TRACEPOINT, FAKE_WAKING, cpu, 0), tid))
			continue;
		(void)fake_perf_wake(cpu, 0, 0, ns, tid, 0x08);
	}
}

/* ns: it slept; 0: an event was enabled again. */
static void answer(uint64_t ns)
{
	uint32_t tid = (uint32_t)syscall(SYS_gettid);

	if (fake_perf.is_silent)
		return;
	for (uint32_t i = 0; i < FAKE_PERF_EVENTS; i++) {
		struct fake_perf_event *event = &fake_perf.events[i];

		if (event->is_open && event->is_enabled &&
		    (event->tid == 0 || event->tid == (pid_t)tid))
			answer_one(event, tid, ns != 0);
	}
	if (ns)
		answer_traces(tid);
}
