/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Records four polls and then the same few events in each of four rounds, through the C API, and
 * leaves its ring to its parent. Stops with SIGUSR1 where a tracer is to come or to go: before the
 * second round, inside the poll of the third, inside that of the fourth, and before the end.
 *
 *   usdt_host
 */
#include <kymo/kymo.h>
#include <signal.h>

#include "../lib/host_recorder.h"

#define PLACED "src/host.rs:57:9"

static void play(uint64_t round, uint32_t placed)
{
	uint64_t task = round * 10;

	kymo_spawn(task, placed);
	kymo_wake(task, 0, KYMO_WAKE_BY_VALUE);
	kymo_poll_begin(task, placed, KYMO_QUEUE_UNKNOWN);
	kymo_spawn(task + 1, name);
	kymo_wake(task + 1, 0, 0);
	kymo_poll_begin(task + 1, name, KYMO_QUEUE_UNKNOWN);
	kymo_poll_end(KYMO_POLL_READY);
	if (round > 2)
		raise(SIGUSR1);
	kymo_poll_end(0);
	kymo_park(KYMO_WAIT_EPOLL);
	kymo_unpark(3);
	kymo_task_end(task, placed);
}

int main(void)
{
	uint32_t placed;

	if (open_recorder() < 0)
		return 65;
	signal(SIGUSR1, SIG_IGN);
	placed = kymo_name_intern(PLACED, sizeof(PLACED) - 1, (uintptr_t)&main, 0, 0);
	kymo_worker_begin(0, 0, 77, 78);
	poll_times(4);
	for (uint64_t round = 1; round <= 4; round++) {
		if (round == 2)
			raise(SIGUSR1);
		play(round, placed);
	}
	kymo_worker_end();
	raise(SIGUSR1);
	return 0;
}
