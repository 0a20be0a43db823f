/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* kill_host.h - what kill_host counts while it records, and kill_check reads after its death: a
 * second shared file, one line a thread. Event number n of a thread is, by n % 3, the begin of a
 * poll, a wake, the end of the poll; its task says thread, name and number.
 */
#ifndef KY_TEST_KILL_HOST_H
#define KY_TEST_KILL_HOST_H

#include <stdatomic.h>
#include <stdint.h>

#define KILL_SLOTS 200u

struct kill_slot {
	_Alignas(64) _Atomic uint64_t published; /* raised after each event */
};

struct kill_witness {
	struct kill_slot slots[KILL_SLOTS];
};

#define KILL_NAMES 8u
#define KILL_NAME_BYTES 32u

static inline uint32_t kill_name_of(uint64_t n)
{
	return (uint32_t)(n / 600u) % KILL_NAMES;
}

static inline uint64_t kill_task_of(uint32_t slot, uint64_t n)
{
	return (uint64_t)(slot + 1u) << 16 | kill_name_of(n) << 8 | n % 251u;
}

#endif
