/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The stack of a thread by the tables of its own process: wherever it stands. */
#include "../../lib/cmocka_all.h"
#include "../../lib/own_tables.h"
#include "../../lib/under_valgrind.h"

#include <dlfcn.h>
#include <pthread.h>
#include <record/sample/stack_walk.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind/unwind_maps.h>
#include <unwind/unwind_object.h>

#define KEPT __attribute__((noinline, used))
#define FRAMES_MAX 256u

static struct own_tables tables;
static uint64_t frames[FRAMES_MAX];
static struct ky_walk walk;
static volatile uint32_t sink;
static bool may_call = true;

static void prepare(void)
{
	memset(&walk, 0, sizeof(walk));
	walk.frames = frames;
	walk.frames_max = FRAMES_MAX;
}

KEPT static void stack_inner(void)
{
	struct kymo_stack_start start;

	KYMO_STACK_HERE(&start);
	ky_stack_capture_by(&walk, &tables.view, &start, may_call);
	sink++;
}

/* Where the function around pc begins, by the unwind data of this program. */
static uint64_t function_of(uint64_t pc)
{
	static struct ky_unwind_object object;
	static struct ky_cfi_machine machine;
	struct ky_unwind_code code;
	uint32_t pid = (uint32_t)getpid();
	Dl_info info;

	if (!dladdr((void *)(uintptr_t)pc, &info) || !ky_unwind_code_of(&tables.view, pc, &code) ||
	    ky_unwind_object_init(&object, ky_unwind_read_process, &pid, true,
				  (uint64_t)(uintptr_t)info.dli_fbase) != 0)
		return 0;
	ky_cfi_reset(&machine);
	return ky_cfi_find(&machine, &object.source, pc - object.bias) ?
		       machine.start + object.bias :
		       0;
}

static uint32_t count_in(void (*function)(void))
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < walk.count; i++)
		count += function_of(frames[i]) == (uint64_t)(uintptr_t)function;
	return count;
}

KEPT static void stack_middle(void)
{
	stack_inner();
	sink++;
}

KEPT static void stack_outer(void)
{
	stack_middle();
	sink++;
}

static void check_whole(void)
{
	assert_int_equal(walk.end, KY_WALK_FIRST);
	assert_int_equal(count_in(stack_inner), 1);
	assert_int_equal(count_in(stack_middle), 1);
	assert_int_equal(count_in(stack_outer), 1);
	assert_int_equal(walk.guessed_count, 0);
}

static void walk__reaches_the_first_frame_of_the_program(void **state)
{
	(void)state;
	prepare();
	stack_outer();
	check_whole();
	assert_true(walk.count >= 6); /* main, and what calls it */
}

static void *on_thread(void *ctx)
{
	(void)ctx;
	prepare();
	stack_outer();
	return NULL;
}

static void walk__reaches_the_first_frame_of_a_thread(void **state)
{
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, on_thread, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	check_whole();
}

/* Below the frame that is named. */
KEPT static void capture_below(void)
{
	struct kymo_stack_start here;

	KYMO_STACK_HERE(&here);
	prepare();
	walk.until_sp = here.sp + 1;
	stack_middle();
	sink++;
}

static void walk__ends_at_the_given_stack_pointer(void **state)
{
	(void)state;
	capture_below();
	assert_int_equal(walk.end, KY_WALK_REACHED);
	assert_int_equal(walk.count, 3);
	assert_int_equal(count_in(stack_inner), 1);
	assert_int_equal(count_in(stack_middle), 1);
}

static void walk__reports_that_there_is_more(void **state)
{
	(void)state;
	prepare();
	walk.frames_max = 2;
	stack_outer();
	assert_int_equal(walk.end, KY_WALK_FULL);
	assert_int_equal(walk.count, 2);
}

static int compare(const void *a, const void *b)
{
	(void)a;
	(void)b;
	stack_outer();
	return 0;
}

static void walk__passes_a_callback_of_the_library(void **state)
{
	int pair[2] = {2, 1};

	(void)state;
	prepare();
	qsort(pair, 2, sizeof(pair[0]), compare);
	check_whole();
}

/* ---- signals ---- */

static void on_signal(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	prepare();
	ky_stack_context_by(&walk, &tables.view, context, may_call);
}

/* From the handler's own frame, through the kernel's. */
static void on_signal_from_here(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	(void)context;
	prepare();
	stack_outer();
}

static void handle(void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};

	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
}

KEPT static void stack_raise(void)
{
	raise(SIGUSR1);
	sink++;
}

static void set_signal_stack(void *memory, size_t bytes)
{
	stack_t stack = {.ss_sp = memory, .ss_size = bytes, .ss_flags = memory ? 0 : SS_DISABLE};

	assert_int_equal(sigaltstack(&stack, NULL), 0);
}

static void walk__begins_where_a_signal_hit(void **state)
{
	(void)state;
	handle(on_signal);
	stack_raise();
	assert_int_equal(walk.end, KY_WALK_FIRST);
	assert_int_equal(count_in(stack_raise), 1);
	assert_int_equal(walk.guessed_count, 0);
}

static void walk__leaves_a_handler_and_its_stack(void **state)
{
	static uint8_t memory[65536];

	(void)state;
	handle(on_signal_from_here);
	for (uint32_t i = 0; i < 2; i++) {
		set_signal_stack(i ? memory : NULL, sizeof(memory));
		memset(&walk, 0, sizeof(walk));
		stack_raise();
		check_whole();
		assert_int_equal(count_in(stack_raise), 1);
	}
	set_signal_stack(NULL, 0);
}

/* Deeper than the stack reaches: the page at sp is none. */
KEPT static uint32_t overflow(uint32_t depth)
{
	volatile uint8_t room[2048];

	room[depth % sizeof(room)] = 1;
	return depth < UINT32_MAX ? overflow(depth + 1) + room[0] : 0;
}

static sigjmp_buf out;

static void on_fault(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	prepare();
	ky_stack_context_by(&walk, &tables.view, context, may_call);
	siglongjmp(out, 1);
}

static void *overflow_thread(void *ctx)
{
	static uint8_t memory[65536];
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	struct sigaction before;

	(void)ctx;
	set_signal_stack(memory, sizeof(memory));
	sigaction(SIGSEGV, &action, &before);
	if (sigsetjmp(out, 1) == 0)
		sink += overflow(0);
	sigaction(SIGSEGV, &before, NULL);
	set_signal_stack(NULL, 0);
	return NULL;
}

static void walk__survives_an_overflowed_stack(void **state)
{
	pthread_attr_t attributes;
	pthread_t thread;

	(void)state;
	memset(&walk, 0, sizeof(walk));
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 256u << 10);
	assert_int_equal(pthread_create(&thread, &attributes, overflow_thread, NULL), 0);
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attributes);
	/* Some hundred frames, up to the first one or as many as there is room for. */
	assert_true(walk.count > 50);
	assert_true(walk.end == KY_WALK_FIRST || walk.end == KY_WALK_FULL);
}

/* ---- other stacks ---- */

static ucontext_t home, away;

static void coroutine(void)
{
	stack_outer();
	swapcontext(&away, &home);
}

static void run_coroutine(void)
{
	size_t bytes = 65536;
	void *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(stack, MAP_FAILED);
	assert_int_equal(getcontext(&away), 0);
	away.uc_stack.ss_sp = stack;
	away.uc_stack.ss_size = bytes;
	away.uc_link = NULL;
	makecontext(&away, coroutine, 0);
	prepare();
	assert_int_equal(swapcontext(&home, &away), 0);
	munmap(stack, bytes);
}

static void walk__reads_the_stack_of_a_coroutine(void **state)
{
	(void)state;
	run_coroutine();
	check_whole();
}

static void walk__makes_no_system_call_in_a_sandbox(void **state)
{
	(void)state;
	may_call = false;
	run_coroutine();
	may_call = true;
	assert_int_equal(walk.end, KY_WALK_UNREADABLE);
	assert_int_equal(walk.count, 1);
}

/* ---- code without unwind data ---- */

#if defined(__x86_64__)
/* With a frame of its own, with something else in rbp, and with bytes in the shape of a frame. The
 * byte before them is no instruction: else, where the function before ends at their first byte, the
 * tables read the first of them as plain code and nothing is guessed. */
__attribute__((used)) static uint64_t *stack_elsewhere;
__asm__(".text\n"
	".byte 0x06\n"
	".balign 64\n"
	"stack_framed: push %rbp\n mov %rsp, %rbp\n call *%rdi\n pop %rbp\n ret\n"
	".balign 64\n"
	"stack_spoilt: push %rbp\n push %rbp\n push %rbp\n mov $0x1234567, %rbp\n call *%rdi\n"
	" pop %rbp\n pop %rbp\n pop %rbp\n ret\n"
	".balign 64\n"
	"stack_led: push %rbp\n push %rbp\n push %rbp\n mov stack_elsewhere(%rip), %rbp\n"
	" call *%rdi\n pop %rbp\n pop %rbp\n pop %rbp\n ret\n"
	".balign 64\n");
extern void stack_framed(void (*function)(void));
extern void stack_spoilt(void (*function)(void));
extern void stack_led(void (*function)(void));

static void walk__follows_the_frame_pointer_in_bare_assembly(void **state)
{
	(void)state;
	prepare();
	stack_framed(stack_outer);
	assert_int_equal(walk.end, KY_WALK_FIRST);
	assert_int_equal(count_in(stack_outer), 1);
	assert_int_equal(walk.guessed_count, 1);
}

static void walk__ends_at_bare_assembly_without_a_frame(void **state)
{
	(void)state;
	prepare();
	stack_spoilt(stack_outer);
	assert_int_equal(walk.end, KY_WALK_UNKNOWN);
	assert_int_equal(walk.count, 4);
}

static void *led_thread(void *ctx)
{
	(void)ctx;
	prepare();
	stack_led(stack_outer);
	return NULL;
}

/* What it would lead to lies above, and has the shape of frames. */
static void walk__follows_no_pointer_out_of_its_own_stack(void **state)
{
	const size_t bytes = 4u << 20; /* sanitizers need 1 MiB */
	pthread_attr_t attributes;
	pthread_t thread;
	uint8_t *memory = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);

	(void)state;
	assert_ptr_not_equal(memory, MAP_FAILED);
	stack_elsewhere = (uint64_t *)(void *)(memory + bytes);
	for (uint32_t i = 0; i < 64; i += 2) {
		stack_elsewhere[i] = (uint64_t)(uintptr_t)&stack_elsewhere[i + 2];
		stack_elsewhere[i + 1] = (uint64_t)(uintptr_t)stack_outer + 8;
	}
	pthread_attr_init(&attributes);
	assert_int_equal(pthread_attr_setstack(&attributes, memory, bytes), 0);
	assert_int_equal(pthread_create(&thread, &attributes, led_thread, NULL), 0);
	pthread_join(thread, NULL);
	pthread_attr_destroy(&attributes);
	assert_int_equal(walk.end, KY_WALK_UNREADABLE);
	assert_int_equal(walk.count, 4);
	munmap(memory, 2 * bytes);
}
#endif

static void walk__without_tables_there_is_none(void **state)
{
	struct kymo_stack stack = {.frames = frames, .frames_max = FRAMES_MAX};
	struct kymo_stack_start start;

	(void)state;
	KYMO_STACK_HERE(&start);
	kymo_stack_capture(&stack, &start);
	assert_int_equal(stack.end, KYMO_STACK_NO_TABLES);
	assert_int_equal(stack.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(walk__reaches_the_first_frame_of_the_program),
		cmocka_unit_test(walk__reaches_the_first_frame_of_a_thread),
		cmocka_unit_test(walk__ends_at_the_given_stack_pointer),
		cmocka_unit_test(walk__reports_that_there_is_more),
		cmocka_unit_test(walk__passes_a_callback_of_the_library),
		cmocka_unit_test(walk__begins_where_a_signal_hit),
		cmocka_unit_test(walk__leaves_a_handler_and_its_stack),
		cmocka_unit_test(walk__survives_an_overflowed_stack),
		cmocka_unit_test(walk__reads_the_stack_of_a_coroutine),
		cmocka_unit_test(walk__makes_no_system_call_in_a_sandbox),
#if defined(__x86_64__)
		cmocka_unit_test(walk__follows_the_frame_pointer_in_bare_assembly),
		cmocka_unit_test(walk__ends_at_bare_assembly_without_a_frame),
		cmocka_unit_test(walk__follows_no_pointer_out_of_its_own_stack),
#endif
		cmocka_unit_test(walk__without_tables_there_is_none),
	};

	if (test_is_under_valgrind()) {
		print_message("1..0 # SKIP under Valgrind signal frames are its own\n");
		return 0;
	}
	if (own_tables_open(&tables) != 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
