/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A library that burns, built twice: NAME is the function that it does it in. */
#include <stdint.h>

__attribute__((visibility("default"))) void reliability_burn(uint64_t count);

__attribute__((noinline)) static void NAME(uint64_t count)
{
	for (volatile uint64_t i = 0; i < count; i++)
		;
}

void reliability_burn(uint64_t count)
{
	NAME(count);
	__asm__ volatile(""); /* no tail call: both are on the stack */
}
