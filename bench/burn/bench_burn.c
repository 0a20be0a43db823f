/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The control for `kymo dump`: a program that has nothing to do with a ring or its process, takes
 * as much memory and CPU time, and gives way where a dump does.
 *
 *     bench_burn BYTES MS
 *
 * Fills BYTES of fresh memory at the priority it was started with, then goes over them at nice 10
 * until it has used MS of CPU time, its start included.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define GIVING_WAY 10 /* as src/agent/dump_writer.c */
#define PART ((size_t)64 << 10)
#define HUGE_PAGE ((size_t)2 << 20)

static uint64_t spent_ns(void)
{
	struct timespec spent;

	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent) != 0)
		return UINT64_MAX;
	return (uint64_t)spent.tv_sec * 1000000000 + (uint64_t)spent.tv_nsec;
}

static uint64_t mix(const uint64_t *words, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum = (sum ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
	return sum;
}

int main(int argc, char **argv)
{
	static uint64_t part[PART / sizeof(uint64_t)];
	size_t bytes = argc == 3 ? strtoull(argv[1], NULL, 10) / PART * PART : 0;
	uint64_t until_ns = argc == 3 ? strtoull(argv[2], NULL, 10) * 1000000 : 0, sum = 0;
	uint8_t *copy;

	if (bytes == 0 || until_ns == 0) {
		fputs("usage: bench_burn BYTES MS\n", stderr);
		return 2;
	}
	copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (copy == MAP_FAILED) {
		fprintf(stderr, "bench_burn: %zu bytes: %s\n", bytes, strerror(errno));
		return 1;
	}
	if (bytes >= HUGE_PAGE)
		(void)madvise(copy, bytes, MADV_HUGEPAGE);
	for (size_t at = 0; at < bytes; at += PART) {
		part[0] = at;
		memcpy(copy + at, part, PART);
	}
	errno = 0;
	if (nice(GIVING_WAY) == -1 && errno != 0)
		perror("bench_burn: nice");
	for (size_t at = 0; spent_ns() < until_ns; at = (at + PART) % bytes)
		sum += mix((const uint64_t *)(const void *)(copy + at), PART / sizeof(uint64_t));
	printf("%llx\n", (unsigned long long)sum);
	return 0;
}
