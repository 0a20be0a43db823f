/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <probe/fault_stacks.h>

#include <errno.h>
#include <probe/perf_walk.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As much as most stacks have; a ring has room for 42 of them. */
#define STACK_BYTES 12288u
#define RING_BYTES (1u << 19)
#define TEST_RING_BYTES (1u << 16)
#define PAGE 4096u
#define TEST_PAGES 3u
#define SECOND_NS UINT64_C(1000000000)
#define KEEP_NS (10 * SECOND_NS)
#define PRICE_NS (SECOND_NS / KY_FAULT_STACKS_HZ)
#define LEFT_NS_MAX (KY_FAULT_STACKS * PRICE_NS)

static struct ky_perf_options options_like(const struct ky_perf_options *how)
{
	return (struct ky_perf_options){.is_faults = true,
					.has_kernel = how->has_kernel,
					.is_of_threads = how->is_of_threads,
					.is_held = how->is_held,
					.stack_bytes = STACK_BYTES,
					.ring_bytes_max = RING_BYTES};
}

/* ---- the test ---- */

struct fault_verdict {
	uint32_t stacks, faults, swollen;
};

static void on_test_sample(void *ctx, const struct ky_perf_sample *sample)
{
	struct fault_verdict *verdict = ctx;

	verdict->stacks += sample->has_registers && sample->pc && sample->stack_bytes;
}

static void on_test_fault(void *ctx, const struct ky_perf_switch *what)
{
	struct fault_verdict *verdict = ctx;

	verdict->faults += what->kind == KY_SWITCH_FAULT;
	verdict->swollen += what->kind == KY_SWITCH_FAULT && what->is_swollen;
}

/* First touches: no device is asked, but the kernel goes the same way. */
static int touch_pages(void)
{
	void *pages = mmap(NULL, TEST_PAGES * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		return -errno;
	for (uint32_t i = 0; i < TEST_PAGES; i++)
		((volatile char *)pages)[i * PAGE] = 1;
	munmap(pages, TEST_PAGES * PAGE);
	return 0;
}

int ky_fault_stacks_test(const struct ky_perf_options *how)
{
	struct ky_perf_options stacks = options_like(how), plain = *how;
	pid_t tid = (pid_t)syscall(SYS_gettid);
	struct ky_perf *first = NULL, *second = NULL;
	struct fault_verdict verdict = {0};
	int err;

	stacks.ring_bytes_max = plain.ring_bytes_max = TEST_RING_BYTES;
	stacks.is_minor = plain.is_minor = true;
	err = ky_perf_open(&first, &stacks, tid);
	if (!err)
		err = ky_perf_open(&second, &plain, tid);
	if (!err)
		err = ky_perf_pause(first, false);
	if (!err)
		err = ky_perf_pause(second, false);
	if (!err)
		err = touch_pages();
	if (!err) {
		(void)ky_perf_read(first, on_test_sample, &verdict);
		(void)ky_perf_read_switches(second, on_test_fault, &verdict);
		if (verdict.swollen)
			err = -E2BIG;
		else if (!verdict.stacks || !verdict.faults)
			err = -ENODATA;
	}
	ky_perf_close(second);
	ky_perf_close(first);
	return err;
}

/* ---- opening ---- */

void ky_fault_stacks_open(struct ky_fault_stacks *of, const struct ky_perf_options *how, pid_t pid,
			  bool is_running)
{
	const struct ky_perf_options faults = options_like(how);

	if (of->refusal)
		return;
	if (is_running && !how->is_held)
		of->refusal = ky_perf_add_all(&of->perf, &faults, pid);
	else
		of->refusal = ky_perf_open(&of->perf, &faults, pid);
	if (of->refusal)
		ky_fault_stacks_close(of);
}

int ky_fault_stacks_attach(struct ky_fault_stacks *of, pid_t pid)
{
	return ky_perf_add_all(&of->perf, NULL, pid);
}

void ky_fault_stacks_close(struct ky_fault_stacks *of)
{
	ky_perf_close(of->perf);
	of->perf = NULL;
	of->is_counting = false;
}

void ky_fault_stacks_note(struct ky_fault_stacks *of, uint64_t ns)
{
	of->reported_ns = ns > of->reported_ns ? ns : of->reported_ns;
}

void ky_fault_stacks_follow(struct ky_fault_stacks *of, bool is_open, uint64_t now_ns)
{
	bool is_wanted = is_open && (!of->has_gaps ||
				     (of->reported_ns && (now_ns < of->reported_ns ||
							  now_ns - of->reported_ns < KEEP_NS)));

	if (!of->perf || is_wanted == of->is_counting)
		return;
	of->is_counting = is_wanted;
	(void)ky_perf_pause(of->perf, !is_wanted);
}

bool ky_fault_stacks_may(struct ky_fault_stacks *of, uint64_t ns)
{
	uint64_t gained_ns = ns > of->filled_ns ? ns - of->filled_ns : 0;

	if (gained_ns) {
		of->left_ns = gained_ns < LEFT_NS_MAX - of->left_ns ? of->left_ns + gained_ns :
								      LEFT_NS_MAX;
		of->filled_ns = ns;
	}
	if (of->left_ns < PRICE_NS)
		return false;
	of->left_ns -= PRICE_NS;
	return true;
}

uint64_t ky_fault_stacks_add(struct ky_fault_stacks *of, const struct ky_fault_stack *stack)
{
	struct ky_fault_stack *kept = &of->list[(of->newest + 1) % KY_FAULT_STACKS];

	kept->is_truncated = stack->is_truncated || stack->count > KY_FAULT_FRAMES_MAX;
	kept->count = stack->count < KY_FAULT_FRAMES_MAX ? stack->count : KY_FAULT_FRAMES_MAX;
	memcpy(kept->frames, stack->frames, kept->count * sizeof(*kept->frames));
	kept->number = ++of->newest;
	return kept->number;
}

const struct ky_fault_stack *ky_fault_stacks_find(const struct ky_fault_stacks *of, uint64_t number)
{
	const struct ky_fault_stack *stack = &of->list[number % KY_FAULT_STACKS];

	return number && stack->number == number ? stack : NULL;
}

/* ---- reading ---- */

struct fault_reading {
	struct ky_fault_stacks *of;
	const struct ky_switch_places *places;
	ky_perf_switch_fn fn;
	void *ctx;
};

static void on_sample(void *ctx, const struct ky_perf_sample *sample)
{
	const struct fault_reading *reading = ctx;
	const struct ky_switch_places *places = reading->places;
	struct ky_perf_switch what = {
		.pid = sample->pid, .tid = sample->tid, .ns = sample->ns, .kind = KY_SWITCH_FAULT};
	struct ky_fault_stack stack = {.count = 0};
	struct ky_unwind_view view;

	/* Without tables it would be one frame, and a guess. */
	if (!places->tables || !places->tables(places->ctx, sample->pid, sample->ns, &view) ||
	    !ky_fault_stacks_may(reading->of, sample->ns))
		return;
	stack.is_truncated = !ky_perf_walk(&view, sample, stack.frames, &stack.count);
	if (!stack.count)
		return;
	what.user = ky_fault_stacks_add(reading->of, &stack);
	reading->fn(reading->ctx, &what);
}

uint32_t ky_fault_stacks_read(struct ky_fault_stacks *of, const struct ky_switch_places *places,
			      ky_perf_switch_fn fn, void *ctx)
{
	struct fault_reading reading = {of, places, fn, ctx};

	return of->perf ? ky_perf_read(of->perf, on_sample, &reading) : 0;
}
