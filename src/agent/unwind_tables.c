/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <agent/unwind_tables.h>

#include <base/now.h>
#include <errno.h>
#include <record/emit/emit_engine.h>
#include <record/sample/stack_walk.h>
#include <stddef.h>
#include <string.h>
#include <unwind/unwind_keeper.h>

#define PACE_NS UINT64_C(1000000000)

/* In words where there are words: others read meanwhile. */
static int put(void *ctx, uint64_t offset, const void *bytes, size_t count)
{
	const struct ky_table_maker *maker = ctx;
	uint8_t *to = maker->ring->unwind + offset;
	const uint8_t *from = bytes;

	if (offset > maker->ring->unwind_bytes || count > maker->ring->unwind_bytes - offset)
		return -ENOSPC;
	/* The mapping is ours to write, whatever the pointer to its description says. */
	if (!ky_ring_populate_unwind((struct ky_ring *)(uintptr_t)maker->ring, offset + count))
		return -ENOSPC;
	/* Released each, so that none goes before an earlier one: a generation, then what it
	 * covers. */
	for (; count >= 8 && offset % 8 == 0; count -= 8, from += 8, to += 8) {
		uint64_t word;

		memcpy(&word, from, sizeof(word));
		__atomic_store_n((uint64_t *)(void *)to, word, __ATOMIC_RELEASE);
	}
	for (; count >= 4 && (uintptr_t)to % 4 == 0; count -= 4, from += 4, to += 4) {
		uint32_t word;

		memcpy(&word, from, sizeof(word));
		__atomic_store_n((uint32_t *)(void *)to, word, __ATOMIC_RELEASE);
	}
	for (; count >= 2 && (uintptr_t)to % 2 == 0; count -= 2, from += 2, to += 2) {
		uint16_t word;

		memcpy(&word, from, sizeof(word));
		__atomic_store_n((uint16_t *)(void *)to, word, __ATOMIC_RELEASE);
	}
	for (; count > 0; count--)
		__atomic_store_n(to++, *from++, __ATOMIC_RELEASE);
	maker->between(maker->between_ctx);
	return 0;
}

static int announce(void *ctx)
{
	const struct ky_table_maker *maker = ctx;

	atomic_store_explicit(&maker->ring->header->unwind_ready, 1, memory_order_release);
	return 0;
}

/* Times off the processor that the kernel tells have no stacks; who tells others wants a stack. */
static bool is_wanted(const struct ky_ring *ring)
{
	uint32_t with_stacks = ~(1u << KY_SAMPLES_OFF_CPU);

	/* Files of code are read as the loader has read them, which a filter that the process was
	 * started under allows. */
	if (!ring->unwind || __atomic_load_n(&ky_engine.is_confined, __ATOMIC_RELAXED))
		return false;
	return ky_stack_is_wanted() ||
	       (atomic_load_explicit(&ring->header->sample_classes, memory_order_relaxed) &
		with_stacks);
}

uint64_t ky_table_maker_step(struct ky_table_maker *maker, const struct ky_ring *ring,
			     void (*between)(void *ctx), void *between_ctx)
{
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);
	struct ky_unwind_target target = {.pid = ring->pid,
					  .area_bytes = ring->unwind_bytes,
					  .write = put,
					  .announce = announce,
					  .ctx = maker};

	if (maker->ring != ring) {
		ky_table_maker_close(maker);
		maker->ring = ring;
	}
	if (maker->last_error || !is_wanted(ring))
		return UINT64_MAX;
	if (now_ns < maker->due_ns)
		return maker->due_ns;
	maker->between = between;
	maker->between_ctx = between_ctx;
	if (!maker->keeper)
		maker->last_error = ky_unwind_keeper_open(&maker->keeper, &target);
	if (maker->keeper)
		(void)ky_unwind_keeper_look(maker->keeper);
	maker->due_ns = now_ns + PACE_NS;
	return maker->keeper ? maker->due_ns : UINT64_MAX;
}

void ky_table_maker_close(struct ky_table_maker *maker)
{
	ky_unwind_keeper_close(maker->keeper);
	memset(maker, 0, sizeof(*maker));
}
