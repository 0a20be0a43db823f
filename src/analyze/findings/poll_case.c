/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/findings/poll_case.h>

#include <analyze/cpu_cover.h>
#include <analyze/share.h>
#include <base/alloc.h>
#include <base/earlier.h>
#include <base/text.h>
#include <errno.h>

#define WAYS_MAX 16u /* pairs of reason and system call; the rest are rare */

struct blocked_way {
	uint32_t syscall, reason, fd_kind;
	uint64_t ns;
};

static uint64_t weight_of(const struct ky_stack_row *row)
{
	return row->value ? row->value : 1;
}

static bool is_of(const struct ky_poll_case *one, const struct ky_stack_row *row)
{
	const struct ky_trace *trace = one->facts->trace;

	return row->kind == (one->is_blocked ? KY_STACK_OFF_CPU : KY_STACK_CPU) &&
	       row->task != KY_NONE && row->stack != KY_NONE && !(row->flags & KY_ROW_BLOCKING) &&
	       row->poll_ns > KY_FIND_LONG_NS && row->time_ns >= one->facts->report->from_ns &&
	       row->time_ns <= one->facts->report->to_ns &&
	       trace->tasks[row->task].name == one->kind->name &&
	       !(one->is_blocked && row->reason == KY_WAIT_PREEMPTED);
}

static int collect(struct ky_poll_case *one)
{
	const struct ky_samples *samples = &one->facts->trace->samples;
	uint32_t capacity = 0;

	for (uint32_t i = 0; i < samples->row_count && one->row_count < KY_POLL_CASE_ROWS_MAX;
	     i++) {
		if (!is_of(one, &samples->rows[i]))
			continue;
		if (ky_grow(&one->rows, &capacity, one->row_count + 1, sizeof(*one->rows)))
			return -ENOMEM;
		one->rows[one->row_count++] = i;
		if (one->most == KY_NONE ||
		    weight_of(&samples->rows[i]) > weight_of(&samples->rows[one->most]))
			one->most = i;
	}
	return 0;
}

static void find_way(struct ky_poll_case *one)
{
	const struct ky_samples *samples = &one->facts->trace->samples;
	struct blocked_way ways[WAYS_MAX] = {{0}};
	uint32_t count = 0, at, best = 0;
	uint64_t all = 0;

	for (uint32_t i = 0; i < one->row_count; i++) {
		const struct ky_stack_row *row = &samples->rows[one->rows[i]];

		all += weight_of(row);
		for (at = 0; at < count; at++)
			if (ways[at].syscall == row->syscall && ways[at].reason == row->reason)
				break;
		if (at == WAYS_MAX)
			continue;
		if (at == count)
			ways[count++] = (struct blocked_way){row->syscall, row->reason,
							     row->fd_kind, 0};
		ways[at].ns += weight_of(row);
		if (ways[at].ns > ways[best].ns)
			best = at;
	}
	if (!count || ky_share_ppm(ways[best].ns, all) < KY_FIND_HALF_PPM)
		return;
	one->syscall = ways[best].syscall;
	one->reason = ways[best].reason;
	one->fd_kind = ways[best].fd_kind;
}

static int find_culprit(struct ky_poll_case *one)
{
	const struct ky_samples *samples = &one->facts->trace->samples;
	uint32_t *stacks;

	if (one->row_count < (one->is_blocked ? 1u : KY_FIND_SAMPLES_MIN))
		return 0;
	stacks = ky_alloc(one->row_count * sizeof(*stacks));
	if (!stacks)
		return -ENOMEM;
	for (uint32_t i = 0; i < one->row_count; i++)
		stacks[i] = samples->rows[one->rows[i]].stack;
	(void)ky_culprit_of_stacks(&one->culprit, &one->facts->profile->code, stacks,
				   one->row_count);
	ky_free(stacks);
	return 0;
}

static uint32_t share_ppm(const struct ky_poll_case *one,
			  bool (*is_one)(const struct ky_code_line *line),
			  bool (*is_end)(const struct ky_code_line *line))
{
	const struct ky_samples *samples = &one->facts->trace->samples;
	uint64_t all = 0, part = 0;

	for (uint32_t i = 0; i < one->row_count; i++) {
		const struct ky_stack_row *row = &samples->rows[one->rows[i]];
		const struct ky_code_line *line;
		struct ky_code_walk walk;

		all += weight_of(row);
		ky_code_walk_begin(&walk, &one->facts->profile->code, row->stack);
		while ((line = ky_code_walk_next(&walk)) && !(is_end && is_end(line)))
			if (is_one(line)) {
				part += weight_of(row);
				break;
			}
	}
	return ky_share_ppm(part, all);
}

uint32_t ky_poll_case_share_ppm(const struct ky_poll_case *one,
				bool (*is_one)(const struct ky_code_line *line))
{
	return share_ppm(one, is_one, NULL);
}

uint32_t ky_poll_case_inside_ppm(const struct ky_poll_case *one,
				 bool (*is_one)(const struct ky_code_line *line))
{
	return share_ppm(one, is_one, ky_code_polls_task);
}

/* Where all of the program's functions are inlined, and have no name, the poll ends them. */
static bool is_callers(const struct ky_code_line *line)
{
	return ky_code_is_own(line) ||
	       (ky_code_polls_task(line) && !ky_text_contains(line->name, "JoinHandle"));
}

uint32_t ky_poll_case_called_ppm(const struct ky_poll_case *one,
				 bool (*is_one)(const struct ky_code_line *line))
{
	return share_ppm(one, is_one, is_callers);
}

/* At most that long did such polls run, by the samples of CPU time that fell in them: 95 % of a
 * Poisson count, three where there is none. UINT64_MAX: samples do not say. */
static uint64_t on_cpu_max_ns(const struct ky_poll_case *one)
{
	const struct ky_samples *samples = &one->facts->trace->samples;
	uint64_t ns = 0, most_ns = 0, count = 0;
	struct ky_cpu_cover cover;

	/* Where the kernel counted more CPU time than has samples, none is no proof. */
	ky_cpu_cover_find(&cover, one->facts->trace, one->facts->report->from_ns,
			  one->facts->report->to_ns);
	if (one->facts->is_lossy || ky_cpu_cover_missing_ns(&cover))
		return UINT64_MAX;
	for (uint32_t i = 0; i < samples->row_count; i++) {
		const struct ky_stack_row *row = &samples->rows[i];

		if (row->kind != KY_STACK_CPU)
			continue;
		if (!row->value)
			return UINT64_MAX;
		most_ns = ky_later(most_ns, row->value);
		if (row->task == KY_NONE || row->poll_ns <= KY_FIND_LONG_NS ||
		    one->facts->trace->tasks[row->task].name != one->kind->name)
			continue;
		ns += row->value;
		count++;
	}
	return most_ns ? ns + ky_whole((double)most_ns *
				       (3.0 + 1.65 * ky_square_root((double)count))) :
			 UINT64_MAX;
}

/* What is in neither half is divided as the rest is; where there is no rest, as samples say: what
 * has fewer of them than its length asks for did not run, though what it did is not known. */
static void take_half(struct ky_poll_case *one, uint64_t off_ns)
{
	const struct ky_kind_facts *kind = one->kind;
	uint64_t cpu = kind->sums[KY_OWN_CPU], blocked = kind->sums[KY_OWN_BLOCKED];
	uint64_t unsplit = kind->sums[KY_OWN_UNSPLIT], runnable = kind->sums[KY_OWN_RUNNABLE];
	enum ky_own_part half = one->is_blocked ? KY_OWN_BLOCKED : KY_OWN_CPU;
	uint64_t behind_cpu = kind->behind_sums[KY_PART_BEHIND_CPU];
	uint64_t behind_blocked = kind->behind_sums[KY_PART_BEHIND_BLOCKED];
	uint64_t behind_rest = kind->behind_sums[KY_PART_BEHIND_UNSPLIT] +
			       kind->behind_sums[KY_PART_LIFO];
	uint64_t known = cpu + blocked + runnable;
	uint32_t share;

	one->ns = kind->sums[half];
	one->worst_ns = kind->worst[half];
	one->is_guessed = unsplit > known;
	share = ky_share_ppm(one->ns, known);
	one->is_unknown = one->is_guessed && !off_ns &&
			  !one->facts->trace->samples.counts[KY_STACK_CPU];
	if (one->is_guessed) {
		share = ky_share_ppm(off_ns, unsplit + known);
		if (!one->is_blocked) {
			uint64_t max_ns = on_cpu_max_ns(one);
			uint64_t rest_ns = max_ns - ky_earlier(max_ns, cpu);

			share = (uint32_t)ky_earlier(1000000 - share,
						     ky_share_ppm(rest_ns, unsplit));
		}
		if (kind->worst[KY_OWN_UNSPLIT] > one->worst_ns && share >= KY_FIND_HALF_PPM)
			one->worst_ns = kind->worst[KY_OWN_UNSPLIT];
	}
	one->ns += ky_ppm_of(unsplit, share);
	one->behind_ns = (one->is_blocked ? behind_blocked : behind_cpu) +
			 ky_ppm_of(behind_rest, share);
	if (one->behind_ns > kind->behind_ns)
		one->behind_ns = kind->behind_ns;
	one->behind_worst_ns = one->is_blocked ? kind->behind_blocked_worst_ns :
						 kind->behind_cpu_worst_ns;
}

static uint64_t off_cpu_ns(const struct ky_poll_case *one)
{
	const struct ky_samples *samples = &one->facts->trace->samples;
	uint64_t ns = 0;

	for (uint32_t i = 0; i < samples->row_count; i++) {
		const struct ky_stack_row *row = &samples->rows[i];

		if (row->kind == KY_STACK_OFF_CPU && row->task != KY_NONE &&
		    !(row->flags & KY_ROW_BLOCKING) && row->poll_ns > KY_FIND_LONG_NS &&
		    one->facts->trace->tasks[row->task].name == one->kind->name)
			ns += row->value;
	}
	return ns;
}

int ky_poll_case_make(struct ky_poll_case *out, const struct ky_facts *facts,
		      const struct ky_kind_facts *kind, bool is_blocked)
{
	int result;

	*out = (struct ky_poll_case){.facts = facts,
				     .kind = kind,
				     .is_blocked = is_blocked,
				     .most = KY_NONE,
				     .syscall = KY_NO_SYSCALL};
	take_half(out, off_cpu_ns(out));
	if (!facts->profile)
		return 0;
	result = collect(out);
	if (!result) {
		find_way(out);
		result = find_culprit(out);
	}
	if (result)
		ky_poll_case_release(out);
	return result;
}

void ky_poll_case_release(struct ky_poll_case *one)
{
	ky_free(one->rows);
	one->rows = NULL;
}
