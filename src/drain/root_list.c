/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <drain/root_list.h>

#include <base/alloc.h>
#include <string.h>

static struct ky_drain_root *find(const struct ky_root_list *roots, uint64_t id)
{
	for (uint32_t i = 0; i < roots->count; i++)
		if (roots->list[i].id == id)
			return &roots->list[i];
	return NULL;
}

static struct ky_drain_root *oldest(const struct ky_root_list *roots)
{
	struct ky_drain_root *oldest = roots->list;

	for (uint32_t i = 1; i < roots->count; i++)
		if (roots->list[i].last_ns < oldest->last_ns)
			oldest = &roots->list[i];
	return oldest;
}

struct ky_drain_root *ky_root_list_take(struct ky_root_list *roots, uint64_t id)
{
	struct ky_drain_root *root = find(roots, id);

	if (root)
		return root;
	if (roots->count == KY_ROOTS_MAX) {
		root = oldest(roots);
	} else {
		if (ky_grow(&roots->list, &roots->capacity, roots->count + 1, sizeof(*roots->list)))
			return NULL;
		root = &roots->list[roots->count++];
	}
	*root = (struct ky_drain_root){.id = id};
	return root;
}

enum ky_root_now ky_root_list_now(const struct ky_root_list *roots, uint64_t id)
{
	const struct ky_drain_root *root = find(roots, id);

	if (!root)
		return KY_ROOT_UNKNOWN;
	return root->waits && !root->is_open ? KY_ROOT_WAITS : KY_ROOT_POLLED;
}

void ky_root_list_release(struct ky_root_list *roots)
{
	ky_free(roots->list);
	memset(roots, 0, sizeof(*roots));
}
