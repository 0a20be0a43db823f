/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <agent/probe_filters.h>

#include <fcntl.h>
#include <proc/call_filters.h>
#include <stdio.h>
#include <unistd.h>

#define PACE_NS UINT64_C(1000000000)

static void allow(struct ky_probe_filters *filters, bool is_allowed)
{
	const uint32_t word = is_allowed;

	if (filters->is_allowed == is_allowed)
		return;
	filters->is_allowed = is_allowed;
	(void)ky_ring_access_store(&filters->access,
				   filters->view->header->page_bytes +
					   offsetof(struct ky_ring_control, may_call),
				   &word, sizeof(word));
}

static uint64_t step(void *self, const struct ky_probe_moment *moment)
{
	struct ky_probe_filters *filters = self;
	int count;

	if (filters->process < 0 || moment->now_ns < filters->due_ns)
		return filters->process < 0 ? UINT64_MAX : filters->due_ns;
	if (!atomic_load_explicit(&filters->view->header->claim_index, memory_order_acquire))
		return UINT64_MAX; /* an event wakes us */
	/* Threads inherit what the one had that started them: all of them once. */
	count = ky_call_filters(filters->process, !filters->is_allowed);
	allow(filters, count >= 0 && count <= filters->own);
	filters->due_ns = moment->now_ns + PACE_NS;
	return filters->due_ns;
}

static void close_process(void *self)
{
	struct ky_probe_filters *filters = self;

	if (filters->process >= 0)
		close(filters->process);
	filters->process = -1;
}

struct ky_probe ky_probe_filters_init(struct ky_probe_filters *filters, uint32_t pid,
				      const struct ky_ring_view *view,
				      const struct ky_ring_access *access)
{
	char path[32];
	int own = open("/proc/thread-self", O_PATH | O_DIRECTORY | O_CLOEXEC);

	(void)snprintf(path, sizeof(path), "/proc/%u", pid);
	*filters = (struct ky_probe_filters){.view = view,
					     .access = *access,
					     .process = open(path,
							     O_PATH | O_DIRECTORY | O_CLOEXEC),
					     .own = own < 0 ? 0 : ky_call_filters(own, false)};
	if (own >= 0)
		close(own);
	return (struct ky_probe){.self = filters, .step = step, .close = close_process};
}
