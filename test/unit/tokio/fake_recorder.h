/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* fake_recorder.h - stands in for the recorder behind the public headers: keeps every event. */
#ifndef KY_TEST_TOKIO_FAKE_RECORDER_H
#define KY_TEST_TOKIO_FAKE_RECORDER_H

#include <kymo/off_cpu.h>
#include <stdbool.h>
#include <kymo/place.h>
#include <kymo/stack.h>
#include <stdint.h>

struct fake_event {
	uint32_t record, arg;
	uint64_t a, b, c;
};

/* The last call of kymo_poll_cost_write(), and how many there were. */
struct fake_cost {
	uint64_t ticks, counts;
	uint32_t depth, times;
};
struct fake_cost fake_last_cost(void);

/* Forgets all events and metadata, opens these gates. */
void fake_recorder_reset(uint32_t gates);

/* Events of several threads are counted and not kept. on: from 0. */
void fake_counting_only(bool is_on);
uint32_t fake_counted(uint32_t record);

uint32_t fake_event_count(void);
struct fake_event fake_event_at(uint32_t index);
uint32_t fake_count_of(uint32_t record);

/* The last event of this type; record is 0 when there is none. */
struct fake_event fake_last_of(uint32_t record);

/* The number of a stack that wakes get, and what was asked for the last of them; 0: none. */
extern uint32_t fake_wake_stack;
struct fake_wake {
	uint64_t until_sp;
	uint32_t frames_max;
	bool has_caller; /* it came with the registers of the function that wakes */
};
struct fake_wake fake_last_wake(void);

/* Value of a metadata key, "" when unset. */
const char *fake_metadata(const char *key);

/* How often a runtime was described, and the last one. */
struct fake_runtime {
	uint32_t count, kind, copy;
	uint64_t key;
	char name[64];
};
struct fake_runtime fake_runtime(void);

/* Whether the process samples itself, and how many threads began and ended that; set: forgets. */
void fake_sampling_set(bool is_on);
uint32_t fake_sampling_begun(void);
uint32_t fake_sampling_ended(void);

/* How often the signal for samples was asked back, ever. */
uint32_t fake_signal_left(void);

/* The last blocking call that was recorded (all zeros: none). set: from how many ticks on calls are
 * long, and whether there is room for them; forgets the last one. */
struct kymo_off_cpu fake_off_cpu(void);
void fake_off_cpu_set(uint64_t ticks_min, bool room);
/* How often it was asked whether a descriptor waits; set: forgets. is_refused: it cannot be asked.
 */
uint32_t fake_nonblocking_asked(void);
void fake_nonblocking_set(bool is_refused);

/* What the place table was told; points is what it answers at a poll's end. */
struct fake_places {
	uint32_t points;
	uint32_t clone_count, close_count, end_count;
	uint64_t ended_task;
	uint32_t living[8]; /* at the last clones */
	uint32_t living_at_end;
	struct kymo_place_poll poll; /* last */
	struct kymo_stack_start start;
};
struct fake_places *fake_places(void);

#endif
