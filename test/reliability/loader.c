/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A program without Tokio that opens a library with it, asks it for its answer, and closes it.
 *
 *   reliability_loader LIB OPEN CALLS   OPEN times one after the other, CALLS calls each; prints
 *                                       how often the library was gone afterwards
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct work {
	const char *library;
	void *handle;
	unsigned long calls;
	int failed;
};

static int ask(void *handle, unsigned long calls)
{
	int (*answer)(void) = NULL;

	*(void **)&answer = dlsym(handle, "reliability_answer");
	if (!answer)
		return 67;
	while (calls--)
		if (answer() != 42)
			return 68;
	return 0;
}

/* In a thread of its own: a library stays for as long as a thread lives whose variables it has to
 * clean up. */
static void *open_once(void *ctx)
{
	struct work *work = ctx;

	work->handle = dlopen(work->library, RTLD_NOW | RTLD_LOCAL);
	if (!work->handle) {
		fprintf(stderr, "%s\n", dlerror());
		work->failed = 66;
		return NULL;
	}
	work->failed = ask(work->handle, work->calls);
	return NULL;
}

int main(int argc, char **argv)
{
	struct work work;
	unsigned long times, closed = 0;

	if (argc != 4)
		return 64;
	times = strtoul(argv[2], NULL, 10);
	work = (struct work){argv[1], NULL, strtoul(argv[3], NULL, 10), 0};
	for (unsigned long i = 0; i < times; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, open_once, &work) != 0)
			return 65;
		pthread_join(thread, NULL);
		if (work.failed || dlclose(work.handle) != 0)
			return work.failed ? work.failed : 69;
		closed += dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) == NULL;
	}
	return printf("%lu\n", closed) > 0 ? 0 : 65;
}
