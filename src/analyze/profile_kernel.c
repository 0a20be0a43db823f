/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Where in the kernel the threads of one row were when they left the processor. */
#include <analyze/profile_cpu.h>
#include <base/alloc.h>
#include <base/hash.h>
#include <errno.h>
#include <read/sort.h>

/* Of stacks that read the same: hashes of names are enough to tell apart what is printed. */
struct path {
	uint64_t names;
	struct ky_stack_profile_kernel of;
	uint32_t first; /* row */
};

static uint64_t hash_names(const struct ky_code_stacks *code, uint32_t stack)
{
	const struct ky_code_line *line;
	struct ky_code_walk walk;
	uint64_t hash = KY_HASH_START;

	ky_code_walk_begin_kernel(&walk, code, stack, KY_NONE);
	while ((line = ky_code_walk_next(&walk)))
		hash = ky_hash_number(hash ^ line->function);
	return hash;
}

static bool is_path_before(const void *a, const void *b, const void *ctx)
{
	const struct path *one = a, *other = b;

	(void)ctx;
	if (one->names != other->names)
		return one->names < other->names;
	return one->first < other->first;
}

/* Equal ones in the order of time. */
static bool is_longer(const void *a, const void *b, const void *ctx)
{
	const struct path *one = a, *other = b;

	(void)ctx;
	if (one->of.ns > other->of.ns || one->of.ns < other->of.ns)
		return one->of.ns > other->of.ns;
	return one->first < other->first;
}

static uint32_t list(struct path *paths, struct ky_stack_profile_wait *wait,
		     const struct ky_code_stacks *code, const struct ky_trace *trace,
		     const struct ky_keyed_row *rows, uint32_t count)
{
	uint32_t listed = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct ky_stack_row *row = &trace->samples.rows[rows[i].row];
		double ns = row->weight * (double)row->value;

		if (row->kernel == KY_NONE)
			continue;
		paths[listed++] = (struct path){
			hash_names(code, row->kernel), {row->kernel, 1, ns}, rows[i].row};
		wait->kernel_seen++;
		wait->kernel_ns += ns;
	}
	ky_sort(paths, listed, sizeof(*paths), is_path_before, NULL);
	return listed;
}

int ky_stack_profile_kernels(struct ky_stack_profile_wait *wait,
			     const struct ky_stack_profile *profile, const struct ky_trace *trace,
			     const struct ky_keyed_row *rows, uint32_t count)
{
	struct path *paths = ky_alloc(((size_t)count + 1) * sizeof(*paths));
	uint32_t listed, found = 0;

	if (!paths)
		return -ENOMEM;
	listed = list(paths, wait, &profile->code, trace, rows, count);
	for (uint32_t i = 0; i < listed; i++) {
		if (found && paths[found - 1].names == paths[i].names) {
			paths[found - 1].of.count++;
			paths[found - 1].of.ns += paths[i].of.ns;
		} else {
			paths[found++] = paths[i];
		}
	}
	ky_sort(paths, found, sizeof(*paths), is_longer, NULL);
	wait->kernel_total = found;
	wait->kernel_count = found < KY_STACK_PROFILE_KERNELS ? found : KY_STACK_PROFILE_KERNELS;
	for (uint32_t i = 0; i < wait->kernel_count; i++)
		wait->kernels[i] = paths[i].of;
	ky_free(paths);
	return 0;
}
