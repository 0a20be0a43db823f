/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <record/emit/bell.h>

#include <errno.h>
#include <linux/futex.h>
#include <record/emit/ring_file.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint32_t private_bell; /* atomic */
uint32_t ky_bell_wish;

static uint32_t *word_of(struct ky_ring *ring)
{
	return (uint32_t *)(uintptr_t)&ring->control->bell;
}

static void ring_word(uint32_t *word, int futex_flags)
{
	int err = errno;

	__atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
	(void)syscall(SYS_futex, word, FUTEX_WAKE | futex_flags, INT32_MAX, NULL, NULL, 0);
	errno = err;
}

/* Both: the waiter may have read before or after the moment at which the ring came or went. A ring
 * that was given up has private memory at its addresses. */
void ky_bell_ring(struct ky_ring *ring)
{
	ring_word(&private_bell, FUTEX_PRIVATE_FLAG);
	if (ring)
		ring_word(word_of(ring), 0);
}

struct ky_bell_reading ky_bell_read(struct ky_ring *ring)
{
	struct ky_bell_reading reading = {.word = &private_bell, .futex_flags = FUTEX_PRIVATE_FLAG};

	if (ring)
		reading = (struct ky_bell_reading){.word = word_of(ring)};
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
