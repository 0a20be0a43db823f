/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ring/ring_guard.h>

#include <kymo/base.h>
#include <setjmp.h>
#include <signal.h>

static sigjmp_buf fault_return;
static struct ky_guarded_area guarded[KY_GUARDED_AREAS_MAX];
static volatile size_t guarded_count;

static void on_bus_error(int signal, siginfo_t *info, void *context)
{
	uintptr_t at = (uintptr_t)info->si_addr;
	size_t i;

	(void)context;
	for (i = 0; i < guarded_count; i++)
		if (at - (uintptr_t)guarded[i].start < guarded[i].bytes)
			siglongjmp(fault_return, 1);
	/* Not ours: it comes again, and ends us as it would have. */
	sigaction(signal, &(const struct sigaction){.sa_handler = SIG_DFL}, NULL);
}

int ky_ring_guard(const struct ky_guarded_area *areas, size_t area_count, int (*work)(void *ctx),
		  void *ctx)
{
	struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
	struct sigaction before;
	volatile int result; /* survives the jump */
	size_t i;

	if (area_count > KY_GUARDED_AREAS_MAX)
		return KYMO_E_LIMIT;
	for (i = 0; i < area_count; i++)
		guarded[i] = areas[i];
	guarded_count = area_count;
	sigaction(SIGBUS, &action, &before);
	if (sigsetjmp(fault_return, 1) == 0)
		result = work(ctx);
	else
		result = KYMO_E_TRUNCATED;
	guarded_count = 0;
	sigaction(SIGBUS, &before, NULL);
	return result;
}
