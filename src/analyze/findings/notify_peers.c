/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/findings/notify_peers.h>

static uint32_t find(const struct ky_notify_peers *peers, uint32_t name)
{
	uint32_t i = 0;

	while (i < peers->count && peers->names[i] != name)
		i++;
	return i;
}

static uint32_t find_or_add(struct ky_notify_peers *peers, uint32_t name)
{
	uint32_t at = find(peers, name);

	if (at == peers->count && at < KY_NOTIFY_KINDS_MAX)
		peers->names[peers->count++] = name;
	return at;
}

void ky_notify_peers_add(struct ky_notify_peers *peers, uint32_t waker, uint32_t woken)
{
	uint32_t from = find_or_add(peers, waker), to = find_or_add(peers, woken);

	if (from < KY_NOTIFY_KINDS_MAX && to < KY_NOTIFY_KINDS_MAX)
		peers->woken[from] |= 1u << to;
}

static bool wake_each_other(const struct ky_notify_peers *peers, uint32_t one, uint32_t other)
{
	return peers->woken[one] >> other & 1u && peers->woken[other] >> one & 1u;
}

bool ky_notify_peers_are(const struct ky_notify_peers *peers, uint32_t one, uint32_t other)
{
	uint32_t a = find(peers, one), b = find(peers, other), reached = 0, before;

	if (one == other)
		return true;
	if (a == peers->count || b == peers->count || !wake_each_other(peers, a, b))
		return false;
	reached = 1u << a;
	/* Is there another way from one to the other? */
	for (before = 0; reached != before;) {
		before = reached;
		for (uint32_t i = 0; i < peers->count; i++)
			for (uint32_t j = 0; (reached >> i & 1u) && j < peers->count; j++)
				if (wake_each_other(peers, i, j) && !(i == a && j == b))
					reached |= 1u << j;
	}
	return reached >> b & 1u;
}
