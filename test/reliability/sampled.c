/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Programs that are hard on a sampler of their stacks, through the C API.
 *
 *   reliability_sampled heap MS         two threads in malloc, realloc and free
 *   reliability_sampled clock MS        two threads in the vDSO
 *   reliability_sampled loader LIB MS   one thread opens and closes LIB, whose code the other runs
 *   reliability_sampled swap LIB LIB N MS   N times: opens one, runs its code, closes it; then the
 *                                       other one, which likely comes to lie at its address
 *   reliability_sampled overflow N      N threads whose stacks overflow, each caught by a handler
 *   reliability_sampled small MS        threads with the smallest stacks there are, and signal
 *                                       stacks of the smallest size that is usual
 *   reliability_sampled bare MS         assembly without unwind data that calls back
 *   reliability_sampled undumpable MS   makes itself undumpable first
 *   reliability_sampled cancel MS       computes while it is cancelled, and is at a place that asks
 *                                       for it only after that
 *   reliability_sampled jit MS          code made at run time, in /tmp/perf-PID.map, calls its like
 *   reliability_sampled blocked MS      two threads that block all signals
 *   reliability_sampled burn MS
 *
 * MS: of CPU time. On standard output: one JSON line of what was done.
 */
#include <dlfcn.h>
#include <kymo/kymo.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "../lib/host_recorder.h"

#define BLOCKS 500u
#define SMALL_THREADS 8u
#define SIGNAL_STACK_BYTES 8192u /* SIGSTKSZ where it is a constant, and what Rust's threads have */
#define KEPT __attribute__((noinline, used))

static _Atomic uint64_t sink;

static void keep(uint64_t value)
{
	atomic_fetch_add_explicit(&sink, value, memory_order_relaxed);
}

static uint64_t kept(void)
{
	return atomic_load_explicit(&sink, memory_order_relaxed);
}
static _Atomic bool is_over;

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Nanoseconds of this thread's CPU time from the first call on. */
static bool goes_on(uint64_t *until_ns, uint64_t ms)
{
	uint64_t now_ns = cpu_ns();

	if (!*until_ns)
		*until_ns = now_ns + ms * 1000000;
	return now_ns < *until_ns && !atomic_load_explicit(&is_over, memory_order_relaxed);
}

static int say(const char *what, uint64_t count)
{
	return printf("{\"%s\":%llu}\n", what, (unsigned long long)count) > 0 ? 0 : 1;
}

static void spin(uint32_t count)
{
	for (volatile uint32_t i = 0; i < count; i++)
		;
}

/* ---- where a signal must not wait for a lock ---- */

static void *use_heap(void *ctx)
{
	static __thread void *blocks[BLOCKS];
	uint64_t until_ns = 0, turns = 0;

	for (; goes_on(&until_ns, *(uint64_t *)ctx); turns++) {
		for (size_t i = 0; i < BLOCKS; i++)
			blocks[i] = malloc(i * 37 + 1);
		for (size_t i = 0; i < BLOCKS; i++)
			blocks[i] = realloc(blocks[i], i * 61 + 1);
		for (size_t i = 0; i < BLOCKS; i++)
			free(blocks[i]);
	}
	keep(turns);
	return NULL;
}

static void *use_clock(void *ctx)
{
	uint64_t until_ns = 0;
	struct timespec now;

	while (goes_on(&until_ns, *(uint64_t *)ctx))
		for (int i = 0; i < 10000; i++) {
			clock_gettime(CLOCK_MONOTONIC, &now);
			keep((uint64_t)now.tv_nsec);
		}
	return NULL;
}

static int in_two(void *(*work)(void *), uint64_t ms)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, work, &ms) != 0)
		return 66;
	work(&ms);
	pthread_join(thread, NULL);
	return say("turns", kept());
}

/* ---- code that comes and goes ---- */

typedef void (*burn_fn)(uint64_t count);

static burn_fn open_burner(const char *path, void **library)
{
	burn_fn burn = NULL;

	*library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (*library)
		*(void **)&burn = dlsym(*library, "reliability_burn");
	return burn;
}

static void *run_library(void *ctx)
{
	const char *path = ctx;

	while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
		void *library;
		burn_fn burn = open_burner(path, &library);

		if (burn)
			burn(20000);
		if (library)
			dlclose(library);
		keep(burn != NULL);
	}
	return NULL;
}

static int use_loader(char *path, uint64_t ms)
{
	uint64_t until_ns = 0;
	pthread_t thread;

	if (pthread_create(&thread, NULL, run_library, path) != 0)
		return 66;
	while (goes_on(&until_ns, ms)) {
		void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

		if (library && dlclose(library) != 0)
			return 67;
	}
	atomic_store(&is_over, true);
	pthread_join(thread, NULL);
	return say("runs", kept());
}

static int swap_libraries(char **paths, unsigned long times, uint64_t ms)
{
	uint64_t ns[2] = {0, 0}, same = 0;
	uintptr_t last = 0;

	for (unsigned long i = 0; i < times; i++) {
		uint64_t until_ns = 0, began_ns = cpu_ns();
		void *library;
		burn_fn burn = open_burner(paths[i % 2], &library);

		if (!burn)
			return 67;
		while (goes_on(&until_ns, ms))
			burn(20000);
		ns[i % 2] += cpu_ns() - began_ns;
		same += (uintptr_t)burn == last;
		last = (uintptr_t)burn;
		dlclose(library);
	}
	printf("{\"first_ns\":%llu,\"second_ns\":%llu,\"same\":%llu}\n", (unsigned long long)ns[0],
	       (unsigned long long)ns[1], (unsigned long long)same);
	return 0;
}

/* ---- stacks that end ---- */

static __thread sigjmp_buf out;

static void on_overflow(int number)
{
	(void)number;
	/* At once: the kernel ends who has no room on his signal stack for one more signal. */
	siglongjmp(out, 1);
}

KEPT static uint64_t overflow(uint64_t depth)
{
	volatile uint8_t room[200];

	room[0] = (uint8_t)depth;
	spin(4000);
	return depth < UINT64_MAX ? overflow(depth + 1) + room[0] : 0;
}

/* With a page below it that may not be touched. */
static void *set_signal_stack(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *at = mmap(NULL, SIGNAL_STACK_BYTES + page, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stack_t stack = {.ss_size = SIGNAL_STACK_BYTES};

	if ((void *)at == MAP_FAILED || mprotect(at, page, PROT_NONE) != 0)
		exit(68);
	stack.ss_sp = at + page;
	if (sigaltstack(&stack, NULL) != 0)
		exit(69);
	return at;
}

static void drop_signal_stack(void *at)
{
	stack_t none = {.ss_flags = SS_DISABLE};

	sigaltstack(&none, NULL);
	munmap(at, SIGNAL_STACK_BYTES + (size_t)sysconf(_SC_PAGESIZE));
}

static void *overflow_once(void *ctx)
{
	void *stack = set_signal_stack();

	(void)ctx;
	poll_times(1);
	if (sigsetjmp(out, 1) == 0)
		keep(overflow(0));
	else
		keep(1);
	drop_signal_stack(stack);
	return NULL;
}

static int overflow_often(unsigned long times)
{
	struct sigaction action = {.sa_handler = on_overflow, .sa_flags = SA_ONSTACK};
	pthread_attr_t attributes;

	sigaction(SIGSEGV, &action, NULL);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 256u << 10);
	for (unsigned long i = 0; i < times; i++) {
		pthread_t thread;

		if (pthread_create(&thread, &attributes, overflow_once, NULL) != 0)
			return 66;
		pthread_join(thread, NULL);
	}
	pthread_attr_destroy(&attributes);
	return say("overflows", kept());
}

static void *burn_on_small_stack(void *ctx)
{
	void *stack = set_signal_stack();
	uint64_t until_ns = 0;

	poll_times(1);
	while (goes_on(&until_ns, *(uint64_t *)ctx))
		spin(20000);
	drop_signal_stack(stack);
	return NULL;
}

static int burn_on_small_stacks(uint64_t ms)
{
	pthread_t threads[SMALL_THREADS];
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN));
	for (uint32_t i = 0; i < SMALL_THREADS; i++)
		if (pthread_create(&threads[i], &attributes, burn_on_small_stack, &ms) != 0)
			return 66;
	for (uint32_t i = 0; i < SMALL_THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_attr_destroy(&attributes);
	return say("threads", SMALL_THREADS);
}

/* ---- code without unwind data ---- */

/* Calls back with a stack pointer without unwind data, and no frame pointer. */
void reliability_bare(void (*work)(uint32_t), uint32_t count);
#if defined(__x86_64__)
__asm__(".text\n"
	".type reliability_bare, @function\n"
	"reliability_bare:\n"
	"	push %rbx\n"
	"	sub $0x50, %rsp\n"
	"	mov %rdi, %rax\n"
	"	mov %esi, %edi\n"
	"	mov %esi, %ebx\n"
	"	call *%rax\n"
	"1:	dec %ebx\n"
	"	jnz 1b\n"
	"	add $0x50, %rsp\n"
	"	pop %rbx\n"
	"	ret\n"
	".size reliability_bare, . - reliability_bare\n");
#else
void reliability_bare(void (*work)(uint32_t), uint32_t count)
{
	work(count);
	spin(count);
}
#endif

static void *burn_in_assembly(void *ctx)
{
	uint64_t until_ns = 0;

	while (goes_on(&until_ns, *(uint64_t *)ctx))
		reliability_bare(spin, 20000);
	return NULL;
}

static void *burn_plainly(void *ctx)
{
	uint64_t until_ns = 0;

	poll_times(1);
	while (goes_on(&until_ns, *(uint64_t *)ctx))
		spin(20000);
	return NULL;
}

/* ---- what must not happen inside a handler ---- */

static _Atomic uint64_t turns_done;

static void *compute_to_the_end(void *ctx)
{
	uint64_t until_ns = 0;

	poll_times(1);
	while (goes_on(&until_ns, *(uint64_t *)ctx))
		spin(20000);
	atomic_fetch_add(&turns_done, 1);
	pthread_testcancel();
	atomic_fetch_add(&turns_done, 1000);
	return NULL;
}

/* Cancelled from its first moment on; it says how many came to their end, and no further. */
static int cancel_often(uint64_t ms)
{
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, compute_to_the_end, &ms) != 0 ||
		    pthread_cancel(threads[i]) != 0)
			return 66;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	return say("whole", atomic_load(&turns_done));
}

static void *burn_blocked(void *ctx)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	return burn_plainly(ctx);
}

static int burn_in_blocked(uint64_t ms)
{
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, burn_blocked, &ms) != 0)
			return 66;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	return say("threads", 2);
}

/* ---- code made at run time ---- */

#define JIT_DEPTH 5u
#define JIT_BYTES 64u

#if defined(__x86_64__)
/* Each calls the next one and keeps frame pointers, as compilers at run time do; the last one spins
 * for as long as edi says. */
static void *make_code(void)
{
	static const uint8_t calls[] = {0x55, 0x48, 0x89, 0xe5, 0xe8, JIT_BYTES - 9,
					0,    0,    0,    0x5d, 0xc3};
	static const uint8_t spins[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xcf, 0x75, 0xfc, 0x5d, 0xc3};
	uint8_t *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			     0);
	char path[64];
	FILE *map;

	if ((void *)code == MAP_FAILED)
		return NULL;
	for (uint32_t i = 0; i < JIT_DEPTH; i++)
		if (i + 1 < JIT_DEPTH)
			memcpy(code + i * JIT_BYTES, calls, sizeof(calls));
		else
			memcpy(code + i * JIT_BYTES, spins, sizeof(spins));
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	map = fopen(path, "we");
	if (!map || mprotect(code, 4096, PROT_READ | PROT_EXEC) != 0)
		return NULL;
	for (uint32_t i = 0; i < JIT_DEPTH; i++)
		fprintf(map, "%llx %x jit %u of test\n",
			(unsigned long long)(uintptr_t)(code + i * JIT_BYTES), JIT_BYTES, i);
	return fclose(map) == 0 ? code : NULL;
}
#else
static void *make_code(void)
{
	return NULL;
}
#endif

static void *jit_code;

static void *run_jit(void *ctx)
{
	uint64_t until_ns = 0;
	void (*run)(uint32_t count);

	memcpy(&run, &jit_code, sizeof(run));
	while (goes_on(&until_ns, *(uint64_t *)ctx))
		run(200000);
	return NULL;
}

static int use_jit(uint64_t ms)
{
	pthread_t thread;

	jit_code = make_code();
	if (!jit_code || pthread_create(&thread, NULL, run_jit, &ms) != 0)
		return 71;
	run_jit(&ms);
	pthread_join(thread, NULL);
	return say("pid", (uint64_t)getpid());
}

static uint64_t number(const char *text)
{
	return strtoull(text, NULL, 10);
}

int main(int argc, char **argv)
{
	const char *way = argc > 2 ? argv[1] : "";

	if (open_recorder() < 0)
		return 65;
	poll_times(100);
	if (strcmp(way, "heap") == 0)
		return in_two(use_heap, number(argv[2]));
	if (strcmp(way, "clock") == 0)
		return in_two(use_clock, number(argv[2]));
	if (strcmp(way, "loader") == 0 && argc == 4)
		return use_loader(argv[2], number(argv[3]));
	if (strcmp(way, "swap") == 0 && argc == 6)
		return swap_libraries(argv + 2, number(argv[4]), number(argv[5]));
	if (strcmp(way, "overflow") == 0)
		return overflow_often(number(argv[2]));
	if (strcmp(way, "small") == 0)
		return burn_on_small_stacks(number(argv[2]));
	if (strcmp(way, "bare") == 0)
		return in_two(burn_in_assembly, number(argv[2]));
	if (strcmp(way, "cancel") == 0)
		return cancel_often(number(argv[2]));
	if (strcmp(way, "blocked") == 0)
		return burn_in_blocked(number(argv[2]));
	if (strcmp(way, "jit") == 0)
		return use_jit(number(argv[2]));
	if (strcmp(way, "undumpable") == 0 && prctl(PR_SET_DUMPABLE, 0) != 0)
		return 70;
	if (strcmp(way, "undumpable") == 0 || strcmp(way, "burn") == 0)
		return in_two(burn_plainly, number(argv[2]));
	return 64;
}
