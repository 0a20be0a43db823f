/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <watch/budget.h>

#include <string.h>

#define MINUTE_NS UINT64_C(60000000000)

void ky_budget_init(struct ky_budget *budget, uint32_t dumps_max, uint64_t bytes_max)
{
	memset(budget, 0, sizeof(*budget));
	budget->dumps_max = dumps_max ? dumps_max : KY_BUDGET_DUMPS;
	budget->bytes_max = bytes_max ? bytes_max : KY_BUDGET_BYTES;
}

bool ky_budget_allows(const struct ky_budget *budget, uint64_t now_ns)
{
	uint64_t minute = now_ns / MINUTE_NS + 1, dumps = 0, bytes = 0;

	for (uint32_t i = 0; i < KY_BUDGET_MINUTES; i++) {
		if (!budget->bins[i].minute || budget->bins[i].minute + KY_BUDGET_MINUTES <= minute)
			continue;
		dumps += budget->bins[i].dumps;
		if (bytes <= UINT64_MAX - budget->bins[i].bytes)
			bytes += budget->bins[i].bytes;
		else
			bytes = UINT64_MAX;
	}
	return dumps < budget->dumps_max && bytes < budget->bytes_max &&
	       !ky_budget_is_failing(budget, now_ns);
}

void ky_budget_add(struct ky_budget *budget, uint64_t now_ns, uint32_t dumps, uint64_t bytes)
{
	uint64_t minute = now_ns / MINUTE_NS + 1;
	uint32_t at = (uint32_t)(minute % KY_BUDGET_MINUTES);

	if (budget->bins[at].minute != minute) {
		budget->bins[at].minute = minute;
		budget->bins[at].dumps = 0;
		budget->bins[at].bytes = 0;
	}
	budget->bins[at].dumps += dumps;
	if (budget->bins[at].bytes <= UINT64_MAX - bytes)
		budget->bins[at].bytes += bytes;
	else
		budget->bins[at].bytes = UINT64_MAX;
}

void ky_budget_fail(struct ky_budget *budget, uint64_t now_ns, uint64_t since_ns)
{
	uint64_t minute = since_ns / MINUTE_NS + 1;
	uint32_t at = (uint32_t)(minute % KY_BUDGET_MINUTES);

	if (budget->bins[at].minute == minute && budget->bins[at].dumps)
		budget->bins[at].dumps--;
	budget->failed_ns[budget->failed_at] = now_ns;
	budget->failed_at = (budget->failed_at + 1) % KY_BUDGET_FAILURES;
}

bool ky_budget_is_failing(const struct ky_budget *budget, uint64_t now_ns)
{
	uint64_t oldest_ns = budget->failed_ns[budget->failed_at];

	return oldest_ns && now_ns < oldest_ns + MINUTE_NS;
}
