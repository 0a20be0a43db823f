/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "fake_recorder.h"

#include <fcntl.h>
#include <kymo/sampling.h>

#include <kymo/conn.h>
#include <kymo/emit.h>
#include <kymo/off_cpu.h>
#include <kymo/poll_cost.h>
#include <kymo/recorder.h>
#include <kymo/usdt.h>
#include <stdio.h>
#include <string.h>

#define EVENTS_MAX 4096

struct kymo_control kymo_control;
/* Always inside an event: every emit takes the slow path, which is ours. */
static struct kymo_thread unrecorded = {.flags = 1};
__thread struct kymo_thread *kymo_thread_self = &unrecorded;

static const uint64_t no_mark;
__thread struct kymo_poll_cost kymo_poll_cost_self = {.mark = &no_mark};
uint64_t kymo_poll_cost_marked;
uint64_t kymo_poll_cost_ticks_min = UINT64_MAX;
static struct fake_cost last_cost;

void kymo_poll_cost_look(uint64_t ticks, uint32_t depth)
{
	(void)ticks;
	(void)depth;
}

void kymo_poll_cost_write(uint64_t begin, uint64_t end, uint64_t counts, uint32_t depth)
{
	last_cost.ticks = end - begin;
	last_cost.counts = kymo_poll_cost_self.counts - counts;
	last_cost.depth = depth;
	last_cost.times++;
}

struct fake_cost fake_last_cost(void)
{
	return last_cost;
}

static struct fake_event events[EVENTS_MAX];
static uint32_t event_count;
static bool is_counting_only;
static _Atomic uint32_t counted[KYMO_RECORD_COUNT];
static struct fake_runtime runtime;
static struct kymo_off_cpu last_off_cpu;
static uint64_t off_cpu_ticks_min;
static bool has_room;
static char metadata_key[64], metadata_value[64];

uint32_t fake_wake_stack;

void fake_recorder_reset(uint32_t gates)
{
	fake_wake_stack = 0;
	event_count = 0;
	memset(&last_cost, 0, sizeof(last_cost));
	kymo_poll_cost_ticks_min = UINT64_MAX;
	memset(&runtime, 0, sizeof(runtime));
	metadata_key[0] = 0;
	memset(fake_places(), 0, sizeof(*fake_places()));
	kymo_control.gates = gates;
}

void fake_counting_only(bool is_on)
{
	is_counting_only = is_on;
	for (uint32_t i = 0; is_on && i < KYMO_RECORD_COUNT; i++)
		counted[i] = 0;
}

uint32_t fake_counted(uint32_t record)
{
	return counted[record];
}

uint32_t fake_event_count(void)
{
	return event_count;
}

struct fake_event fake_event_at(uint32_t index)
{
	return events[index];
}

uint32_t fake_count_of(uint32_t record)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < event_count; i++)
		count += events[i].record == record;
	return count;
}

struct fake_event fake_last_of(uint32_t record)
{
	for (uint32_t i = event_count; i > 0; i--)
		if (events[i - 1].record == record)
			return events[i - 1];
	return (struct fake_event){0, 0, 0, 0, 0};
}

const char *fake_metadata(const char *key)
{
	return strcmp(key, metadata_key) == 0 ? metadata_value : "";
}

struct fake_runtime fake_runtime(void)
{
	return runtime;
}

void kymo_emit_slow(uint32_t record, uint32_t arg, uint32_t words, uint64_t a, uint64_t b,
		    uint64_t c)
{
	(void)words;
	if (is_counting_only) {
		if (record < KYMO_RECORD_COUNT)
			counted[record]++;
		return;
	}
	if (event_count < EVENTS_MAX)
		events[event_count++] = (struct fake_event){record, arg, a, b, c};
}

uint32_t kymo_name_intern(const char *text, size_t text_bytes, uint64_t code_address,
			  uint64_t table_address, uint32_t copy)
{
	(void)text;
	(void)text_bytes;
	(void)code_address;
	(void)copy;
	return (uint32_t)(table_address & 0xffff);
}

/* A span's id is the connection's number and how many began. */
static _Atomic uint32_t conn_spans;

void kymo_conn_begin(struct kymo_span *span, const struct kymo_conn *conn)
{
	*span = (struct kymo_span){.id = (uint64_t)conn->number << 16 | (++conn_spans & 0xffff)};
	kymo_emit(KYMO_GATE_CONN, KYMO_RECORD_CONN_BEGIN, conn->peer_port, 3, span->id,
		  (uint64_t)conn->number << 32 | conn->descriptor, conn->since_ticks);
}

void kymo_conn_end(struct kymo_span *span, const struct kymo_conn *conn, uint64_t bytes_in,
		   uint64_t bytes_out)
{
	(void)conn;
	kymo_emit_ungated(KYMO_RECORD_CONN_END, conn->peer_port, 3, span->id, bytes_in, bytes_out);
	span->id = 0;
}

void kymo_conn_wait(const struct kymo_span *span, uint64_t since_ticks)
{
	kymo_emit(KYMO_GATE_CONN, KYMO_RECORD_CONN_WAIT, 0, 2, span->id, since_ticks, 0);
}

void kymo_conn_unseen(uint32_t count)
{
	kymo_emit(KYMO_GATE_CONN, KYMO_RECORD_CONN_UNSEEN, 0, 1, count, 0, 0);
}

void kymo_runtime_describe(uint64_t key, const char *name, uint32_t kind, uint32_t copy)
{
	runtime = (struct fake_runtime){runtime.count + 1, kind, copy, key, ""};
	(void)snprintf(runtime.name, sizeof(runtime.name), "%s", name);
}

static _Atomic bool is_sampling;
static _Atomic uint32_t begun, ended;

void fake_sampling_set(bool is_on)
{
	is_sampling = is_on;
	begun = ended = 0;
}

uint32_t fake_sampling_begun(void)
{
	return begun;
}

uint32_t fake_sampling_ended(void)
{
	return ended;
}

bool kymo_sampling_is_on(void)
{
	return is_sampling;
}

void kymo_sampling_begin(void)
{
	begun++;
}

void kymo_sampling_end(void)
{
	ended++;
}

static uint32_t left;

uint32_t fake_signal_left(void)
{
	return left;
}

void kymo_sampling_leave_signal(void)
{
	left++;
}

uint64_t kymo_off_cpu_ticks_min(void)
{
	return off_cpu_ticks_min;
}

bool kymo_off_cpu_emit(const struct kymo_off_cpu *off_cpu)
{
	last_off_cpu = *off_cpu;
	return has_room;
}

struct kymo_off_cpu fake_off_cpu(void)
{
	return last_off_cpu;
}

void fake_off_cpu_set(uint64_t ticks_min, bool room)
{
	off_cpu_ticks_min = ticks_min;
	has_room = room;
	memset(&last_off_cpu, 0, sizeof(last_off_cpu));
}

static uint32_t nonblocking_asked;
static bool is_nonblocking_refused;

bool kymo_off_cpu_is_nonblocking(int32_t descriptor)
{
	int flags = is_nonblocking_refused ? 0 : fcntl(descriptor, F_GETFL);

	nonblocking_asked++;
	return flags >= 0 && flags & O_NONBLOCK;
}

uint32_t fake_nonblocking_asked(void)
{
	return nonblocking_asked;
}

void fake_nonblocking_set(bool is_refused)
{
	nonblocking_asked = 0;
	is_nonblocking_refused = is_refused;
}

uint64_t kymo_usdt_semaphores[KYMO_USDT_WORDS];

void kymo_usdt_places_by(const struct kymo_usdt_place *(*place_of)(uint64_t task))
{
	(void)place_of;
}

const struct kymo_usdt_place *kymo_usdt_place(const char *file, size_t file_bytes, uint32_t line,
					      uint32_t column)
{
	static char text[256];
	static struct kymo_usdt_place place;

	snprintf(text, sizeof(text), "%.*s", (int)file_bytes, file);
	place = (struct kymo_usdt_place){text, line, column};
	return &place;
}

void kymo_recorder_confine(void)
{
}

void kymo_thread_name(const char *name)
{
	(void)name;
}

int kymo_metadata_set(const char *key, const char *value)
{
	strncpy(metadata_key, key, sizeof(metadata_key) - 1);
	strncpy(metadata_value, value, sizeof(metadata_value) - 1);
	return 0;
}

/* ---- places ---- */

static struct fake_places places;

struct fake_places *fake_places(void)
{
	return &places;
}

void kymo_place_clone(struct kymo_place_poll *poll, const struct kymo_stack_start *start,
		      uint32_t living)
{
	places.start = *start;
	places.living[places.clone_count++ % 8] = living;
	poll->clones++;
}

uint32_t kymo_place_close(struct kymo_place_poll *poll, uint32_t living)
{
	places.close_count++;
	places.living_at_end = living;
	places.poll = *poll;
	return places.points << KYMO_POLL_POINTS_SHIFT;
}

static struct fake_wake last_wake;

struct fake_wake fake_last_wake(void)
{
	return last_wake;
}

uint32_t kymo_place_wake(const struct kymo_stack_start *start, uint64_t until_sp,
			 uint32_t frames_max)
{
	last_wake = (struct fake_wake){until_sp, frames_max,
				       start->pc != 0 && start->sp > (uintptr_t)&start};
	return fake_wake_stack << KYMO_WAKE_STACK_SHIFT;
}

void kymo_place_end(uint64_t task)
{
	places.end_count++;
	places.ended_task = task;
}
