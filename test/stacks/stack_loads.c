/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Work in C whose stacks are hard to walk: `stack_loads ROUNDS`, in the first thread and in
 * another. Inside the C library without frame pointers, called back from there, in the vDSO, in
 * malloc(), and in the loader while it brings a library and takes it away again. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NUMBERS 20000
#define BLOCKS 1000
#define BYTES ((size_t)1 << 20)

static int compare(const void *a, const void *b)
{
	volatile int spin = 0;

	while (spin < 5)
		spin++;
	return *(const int *)a < *(const int *)b ? -1 : 1;
}

static unsigned long sort(unsigned seed)
{
	int *numbers = calloc(NUMBERS, sizeof(*numbers));
	unsigned long sum;

	if (!numbers)
		return 0;
	for (int i = 0; i < NUMBERS; i++)
		numbers[i] = (int)(seed = seed * 1103515245u + 12345u);
	qsort(numbers, NUMBERS, sizeof(numbers[0]), compare);
	sum = (unsigned long)numbers[0];
	free(numbers);
	return sum;
}

static unsigned long copy(void)
{
	char *bytes = malloc(BYTES);
	unsigned long sum = 0;

	if (!bytes)
		return 0;
	memset(bytes, 1, BYTES);
	for (size_t i = 1; i <= 100; i++) {
		memmove(bytes + i, bytes, BYTES / 2);
		sum += (unsigned long)bytes[i];
	}
	free(bytes);
	return sum;
}

static unsigned long format(void)
{
	unsigned long sum = 0;
	char text[128];

	for (int i = 0; i < 5000; i++)
		sum += (unsigned long)snprintf(text, sizeof(text), "%d %s %f", i, "words", i * 1.5);
	return sum;
}

static unsigned long look_at_the_clock(void)
{
	unsigned long sum = 0;
	struct timespec now;

	for (int i = 0; i < 50000; i++) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		sum += (unsigned long)now.tv_nsec;
	}
	return sum;
}

static unsigned long allocate(void)
{
	static __thread void *blocks[BLOCKS];

	for (int round = 0; round < 20; round++) {
		for (size_t i = 0; i < BLOCKS; i++)
			blocks[i] = malloc(i * 7 + 1);
		for (size_t i = 0; i < BLOCKS; i++)
			free(blocks[i]);
	}
	return 1;
}

static unsigned long load(void)
{
	unsigned long sum = 0;

	for (int i = 0; i < 10; i++) {
		void *library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);

		sum += library && dlsym(library, "cos") ? 1 : 0;
		if (library)
			dlclose(library);
	}
	return sum;
}

static void *work(void *ctx)
{
	const long *rounds = ctx;
	unsigned long sum = 0;

	for (long i = 0; i < *rounds; i++)
		sum += sort((unsigned)i) + copy() + format() + look_at_the_clock() + allocate() +
		       load();
	return (void *)sum;
}

int main(int count, char **arguments)
{
	long rounds = count > 1 ? strtol(arguments[1], NULL, 10) : 1;
	pthread_t thread;
	void *sum;

	if (pthread_create(&thread, NULL, work, &rounds) != 0)
		return 1;
	sum = work(&rounds);
	pthread_join(thread, NULL);
	return sum ? 0 : 2;
}
