/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <record/emit/bell.h>

#include <errno.h>
#include <linux/futex.h>
#include <record/emit/emit_engine.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint32_t private_bell; /* atomic */
uint32_t ky_bell_wish;

static uint32_t *shared_bell(void)
{
	struct ky_ring *ring = __atomic_load_n(&ky_engine.ring, __ATOMIC_ACQUIRE);

	/* A forked child has its parent's ring in its tables. */
	if (!ring || ky_engine_is_orphan())
		return NULL;
	return (uint32_t *)(uintptr_t)&ring->control->bell;
}

static void ring_word(uint32_t *word, int futex_flags)
{
	int err = errno;

	__atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
	(void)syscall(SYS_futex, word, FUTEX_WAKE | futex_flags, INT32_MAX, NULL, NULL, 0);
	errno = err;
}

/* Both: the waiter may have read before or behind the moment at which the ring came or went. A ring
 * that was given up has private memory at its addresses. */
void ky_bell_ring(void)
{
	uint32_t *shared = shared_bell();

	ring_word(&private_bell, FUTEX_PRIVATE_FLAG);
	if (shared)
		ring_word(shared, 0);
}

struct ky_bell_reading ky_bell_read(void)
{
	struct ky_bell_reading reading = {0};

	if (__atomic_load_n(&ky_engine.phase, __ATOMIC_SEQ_CST) == KY_LIVE)
		reading.word = shared_bell();
	if (!reading.word) {
		reading.word = &private_bell;
		reading.futex_flags = FUTEX_PRIVATE_FLAG;
	}
	reading.value = __atomic_load_n(reading.word, __ATOMIC_SEQ_CST);
	return reading;
}

void ky_bell_wait(const struct ky_bell_reading *reading, uint64_t until_ns)
{
	struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000u),
				 .tv_nsec = (long)(until_ns % 1000000000u)};

	/* WAIT_BITSET takes an absolute time, WAIT does not. */
	(void)syscall(SYS_futex, reading->word, FUTEX_WAIT_BITSET | reading->futex_flags,
		      reading->value, until_ns == UINT64_MAX ? NULL : &until, NULL,
		      FUTEX_BITSET_MATCH_ANY);
}
