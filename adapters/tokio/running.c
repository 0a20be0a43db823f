/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "running.h"

#include <kymo/base.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "allocs.h"
#include "blocking.h"
#include "hooks.h"
#include "live.h"
#include "nonblocking.h"
#include "parked_on.h"
#include "runtimes.h"
#include "search.h"

int ky_tokio_say(const struct ky_tokio_answer *answer, int result, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(answer->text, answer->text_bytes, format, args);
	va_end(args);
	return result;
}

void ky_tokio_running_forget(void)
{
	(void)ky_tokio_live_restore(); /* nothing was stored: forgets what was noted */
}

static int find(struct ky_tokio_search *search, const struct ky_tokio_answer *answer)
{
	struct ky_tokio_found *found = &search->found;

	/* Tables that were known keep their indexes, for polls of an earlier recording may still be
	 * under way. */
	search->when = KY_TOKIO_WHEN_RUNNING;
	search->is_full = search->has_recorder = false;
	found->early_count = found->table_count;
	found->refused_count = found->unstable_count = found->object_count = 0;
	found->shape_count = 0;
	search->versions[0] = '\0';
	ky_tokio_search_all();
	if (ky_tokio_search_met_recorder())
		return ky_tokio_say(answer, KYMO_E_ACTIVE,
				    "refused another recorder is part of this program\n");
	if (found->object_count == 0)
		return ky_tokio_say(answer, KYMO_E_UNSUPPORTED,
				    found->refused_count ?
					    "unknown-layout no table is laid out as expected\n" :
				    ky_tokio_search_is_tokio() ? "stripped\n" :
								 "no-tokio\n");
	if (search->is_full)
		return ky_tokio_say(answer, KYMO_E_LIMIT,
				    "refused it has more tables than kymo keeps\n");
	return 0;
}

int ky_tokio_running_find(const struct ky_tokio_answer *answer)
{
	int result;

	if (ky_tokio_search.is_open)
		return ky_tokio_say(answer, KYMO_E_ACTIVE, "refused it is recorded already\n");
	result = find(&ky_tokio_search, answer);
	if (result < 0)
		ky_tokio_running_forget();
	return result;
}

int ky_tokio_running_begin(const struct ky_tokio_answer *answer)
{
	struct ky_tokio_search *search = &ky_tokio_search;
	int result;

	atomic_fetch_add_explicit(&ky_tokio_generation, 1, memory_order_relaxed);
	ky_tokio_runtimes_start_over();
	ky_tokio_parked_on_learn();
	ky_tokio_nonblocking_start_over();
	atomic_store_explicit(&ky_tokio_call_ticks_min, 0, memory_order_relaxed);
	ky_tokio_search_name();
	result = ky_tokio_live_apply();
	if (result < 0)
		return ky_tokio_say(answer, result,
				    "refused memory could not be made writable: %s\n",
				    kymo_error_text(result));
	search->is_open = true;
	return ky_tokio_say(answer, 0, "ok tables=%u copies=%u refused=%u shaped=%u\n",
			    search->found.table_count, search->found.copy_count,
			    search->found.refused_count, search->found.shape_count);
}

int ky_tokio_running_end(const struct ky_tokio_answer *answer)
{
	uint32_t count = ky_tokio_live_count();
	int result;

	if (!ky_tokio_search.is_open)
		return ky_tokio_say(answer, KYMO_E_CLOSED, "refused it is not recorded\n");
	/* Libraries that it opens from now on are left alone. */
	ky_tokio_search.when = KY_TOKIO_WHEN_RUNNING;
	ky_tokio_allocs_stop();
	result = ky_tokio_live_restore();
	if (result < 0)
		return ky_tokio_say(answer, result,
				    "refused memory could not be made writable: %s\n",
				    kymo_error_text(result));
	ky_tokio_search.is_open = false;
	return ky_tokio_say(answer, 0, "ok words=%u\n", count);
}
