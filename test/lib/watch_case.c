/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "watch_case.h"

#include <stdlib.h>

/* The builder has no side area: it goes behind the slots, on a line of its own. */
void watch_case_open(struct watch_case *watch, uint32_t slot_count)
{
	struct test_ring *ring = &watch->ring;
	size_t offset, bytes;
	uint8_t *image;

	memset(watch, 0, sizeof(*watch));
	test_ring_open(ring, slot_count);
	fake_proc_open(&watch->proc, WATCH_PID);
	offset = (ring->image_bytes + 63) / 64 * 64;
	bytes = offset + sizeof(struct ky_ring_side);
	image = aligned_alloc(KY_SLOT_BYTES,
			      (bytes + KY_SLOT_BYTES - 1) / KY_SLOT_BYTES * KY_SLOT_BYTES);
	assert_non_null(image);
	memset(image, 0, bytes);
	memcpy(image, ring->image, ring->image_bytes);
	free(ring->image);
	ring->image = image;
	ring->image_bytes = bytes;
	ring->header = (struct ky_ring_header *)(void *)image;
	ring->control = (struct ky_ring_control *)(void *)(image + ring->header->page_bytes);
	ring->header->side_offset = offset;
	ring->header->side_bytes = sizeof(struct ky_ring_side);
}

void watch_case_close(struct watch_case *watch)
{
	ky_watchdog_close(watch->watchdog);
	fake_proc_close(&watch->proc);
	test_ring_close(&watch->ring);
}

struct ky_ring_side *watch_case_side(struct watch_case *watch)
{
	return (struct ky_ring_side *)(void *)(watch->ring.image + watch->ring.header->side_offset);
}

static void keep(void *ctx, const struct ky_firing *firing)
{
	struct watch_case *watch = ctx;
	struct watch_fired *fired = &watch->fired[watch->fired_count++ % WATCH_FIRED_MAX];

	fired->firing = *firing;
	assert_true(firing->note_count <= KY_STUCK_NOTES);
	memcpy(fired->notes, firing->notes, firing->note_count * sizeof(*fired->notes));
	fired->firing.notes = fired->notes;
	for (size_t i = 1; i < firing->note_count; i++)
		assert_true(fired->notes[i - 1].monotonic_ns <= fired->notes[i].monotonic_ns);
}

int watch_case_try(struct watch_case *watch, const char *rules)
{
	struct ky_watchdog_options *options = &watch->options;

	watch->rule_count = 0;
	assert_int_equal(ky_rules_parse(watch->rules, &watch->rule_count, rules, watch->errbuf,
					sizeof(watch->errbuf)),
			 0);
	options->image = watch->ring.image;
	options->image_bytes = watch->ring.image_bytes;
	options->pid = WATCH_PID;
	options->rules = watch->rules;
	options->rule_count = watch->rule_count;
	options->fire = keep;
	options->fire_ctx = watch;
	options->anchor = test_ring_anchor;
	options->anchor_ctx = &watch->ring;
	options->proc = watch->proc.proc;
	options->cgroup = watch->proc.cgroup;
	options->errbuf = watch->errbuf;
	options->errbuf_bytes = sizeof(watch->errbuf);
	watch->due_ns = watch->ring.now_ns;
	return ky_watchdog_open(&watch->watchdog, options);
}

void watch_case_arm(struct watch_case *watch, const char *rules)
{
	if (watch_case_try(watch, rules) != 0)
		fail_msg("%s", watch->errbuf);
	assert_string_equal(watch->errbuf, "");
}

static void step(struct watch_case *watch)
{
	uint64_t wait = ky_watchdog_step(watch->watchdog,
					 watch->sums.is_known ? &watch->sums : NULL);

	/* Never more than 20 looks a second. */
	if (wait != UINT64_MAX)
		assert_true(wait >= KY_LOOK_INTERVAL_NS);
	watch->due_ns = wait == UINT64_MAX ? UINT64_MAX : watch->ring.now_ns + wait;
}

void watch_case_until(struct watch_case *watch, uint64_t ns)
{
	while (watch->due_ns <= ns) {
		if (watch->due_ns > watch->ring.now_ns)
			watch->ring.now_ns = watch->due_ns;
		step(watch);
	}
	if (watch->ring.now_ns < ns)
		watch->ring.now_ns = ns;
}

void watch_case_sleep(struct watch_case *watch, uint64_t ns)
{
	watch->ring.now_ns = ns;
	step(watch);
}
