/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "watch_case.h"

#include <stdlib.h>

struct watch_case watch;
struct test_writer writer;

/* The builder has no side area: it follows the sub-buffers, on a cache line of its own. */
void watch_case_open(struct watch_case *c, uint32_t slot_count)
{
	struct test_ring *ring = &c->ring;
	size_t offset, bytes;
	uint8_t *image;

	memset(c, 0, sizeof(*c));
	test_ring_open(ring, slot_count);
	fake_proc_open(&c->proc, WATCH_PID);
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

void watch_case_close(struct watch_case *c)
{
	ky_watchdog_close(c->watchdog);
	fake_proc_close(&c->proc);
	test_ring_close(&c->ring);
}

struct ky_ring_side *watch_case_side(struct watch_case *c)
{
	return (struct ky_ring_side *)(void *)(c->ring.image + c->ring.header->side_offset);
}

static void keep(void *ctx, const struct ky_firing *firing)
{
	struct watch_case *c = ctx;
	struct watch_fired *kept = &c->fired[c->fired_count++ % WATCH_FIRED_MAX];

	kept->firing = *firing;
	assert_true(firing->note_count <= KY_STUCK_NOTES);
	memcpy(kept->notes, firing->notes, firing->note_count * sizeof(*kept->notes));
	kept->firing.notes = kept->notes;
	for (size_t i = 1; i < firing->note_count; i++)
		assert_true(kept->notes[i - 1].monotonic_ns <= kept->notes[i].monotonic_ns);
}

int watch_case_try(struct watch_case *c, const char *rules)
{
	struct ky_watchdog_options *options = &c->options;

	c->rule_count = 0;
	assert_int_equal(
		ky_rules_parse(c->rules, &c->rule_count, rules, c->errbuf, sizeof(c->errbuf)), 0);
	options->image = c->ring.image;
	options->image_bytes = c->ring.image_bytes;
	options->pid = WATCH_PID;
	options->rules = c->rules;
	options->rule_count = c->rule_count;
	options->fire = keep;
	options->fire_ctx = c;
	options->anchor = test_ring_anchor;
	options->anchor_ctx = &c->ring;
	options->proc = c->proc.proc;
	options->cgroup = c->proc.cgroup;
	options->errbuf = c->errbuf;
	options->errbuf_bytes = sizeof(c->errbuf);
	c->due_ns = c->ring.now_ns;
	return ky_watchdog_open(&c->watchdog, options);
}

void watch_case_arm(struct watch_case *c, const char *rules)
{
	if (watch_case_try(c, rules) != 0)
		fail_msg("%s", c->errbuf);
	assert_string_equal(c->errbuf, "");
}

static void step(struct watch_case *c)
{
	uint64_t wait = ky_watchdog_step(c->watchdog, c->sums.is_known ? &c->sums : NULL);

	/* Never more than 20 checks a second. */
	if (wait != UINT64_MAX)
		assert_true(wait >= KY_CHECK_INTERVAL_NS);
	c->due_ns = wait == UINT64_MAX ? UINT64_MAX : c->ring.now_ns + wait;
}

void watch_case_until(struct watch_case *c, uint64_t ns)
{
	while (c->due_ns <= ns) {
		if (c->due_ns > c->ring.now_ns)
			c->ring.now_ns = c->due_ns;
		step(c);
	}
	if (c->ring.now_ns < ns)
		c->ring.now_ns = ns;
}

void watch_case_sleep(struct watch_case *c, uint64_t ns)
{
	c->ring.now_ns = ns;
	step(c);
}

int watch_setup(void **state)
{
	(void)state;
	watch_case_open(&watch, 32);
	watch.ring.now_ns = START;
	return 0;
}

int watch_setup_worker(void **state)
{
	watch_setup(state);
	test_writer_open(&writer, &watch.ring, TID, START);
	test_worker(&writer, START, 3, 0x1000, 0x2000);
	fake_proc_thread(&watch.proc, TID, 'S', "202 0x1 0x0 0x0 0x0 0x0 0x0 0x7ffe10 0x55aa20",
			 "futex_wait_queue");
	return 0;
}

int watch_teardown(void **state)
{
	(void)state;
	watch_case_close(&watch);
	return 0;
}

const struct ky_firing *fired(uint32_t index)
{
	assert_in_range(index, 0, watch.fired_count - 1);
	return &watch.fired[index].firing;
}
