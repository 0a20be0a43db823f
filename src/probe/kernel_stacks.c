/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <probe/kernel_stacks.h>

#include <base/hash.h>
#include <string.h>

/* A dump has what lies in the area: stacks have to come again, before they are overwritten. */
#define TELL_NS UINT64_C(2000000000)

static uint32_t place_of(const struct ky_kernel_stacks *stacks, uint64_t number)
{
	uint32_t at = (uint32_t)(number % KY_KERNEL_STACKS);

	while (stacks->list[at].number && stacks->list[at].number != number)
		at = (at + 1) % KY_KERNEL_STACKS;
	return at;
}

uint64_t ky_kernel_stacks_add(struct ky_kernel_stacks *stacks, const uint64_t *chain,
			      uint32_t count)
{
	uint64_t frames[KY_SWITCH_STACK_MAX] = {0}, number;
	struct ky_kernel_stack *stack;

	count = count < KY_SWITCH_STACK_MAX ? count : KY_SWITCH_STACK_MAX;
	if (!count)
		return 0;
	/* As everywhere in the area: inside the call, not behind it. */
	for (uint32_t i = 0; i < count; i++)
		frames[i] = chain[i] - (i > 0);
	number = ky_switch_stack_number(frames, count);
	stack = &stacks->list[place_of(stacks, number)];
	if (stack->number)
		return number;
	/* A quarter stays free, so that looks are short. */
	if (stacks->count >= KY_KERNEL_STACKS / 4 * 3) {
		memset(stacks, 0, sizeof(*stacks));
		stack = &stacks->list[place_of(stacks, number)];
	}
	stack->number = number;
	stack->count = count;
	memcpy(stack->frames, frames, count * sizeof(*frames));
	stacks->count++;
	return number;
}

const struct ky_kernel_stack *ky_kernel_stacks_find(const struct ky_kernel_stacks *stacks,
						    uint64_t number)
{
	const struct ky_kernel_stack *stack = &stacks->list[place_of(stacks, number)];

	return number && stack->number ? stack : NULL;
}

void ky_kernel_stacks_tell(struct ky_kernel_stacks *stacks, const struct ky_sample_ring *ring,
			   uint32_t pid, uint64_t number, uint64_t now_ns)
{
	const struct ky_kernel_stack *stack = ky_kernel_stacks_find(stacks, number);
	struct ky_kernel_told *told =
		&stacks->told[ky_hash_number(number ^ (uint64_t)pid << 32) % KY_KERNEL_STACKS];
	struct ky_sample sample = {.kind = KY_SAMPLE_KERNEL,
				   .flags = KY_SAMPLE_STAMP_IS_NS,
				   .syscall = -1,
				   .stamp = now_ns,
				   .value = number};

	if (!stack || (told->number == number && told->pid == pid && now_ns - told->ns < TELL_NS))
		return;
	sample.frames = stack->frames;
	sample.frame_count = stack->count;
	if (ky_sample_put(ring, &sample))
		*told = (struct ky_kernel_told){.number = number, .ns = now_ns, .pid = pid};
}
