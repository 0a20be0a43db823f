/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Polls that sleep on a lock that another thread holds: of whatever tasks, they have one cause. */
#include <analyze/findings/find.h>

#include <analyze/findings/poll_rule.h>
#include <analyze/findings/say.h>
#include <analyze/lock_holders.h>
#include <base/alloc.h>
#include <base/earlier.h>
#include <base/text.h>

#define HOLDERS_MAX 32u
#define HELD_STACKS_MAX 4096u

/* What ended waits: polls of a kind of task, or a thread. */
struct holder {
	struct ky_lock_holder one;
	uint64_t ns;
};

struct lock_wait {
	uint32_t row;
	bool is_known; /* who held it */
	struct ky_lock_holder holder;
};

struct lock_waits {
	struct lock_wait *list;
	uint32_t *stacks, *held; /* held: stacks of the holder */
	uint32_t count, capacity, stacks_capacity, held_count;
	uint64_t ns, worst_ns;
	uint64_t heavy_count, heavy_ns; /* of those from KY_FIND_WORST_NS_MIN on */
	const struct ky_stack_row *longest;
	uint32_t task; /* name index of all that waited; KY_NONE: several */
	struct holder holders[HOLDERS_MAX];
	uint32_t holder_count;
	const struct holder *holder; /* of most of the time; NULL: of none */
};

/* What sleeps on a futex without waiting for a lock. */
static bool is_lock_wait(const struct ky_code_stacks *code, const struct ky_stack_row *row)
{
	static const char *const others[] = {"thread::park", "park_timeout", "thread_parking",
					     "Condvar",      "condvar",      "pthread_cond_",
					     "mpmc::",       "::recv",       "block_on",
					     "pthread_join", "clockjoin",    "JoinInner",
					     "Thread::join", "Thread>::join"};
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

static bool is_same(const struct ky_lock_holder *a, const struct ky_lock_holder *b)
{
	if ((a->task == KY_NONE) != (b->task == KY_NONE))
		return false;
	return a->task != KY_NONE ? a->kind == b->kind : a->thread == b->thread;
}

static void count_holder(struct lock_waits *waits, const struct ky_lock_holder *one, uint64_t ns)
{
	uint32_t i;

	for (i = 0; i < waits->holder_count && !is_same(&waits->holders[i].one, one); i++)
		;
	if (i == waits->holder_count) {
		if (i == HOLDERS_MAX)
			return;
		waits->holders[waits->holder_count++] = (struct holder){.one = *one};
	}
	waits->holders[i].ns += ns;
	if (!waits->holder || waits->holders[i].ns > waits->holder->ns)
		waits->holder = &waits->holders[i];
}

static bool collect(struct lock_waits *waits, const struct ky_facts *facts)
{
	const struct ky_trace *trace = facts->trace;

	for (uint32_t i = 0; i < trace->samples.row_count; i++) {
		const struct ky_stack_row *row = &trace->samples.rows[i];
		struct lock_wait *wait;
		uint32_t name;

		if (row->kind != KY_STACK_OFF_CPU || row->task == KY_NONE ||
		    row->flags & KY_ROW_BLOCKING || row->value <= KY_FIND_LONG_NS ||
		    row->time_ns < facts->report->from_ns || row->time_ns > facts->report->to_ns ||
		    !is_lock_wait(&facts->profile->code, row))
			continue;
		if (ky_grow(&waits->stacks, &waits->stacks_capacity, waits->count + 1,
			    sizeof(*waits->stacks)) ||
		    ky_grow(&waits->list, &waits->capacity, waits->count + 1, sizeof(*waits->list)))
			return false;
		name = trace->tasks[row->task].name;
		waits->task = waits->count == 0 || waits->task == name ? name : KY_NONE;
		wait = &waits->list[waits->count];
		wait->row = i;
		wait->is_known = ky_lock_holder_of(&wait->holder, trace, i);
		if (wait->is_known)
			count_holder(waits, &wait->holder, row->value);
		waits->stacks[waits->count++] = row->stack;
		waits->ns += row->value;
		waits->heavy_count += row->value >= KY_FIND_WORST_NS_MIN;
		waits->heavy_ns += row->value >= KY_FIND_WORST_NS_MIN ? row->value : 0;
		if (row->value > waits->worst_ns) {
			waits->worst_ns = row->value;
			waits->longest = row;
		}
	}
	if (waits->holder && ky_share_ppm(waits->holder->ns, waits->ns) < KY_FIND_HALF_PPM)
		waits->holder = NULL;
	return true;
}

/* Polls of another kind than those that waited: what they did is the cause. */
static bool is_other_task(const struct lock_waits *waits)
{
	return waits->holder && waits->holder->one.task != KY_NONE &&
	       waits->holder->one.kind != waits->task;
}

static bool collect_held(struct lock_waits *waits, const struct ky_trace *trace)
{
	waits->held = ky_alloc(HELD_STACKS_MAX * sizeof(*waits->held));
	if (!waits->held)
		return false;
	for (uint32_t i = 0; i < waits->count; i++) {
		const struct lock_wait *wait = &waits->list[i];

		if (wait->is_known && is_same(&wait->holder, &waits->holder->one))
			waits->held_count += ky_lock_holder_stacks(
				&wait->holder, trace, wait->row, &waits->held[waits->held_count],
				HELD_STACKS_MAX - waits->held_count);
	}
	return true;
}

static uint64_t behind_ns(const struct ky_facts *facts, uint64_t *delays)
{
	uint64_t ns = 0;

	for (uint32_t i = 0; i < facts->kind_count; i++)
		if (facts->kinds[i].is_lock_bound) {
			ns += facts->kinds[i].lock_behind_ns;
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
	ky_text(out, "were blocked by a lock that ");
	if (is_other_task(waits)) {
		ky_text(out, "polls of ");
		ky_say_kind(out, facts->trace, waits->holder->one.kind);
	} else {
		ky_text(out, "another thread");
	}
	ky_text(out, " held");
	if (waits->holder && waits->holder->one.task == KY_NONE &&
	    waits->holder->one.thread != KY_NONE) {
		ky_text(out, ", ");
		ky_say_kind(out, facts->trace, waits->holder->one.thread);
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

static void blame(struct ky_finding *found, const struct lock_waits *waits,
		  const struct ky_facts *facts)
{
	const struct ky_lock_holder *holder = waits->holder ? &waits->holder->one : NULL;
	struct ky_culprit culprit = {0};

	found->culprit.task = waits->task;
	found->culprit.thread = KY_NONE;
	if (holder && holder->task == KY_NONE) {
		found->culprit.thread = holder->thread;
		/* Who waited is none. */
		if (holder->thread != KY_NONE)
			found->culprit.task = KY_NONE;
	}
	if (is_other_task(waits))
		found->culprit.task = holder->kind;
	found->culprit.kind = found->culprit.task != KY_NONE   ? "task" :
			      found->culprit.thread != KY_NONE ? "thread" :
								 "process";
	if (!waits->held_count ||
	    !ky_culprit_of_stacks(&culprit, &facts->profile->code, waits->held, waits->held_count))
		(void)ky_culprit_of_stacks(&culprit, &facts->profile->code, waits->stacks,
					   waits->count);
	found->culprit.code = culprit.line;
	found->culprit.callee = culprit.callee;
	found->culprit.resource = "lock";
}

/* Long polls on CPU that held the lock are the same cause: where more of the others' time went to
 * the lock than behind those polls, the lock stands for both. */
static void lead(struct ky_finding *found, const struct ky_finding *busy,
		 const struct lock_waits *waits, const struct ky_facts *facts, uint64_t behind)
{
	const struct ky_kind_facts *kind = ky_facts_kind(facts, busy->culprit.task);
	uint64_t busy_behind = busy->victims ? busy->delay_ns : 0;
	uint32_t polls_ppm = ky_share_ppm(waits->ns + kind->sums[KY_OWN_CPU], facts->poll_ns);
	uint32_t ready_ppm = ky_share_ppm(behind + busy_behind, facts->ready_ns);

	if (waits->ns + behind < busy_behind || found->severity == KY_SEVERITY_INFO)
		return;
	polls_ppm = polls_ppm > ready_ppm ? polls_ppm : ready_ppm;
	ky_finding_judge(found, polls_ppm > busy->score_ppm ? polls_ppm : busy->score_ppm,
			 ky_later(found->worst_ns, busy->worst_ns));
	ky_text(&found->impact, " What held it are polls that ran on CPU for up to ");
	ky_say_ns(&found->impact, busy->worst_ns);
	ky_text(&found->impact, " (cpu_heavy_poll).");
}

void ky_find_lock_convoy(struct ky_findings *findings)
{
	const struct ky_facts *facts = &findings->facts;
	struct lock_waits waits = {.task = KY_NONE};
	struct ky_finding *found = NULL;
	const struct ky_finding *busy;
	uint64_t delays = 0, behind;
	uint32_t score;

	if (!facts->profile)
		return;
	if (!collect(&waits, facts) ||
	    (is_other_task(&waits) && !collect_held(&waits, facts->trace)))
		findings->failed = true;
	else if (waits.count)
		found = ky_findings_add(findings, KY_FINDING_LOCK_CONVOY);
	if (found) {
		blame(found, &waits, facts);
		behind = behind_ns(facts, &delays);
		found->confidence = KY_CONFIDENCE_PROVEN;
		found->victims = delays ? delays : waits.count;
		found->delay_ns = waits.ns + behind;
		score = ky_share_ppm(waits.ns, facts->poll_ns);
		if (ky_share_ppm(behind, facts->ready_ns) > score)
			score = ky_share_ppm(behind, facts->ready_ns);
		ky_finding_judge(found, score, waits.worst_ns);
		/* Shorter waits are what a neighbour that keeps its time slice can make. */
		if (ky_share_ppm(waits.heavy_ns, facts->poll_ns) < KY_FIND_SHARE_PPM_MIN &&
		    ky_share_ppm(behind, facts->ready_ns) < KY_FIND_SHARE_PPM_MIN)
			found->severity = KY_SEVERITY_INFO;
		ky_findings_doubt_few(findings, found, waits.heavy_count, waits.worst_ns, false);
		say(found, &waits, facts, behind);
		busy = waits.holder && waits.holder->one.task != KY_NONE ?
			       ky_findings_of_task(findings, KY_FINDING_CPU_HEAVY_POLL,
						   waits.holder->one.kind) :
			       NULL;
		if (busy && found->culprit.task == busy->culprit.task)
			lead(found, busy, &waits, facts, behind);
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
	ky_free(waits.list);
	ky_free(waits.stacks);
	ky_free(waits.held);
}
