/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Polls that sleep on a lock that another thread holds: of whatever tasks, they have one cause. */
#include <analyze/findings/find.h>

#include <analyze/findings/poll_rule.h>
#include <analyze/findings/say.h>
#include <base/alloc.h>
#include <base/text.h>

struct lock_waits {
	uint32_t *stacks;
	uint32_t count, capacity;
	uint64_t ns, worst_ns, waits;
	const struct ky_stack_row *longest;
	/* Name indexes of all of them; KY_NONE: several. */
	uint32_t task, waker;
	uint32_t holder; /* kind of task that the thread which ended the wait polled */
	bool is_first;
};

/* What sleeps on a futex without waiting for a lock. */
static bool is_lock_wait(const struct ky_code_stacks *code, const struct ky_stack_row *row)
{
	static const char *const others[] = {"thread::park", "park_timeout", "thread_parking",
					     "Condvar",      "condvar",      "pthread_cond_",
					     "mpmc::",       "::recv",       "block_on"};
	bool is_own = false, is_tokios = false;
	const struct ky_code_line *line;
	struct ky_code_walk walk;

	if (row->kind != KY_STACK_OFF_CPU || row->reason != KY_WAIT_FUTEX || row->stack == KY_NONE)
		return false;
	ky_code_walk_begin(&walk, code, row->stack);
	/* Further out than the poll is the runtime; its own locks are held for no time. */
	while ((line = ky_code_walk_next(&walk)) && !ky_code_polls_task(line)) {
		if (KY_LINE_HAS(line, others))
			return false;
		if (!is_own && ky_line_writes_logs(line))
			return false; /* log_writing.c */
		is_tokios |= !is_own && ky_line_is_runtimes(line);
		is_own |= ky_code_is_own(line);
	}
	return !is_tokios;
}

bool ky_is_lock_case(const struct ky_poll_case *one)
{
	const struct ky_samples *samples = &one->facts->trace->samples;
	uint64_t all = 0, locks = 0;

	for (uint32_t i = 0; i < one->row_count; i++) {
		const struct ky_stack_row *row = &samples->rows[one->rows[i]];

		all += row->value;
		if (is_lock_wait(&one->facts->profile->code, row))
			locks += row->value;
	}
	return ky_share_ppm(locks, all) >= KY_FIND_HALF_PPM;
}

static bool collect(struct lock_waits *waits, const struct ky_facts *facts)
{
	const struct ky_trace *trace = facts->trace;

	for (uint32_t i = 0; i < trace->samples.row_count; i++) {
		const struct ky_stack_row *row = &trace->samples.rows[i];
		uint32_t name, waker, holder;

		if (row->kind != KY_STACK_OFF_CPU || row->task == KY_NONE ||
		    row->flags & KY_ROW_BLOCKING || row->value <= KY_FIND_LONG_NS ||
		    row->time_ns < facts->report->from_ns || row->time_ns > facts->report->to_ns ||
		    !is_lock_wait(&facts->profile->code, row))
			continue;
		if (ky_grow(&waits->stacks, &waits->capacity, waits->count + 1,
			    sizeof(*waits->stacks)))
			return false;
		waits->stacks[waits->count++] = row->stack;
		waits->ns += row->value;
		name = trace->tasks[row->task].name;
		waker = row->waker_tid ? row->waker_name : KY_NONE;
		waits->task = waits->is_first || waits->task == name ? name : KY_NONE;
		waits->waker = waits->is_first || waits->waker == waker ? waker : KY_NONE;
		holder = row->waker_task != KY_NONE ? row->waker_kind : KY_NONE;
		waits->holder = waits->is_first || waits->holder == holder ? holder : KY_NONE;
		waits->is_first = false;
		if (row->value > waits->worst_ns) {
			waits->worst_ns = row->value;
			waits->longest = row;
		}
	}
	return true;
}

static uint64_t behind_ns(const struct ky_facts *facts, uint64_t *delays)
{
	uint64_t ns = 0;

	for (uint32_t i = 0; i < facts->kind_count; i++)
		if (facts->kinds[i].is_lock_bound) {
			ns += facts->kinds[i].behind_ns;
			*delays += facts->kinds[i].behind_delays;
		}
	return ns;
}

static void say(struct ky_finding *found, const struct lock_waits *waits,
		const struct ky_facts *facts, uint64_t behind)
{
	struct ky_buf *out = &found->statement;

	ky_text(out, "Polls ");
	if (waits->task != KY_NONE) {
		ky_text(out, "of ");
		ky_say_kind(out, facts->trace, waits->task);
		ky_text(out, " ");
	}
	ky_text(out, "were blocked by a lock that another thread held");
	if (waits->waker != KY_NONE) {
		ky_text(out, ", ");
		ky_say_kind(out, facts->trace, waits->waker);
		if (waits->holder != KY_NONE) {
			ky_text(out, " in polls of ");
			ky_say_kind(out, facts->trace, waits->holder);
		}
		ky_text(out, ",");
	}
	ky_text(out, " for up to ");
	ky_say_ns(out, waits->worst_ns);
	ky_text(out, ": ");
	ky_say_many(out, waits->count, "wait, ", "waits, ");
	ky_say_ns(out, waits->ns);
	ky_text(out, ", ");
	ky_say_ppm(out, ky_share_ppm(waits->ns, facts->poll_ns));
	ky_text(out, " of the time in polls.");
	out = &found->impact;
	ky_say_ns(out, behind);
	ky_text(out, " of the time from wake to poll (");
	ky_say_ppm(out, ky_share_ppm(behind, facts->ready_ns));
	ky_text(out, ") was spent waiting for these polls; nothing else ran on their workers.");
	ky_text(&found->action,
		"Hold this lock for less time, split it, or use tokio::sync::Mutex where it is "
		"held across slow work: its waiters leave the worker to others.");
}

void ky_find_lock_convoy(struct ky_findings *findings)
{
	const struct ky_facts *facts = &findings->facts;
	struct lock_waits waits = {
		.is_first = true, .task = KY_NONE, .waker = KY_NONE, .holder = KY_NONE};
	struct ky_culprit culprit = {0};
	struct ky_finding *found = NULL;
	uint64_t delays = 0, behind;
	uint32_t score;

	if (!facts->profile)
		return;
	if (!collect(&waits, facts))
		findings->failed = true;
	else if (waits.count)
		found = ky_findings_add(findings, KY_FINDING_LOCK_CONVOY);
	if (found) {
		(void)ky_culprit_of_stacks(&culprit, &facts->profile->code, waits.stacks,
					   waits.count);
		behind = behind_ns(facts, &delays);
		found->culprit.kind = waits.task != KY_NONE  ? "task" :
				      waits.waker != KY_NONE ? "thread" :
							       "process";
		found->culprit.task = waits.task;
		found->culprit.thread = waits.waker;
		found->culprit.code = culprit.line;
		found->culprit.callee = culprit.callee;
		found->culprit.resource = "lock";
		found->confidence = KY_CONFIDENCE_PROVEN;
		found->victims = delays ? delays : waits.count;
		found->delay_ns = waits.ns + behind;
		score = ky_share_ppm(waits.ns, facts->poll_ns);
		if (ky_share_ppm(behind, facts->ready_ns) > score)
			score = ky_share_ppm(behind, facts->ready_ns);
		ky_finding_judge(found, score, waits.worst_ns);
		say(found, &waits, facts, behind);
		ky_finding_evidence(found,
				    &(struct ky_evidence){
					    .kind = "off_cpu",
					    .from_ns = waits.longest->time_ns,
					    .to_ns = waits.longest->time_ns + waits.longest->value,
					    .task = facts->trace->tasks[waits.longest->task].id,
					    .tid = waits.longest->tid,
					    .stack = waits.longest->stack,
					    .event = "OffCpuEvent"});
	}
	ky_free(waits.stacks);
}
