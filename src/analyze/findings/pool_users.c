/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/findings/pool_users.h>

#include <analyze/crate_name.h>
#include <analyze/findings/finding.h>
#include <analyze/findings/pool_runs.h>
#include <base/earlier.h>
#include <base/text.h>

#define USERS_MAX 64u /* names; of more the rest is in no row */

struct pool_user {
	uint32_t name;
	uint64_t ns;
};

static bool is_librarys(const char *name)
{
	static const char *const crates[] = {"tokio::", "std::", "core::", "alloc::"};

	static const char wrapper[] = "tokio::runtime::blocking::task::BlockingTask<";

	name = ky_crate_name_begin(name);
	if (ky_text_begins(name, wrapper))
		name += sizeof(wrapper) - 1;
	for (size_t i = 0; i < sizeof(crates) / sizeof(*crates); i++)
		if (ky_text_begins(name, crates[i]))
			return true;
	return false;
}

static uint32_t user_of(const struct ky_trace *trace, const struct ky_blocking_run *run)
{
	const char *name = ky_trace_name(trace, run->name);

	if (name && !is_librarys(name) && !ky_text_contains(name, " or "))
		return run->name;
	if (run->waiter != KY_NONE)
		return trace->tasks[run->waiter].name;
	return name && !is_librarys(name) ? run->name : KY_NONE;
}

/* One of several functions that the compiler made one of: it says nothing of those in line where
 * theirs is among them. */
static bool is_folded_with(const struct ky_trace *trace, uint32_t name, uint32_t in_line)
{
	const char *text = ky_trace_name(trace, name), *other = ky_trace_name(trace, in_line);

	return text && other && ky_text_contains(text, " or ") && ky_text_contains(text, other);
}

uint32_t ky_pool_user(const struct ky_facts *facts, uint32_t in_line, uint32_t *share_ppm)
{
	const struct ky_trace *trace = facts->trace;
	struct pool_user users[USERS_MAX];
	uint32_t count = 0, most = 0, at;
	uint64_t all_ns = 0;

	for (uint32_t i = 0; i < trace->blocking_count; i++) {
		const struct ky_blocking_run *run = &trace->blocking_runs[i];
		uint64_t from_ns = ky_later(run->start_ns, facts->report->from_ns);
		uint64_t to_ns = ky_earlier(run->start_ns + run->duration_ns, facts->report->to_ns);
		uint32_t name = user_of(trace, run);

		if ((run->is_open && ky_pool_run_is_workers(trace, run)) || to_ns <= from_ns)
			continue;
		all_ns += to_ns - from_ns;
		for (at = 0; at < count && users[at].name != name; at++)
			;
		if (name == KY_NONE || at == USERS_MAX)
			continue;
		if (at == count)
			users[count++] = (struct pool_user){name, 0};
		users[at].ns += to_ns - from_ns;
		if (users[at].ns > users[most].ns)
			most = at;
	}
	*share_ppm = count ? ky_share_ppm(users[most].ns, all_ns) : 0;
	return *share_ppm >= KY_FIND_HALF_PPM && !is_folded_with(trace, users[most].name, in_line) ?
		       users[most].name :
		       KY_NONE;
}
