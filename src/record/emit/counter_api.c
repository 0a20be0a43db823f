/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Counters as a program calls them. */
#include <kymo/counter.h>
#include <record/emit/counter_table.h>
#include <record/emit/emit_engine.h>
#include <string.h>

uint32_t kymo_counter_register(const char *name, uint32_t flags)
{
	const struct ky_ring *ring;
	struct ky_lock_mark mark;
	size_t name_bytes;
	uint32_t counter;

	if (!name || !name[0])
		return 0;
	name_bytes = strnlen(name, KY_COUNTER_NAME_BYTES);
	if (name_bytes == KY_COUNTER_NAME_BYTES) /* and no half a character */
		for (name_bytes--; name_bytes && ((uint8_t)name[name_bytes] & 0xc0) == 0x80;)
			name_bytes--;
	mark = ky_engine_lock();
	counter = ky_counter_find_or_add(name, name_bytes, flags & KYMO_COUNTER_ERRORS);
	ring = ky_engine_live_ring();
	if (ring)
		ky_counters_copy(ring->side);
	ky_engine_unlock(mark);
	return counter;
}

/* After the change of the value, see ky_engine_live_ring(). */
static void report(uint32_t counter)
{
	const struct ky_ring *ring = ky_engine_live_ring();

	if (ring)
		ky_counter_report(ring, counter);
}

void kymo_counter_add(uint32_t counter, int64_t by)
{
	uint64_t *value = ky_counter_value(counter);

	if (!value)
		return;
	__atomic_fetch_add(value, (uint64_t)by, __ATOMIC_SEQ_CST);
	report(counter);
}

void kymo_counter_set(uint32_t counter, int64_t value)
{
	uint64_t *at = ky_counter_value(counter);

	if (!at)
		return;
	__atomic_store_n(at, (uint64_t)value, __ATOMIC_SEQ_CST);
	report(counter);
}

int64_t kymo_counter_value(uint32_t counter)
{
	const uint64_t *value = ky_counter_value(counter);

	return value ? (int64_t)__atomic_load_n(value, __ATOMIC_RELAXED) : 0;
}
