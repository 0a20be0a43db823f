/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Tasks that wait for what one other task owes them, an answer by a oneshot or room in a bounded
 * channel, for far longer than code of the program ever let them wait. Whose debt it is, no event
 * says: the kind that woke them most often before. Where that one waits in the same way, the next
 * one is asked, and where this leads back, each waits for the other. */
#include <analyze/findings/find.h>

#include <analyze/findings/kind_polls.h>
#include <analyze/findings/last_polls.h>
#include <analyze/findings/say.h>
#include <analyze/findings/sync_waits.h>
#include <analyze/wake_cause.h>
#include <base/alloc.h>
#include <base/text.h>
#include <string.h>

#define KINDS_MAX 16u /* whose polls are read again */
#define NOT_ASKED 255u

/* What a wake brought. */
enum debt {
	DEBT_OTHER, /* code of the program issued it */
	DEBT_ANSWER,
	DEBT_ROOM,
	DEBT_NONE,
	DEBTS = DEBT_NONE
};

/* Tasks of one kind that wait so at the end. */
struct stuck_kind {
	uint32_t kind;        /* in facts->kinds */
	uint32_t task, count; /* the first that was stuck */
	uint64_t ns, since_ns;
	uint8_t point; /* of that task: enum ky_idle_point */
	struct ky_kind_polls polls;
	uint32_t code_wakes;
	uint64_t code_max_ns;     /* of waits that code of another task ended */
	uint32_t *by_kind[DEBTS]; /* wakes by the waker's kind */
	uint32_t *sent;           /* wakes by a message into a channel, by the woken task's kind */
	uint32_t debtor;          /* in facts->kinds; KY_NONE: not known */
	bool is_judged;           /* it waits for longer than such waits last */
};

struct stuck_kinds {
	struct stuck_kind list[KINDS_MAX];
	uint32_t count;
	uint32_t *of_kind; /* index in the list + 1; 0: none */
	uint8_t *debts;    /* by stack: enum debt; NOT_ASKED */
	uint8_t *messages; /* by stack: 2: of a message; NOT_ASKED */
};

static bool is_owed(const struct ky_facts *facts, const struct ky_last_polls *polls, uint32_t task)
{
	const struct ky_task *of = &facts->trace->tasks[task];

	return (polls->points[task] == KY_IDLE_ANSWER || polls->points[task] == KY_IDLE_ROOM) &&
	       of->name != KY_NONE && ky_trace_is_task(of) && ky_report_lives(facts->report, of) &&
	       polls->judged_ns > polls->end_ns[task] + KY_FIND_STUCK_NS_MIN &&
	       !ky_facts_is_lossy(facts, polls->end_ns[task], polls->judged_ns);
}

static bool add_kind(struct stuck_kinds *stuck, const struct ky_facts *facts, uint32_t kind)
{
	struct stuck_kind *one = &stuck->list[stuck->count];

	*one = (struct stuck_kind){.kind = kind, .task = KY_NONE, .debtor = KY_NONE};
	stuck->of_kind[kind] = ++stuck->count;
	for (uint32_t i = 0; i < DEBTS; i++) {
		one->by_kind[i] = ky_alloc((facts->kind_count + (size_t)1) *
					   sizeof(*one->by_kind[i]));
		if (!one->by_kind[i])
			return false;
	}
	one->sent = ky_alloc((facts->kind_count + (size_t)1) * sizeof(*one->sent));
	return one->sent != NULL;
}

static bool collect(struct stuck_kinds *stuck, const struct ky_facts *facts,
		    const struct ky_last_polls *polls)
{
	for (uint32_t i = 0; i < facts->trace->task_count; i++) {
		const struct ky_kind_facts *kind =
			is_owed(facts, polls, i) ?
				ky_facts_kind(facts, facts->trace->tasks[i].name) :
				NULL;
		struct stuck_kind *one;
		uint32_t at;

		if (!kind)
			continue;
		at = (uint32_t)(kind - facts->kinds);
		if (!stuck->of_kind[at] &&
		    (stuck->count == KINDS_MAX || !add_kind(stuck, facts, at))) {
			if (stuck->count < KINDS_MAX)
				return false;
			continue;
		}
		one = &stuck->list[stuck->of_kind[at] - 1];
		one->count++;
		one->ns += polls->judged_ns - polls->end_ns[i];
		if (one->task == KY_NONE || polls->end_ns[i] < one->since_ns) {
			one->task = i;
			one->since_ns = polls->end_ns[i];
			one->point = polls->points[i];
		}
	}
	for (uint32_t i = 0; i < stuck->count; i++)
		if (ky_kind_polls_make(&stuck->list[i].polls, facts,
				       facts->kinds[stuck->list[i].kind].name, polls->judged_ns))
			return false;
	return true;
}

static uint8_t debt_of(struct stuck_kinds *stuck, const struct ky_facts *facts,
		       const struct ky_wake *wake)
{
	uint8_t *debt = wake->stack != KY_NONE ? &stuck->debts[wake->stack] : NULL;
	const struct ky_code_line *line;
	struct ky_code_walk walk;

	if (!debt || wake->waker == KY_NONE || wake->waker == wake->woken)
		return DEBT_NONE;
	if (*debt != NOT_ASKED)
		return *debt;
	*debt = DEBT_OTHER;
	if (ky_wake_cause_of(&facts->profile->code, wake).kind != KY_WAKE_CODE)
		*debt = DEBT_NONE;
	else if (ky_sync_what_of(&facts->profile->code, wake->stack) == KY_SYNC_CHANNEL)
		*debt = DEBT_ROOM;
	ky_code_walk_begin(&walk, &facts->profile->code, wake->stack);
	while (*debt == DEBT_OTHER && (line = ky_code_walk_next(&walk)) && !ky_code_is_own(line))
		if (ky_text_contains(line->name, "sync::oneshot::"))
			*debt = DEBT_ANSWER;
	return *debt;
}

/* Of the tasks of this name; NULL. */
static struct stuck_kind *find(struct stuck_kinds *stuck, const struct ky_facts *facts,
			       uint32_t name)
{
	for (uint32_t i = 0; i < stuck->count; i++)
		if (facts->kinds[stuck->list[i].kind].name == name)
			return &stuck->list[i];
	return NULL;
}

/* Does a message into a channel of tokio::sync wake? */
static bool is_message(struct stuck_kinds *stuck, const struct ky_facts *facts,
		       const struct ky_wake *wake)
{
	uint8_t *asked = wake->stack != KY_NONE ? &stuck->messages[wake->stack] : NULL;
	const struct ky_code_line *line;
	struct ky_code_walk walk;

	if (!asked)
		return false;
	if (*asked == NOT_ASKED) {
		*asked = ky_sync_what_of(&facts->profile->code, wake->stack) == KY_SYNC_NONE &&
			 ky_wake_cause_of(&facts->profile->code, wake).kind == KY_WAKE_CODE;
		ky_code_walk_begin(&walk, &facts->profile->code, wake->stack);
		while (*asked == 1 && (line = ky_code_walk_next(&walk)) && !ky_code_is_own(line))
			if (ky_text_contains(line->name, "sync::mpsc::"))
				*asked = 2;
	}
	return *asked == 2;
}

/* A task that waits for room had sent messages before: their receiver makes the room. */
static void count_message(struct stuck_kinds *stuck, const struct ky_facts *facts,
			  const struct ky_wake *wake)
{
	const struct ky_task *tasks = facts->trace->tasks;
	struct stuck_kind *sender = wake->waker != KY_NONE && wake->waker != wake->woken ?
					    find(stuck, facts, tasks[wake->waker].name) :
					    NULL;
	const struct ky_kind_facts *woken;

	if (!sender || sender->point != KY_IDLE_ROOM || !is_message(stuck, facts, wake))
		return;
	woken = ky_facts_kind(facts, tasks[wake->woken].name);
	if (woken)
		sender->sent[woken - facts->kinds]++;
}

static void count_wakes(struct stuck_kinds *stuck, const struct ky_facts *facts)
{
	const struct ky_trace *trace = facts->trace;
	struct ky_wake wake;

	for (uint32_t worker = 0; worker < trace->worker_count; worker++)
		for (uint64_t row = 0; row < trace->workers[worker].wakes.row_count; row++) {
			const struct ky_kind_facts *waker;
			struct stuck_kind *one;
			uint64_t waited_ns;
			uint8_t debt;

			ky_trace_wake(trace, worker, row, &wake);
			count_message(stuck, facts, &wake);
			one = find(stuck, facts, trace->tasks[wake.woken].name);
			if (!one)
				continue;
			debt = debt_of(stuck, facts, &wake);
			waker = debt != DEBT_NONE ?
					ky_facts_kind(facts, trace->tasks[wake.waker].name) :
					NULL;
			if (!waker)
				continue;
			one->by_kind[debt][waker - facts->kinds]++;
			waited_ns = ky_kind_polls_waited(&one->polls, wake.woken, wake.time_ns);
			one->code_wakes++;
			if (waited_ns > one->code_max_ns)
				one->code_max_ns = waited_ns;
		}
}

static uint32_t most_of(const uint32_t *counts, uint32_t count)
{
	uint32_t most = 0;

	for (uint32_t i = 1; i < count; i++)
		if (counts[i] > counts[most])
			most = i;
	return count && counts[most] ? most : KY_NONE;
}

/* Than waits that code of another task ended. Where tasks never had to wait for room before, than
 * any wait of theirs, if three or more of them stand there. */
static bool is_longer_than_ever(const struct stuck_kind *one, uint64_t ns)
{
	if (one->polls.is_cut)
		return false;
	if (one->code_wakes >= KY_FIND_STUCK_WAITS)
		return ns / KY_FIND_STUCK_TIMES >= one->code_max_ns;
	return one->point == KY_IDLE_ROOM && one->count >= KY_FIND_SAMPLES_MIN &&
	       one->polls.wait_count > KY_FIND_STUCK_WAITS &&
	       ns / KY_FIND_STUCK_TIMES >= one->polls.wait_max_ns;
}

static void judge(struct stuck_kinds *stuck, const struct ky_facts *facts,
		  const struct ky_last_polls *polls)
{
	for (uint32_t i = 0; i < stuck->count; i++) {
		struct stuck_kind *one = &stuck->list[i];

		one->debtor = most_of(
			one->by_kind[one->point == KY_IDLE_ROOM ? DEBT_ROOM : DEBT_ANSWER],
			facts->kind_count);
		if (one->debtor == KY_NONE && one->point == KY_IDLE_ROOM)
			one->debtor = most_of(one->sent, facts->kind_count);
		if (one->debtor == KY_NONE)
			one->debtor = most_of(one->by_kind[DEBT_OTHER], facts->kind_count);
		one->is_judged = is_longer_than_ever(one, polls->judged_ns - one->since_ns);
	}
}

/* The kind that it waits for, where that one is stuck as well; NULL. */
static const struct stuck_kind *next_of(const struct stuck_kinds *stuck,
					const struct stuck_kind *one)
{
	const struct stuck_kind *next = one->debtor != KY_NONE && stuck->of_kind[one->debtor] ?
						&stuck->list[stuck->of_kind[one->debtor] - 1] :
						NULL;

	/* Who was stuck only later may have lost the answer before. A channel gets room from none
	 * but its receiver, so there the time does not matter. */
	if (next && one->point != KY_IDLE_ROOM &&
	    next->since_ns > one->since_ns + KY_FIND_STUCK_NS_MIN)
		next = NULL;
	return next != one ? next : NULL;
}

/* Of a circle the one that was stuck first. */
static const struct stuck_kind *first_in_circle(const struct stuck_kinds *stuck,
						const struct stuck_kind *in)
{
	const struct stuck_kind *first = in;

	for (const struct stuck_kind *one = next_of(stuck, in); one != in;
	     one = next_of(stuck, one))
		if (one->since_ns < first->since_ns ||
		    (one->since_ns == first->since_ns && one < first))
			first = one;
	return first;
}

/* From one kind to whom it waits for, and on to the last: the same one for all that wait for it.
 * is_circle: the last ones wait for each other, and the first of them stands for them. */
static const struct stuck_kind *root_of(const struct stuck_kinds *stuck,
					const struct stuck_kind *one, bool *is_circle)
{
	bool seen[KINDS_MAX] = {false};

	*is_circle = false;
	for (const struct stuck_kind *next; (next = next_of(stuck, one)); one = next) {
		seen[one - stuck->list] = true;
		if (seen[next - stuck->list]) {
			*is_circle = true;
			return first_in_circle(stuck, next);
		}
	}
	return one;
}

static void say_point(struct ky_buf *out, const struct stuck_kind *one)
{
	ky_text(out,
		one->point == KY_IDLE_ROOM ? "room in a full channel" : "an answer (a oneshot)");
}

static void say(struct ky_finding *found, const struct stuck_kinds *stuck,
		const struct stuck_kind *root, const struct ky_facts *facts, bool is_circle)
{
	struct ky_buf *out = &found->statement;
	uint32_t other = root->debtor;

	ky_text(out, "Task ");
	ky_text_u64(out, facts->trace->tasks[root->task].id);
	ky_text(out, " of ");
	ky_say_kind(out, facts->trace, facts->kinds[root->kind].name);
	ky_text(out, " waits for ");
	say_point(out, root);
	ky_text(out, " that does not come, for ");
	ky_say_ns(out, found->worst_ns);
	if (root->code_wakes) {
		ky_text(out, ", where another task's code woke such tasks after ");
		ky_say_ns(out, root->code_max_ns);
		ky_text(out, " at most");
	}
	ky_text(out, ".");
	if (other != KY_NONE) {
		if (root->point == KY_IDLE_ROOM && root->sent[other] &&
		    !root->by_kind[DEBT_ROOM][other]) {
			ky_text(out, " Its messages woke ");
			ky_say_kind(out, facts->trace, facts->kinds[other].name);
		} else {
			ky_text(out, " Most often before, ");
			ky_say_kind(out, facts->trace, facts->kinds[other].name);
			ky_text(out, " woke it");
		}
		if (is_circle) {
			ky_text(out, ", which itself waits for ");
			say_point(out, &stuck->list[stuck->of_kind[other] - 1]);
			ky_text(out, ": each seems to wait for the other");
		}
		ky_text(out, ".");
	}
}

static void report(struct ky_findings *findings, const struct stuck_kinds *stuck,
		   const struct ky_last_polls *polls, const struct stuck_kind *root, bool is_circle,
		   uint64_t tasks, uint64_t ns)
{
	const struct ky_facts *facts = &findings->facts;
	bool is_full = !is_circle && root->point == KY_IDLE_ROOM;
	struct ky_finding *found = ky_findings_add(findings, is_circle ? KY_FINDING_MUTUAL_WAIT :
							     is_full   ? KY_FINDING_CHANNEL_FULL :
									 KY_FINDING_LOST_WAKE);

	if (!found)
		return;
	found->culprit.kind = "task";
	found->culprit.task =
		facts->kinds[is_full && root->debtor != KY_NONE ? root->debtor : root->kind].name;
	found->culprit.code = ky_code_own_line(&facts->profile->code, polls->stacks[root->task]);
	if ((is_full && root->debtor != KY_NONE) ||
	    (found->culprit.code && !ky_code_is_own(found->culprit.code)))
		found->culprit.code = NULL;
	found->culprit.resource = root->point == KY_IDLE_ROOM ? "bounded channel" : "oneshot";
	found->confidence = KY_CONFIDENCE_LIKELY;
	found->victims = tasks;
	found->delay_ns = ns;
	ky_finding_judge(found, ky_share_ppm(ns, ns + facts->poll_ns + facts->ready_ns),
			 polls->judged_ns - root->since_ns);
	say(found, stuck, root, facts, is_circle);
	ky_say_many(&found->impact, tasks, "task waits so, ",
		    "tasks wait so or for those that do, ");
	ky_say_ns(&found->impact, ns);
	ky_text(&found->impact, " in all; nothing ended these waits in the recording.");
	ky_text(&found->action,
		is_circle && root->point == KY_IDLE_ROOM ?
			"Let no task wait for room in the channel of one that may wait for room in "
			"its own: in one direction use try_send() and decide what to do with what "
			"does not fit." :
		is_circle ?
			"Let no task await an answer of one that may await its own: answer "
			"first, spawn the call, or let one side only send." :
		is_full ?
			"See what the receiver does in place of taking: it may wait for something "
			"itself. Bound the wait with a timeout()." :
			"See what becomes of the other half (oneshot::Sender): it lives, unused, "
			"in a map, a queue or a task that waits. Drop it on every error, and bound "
			"the wait with a timeout().");
	ky_finding_evidence(found, &(struct ky_evidence){.kind = "wait",
							 .from_ns = root->since_ns,
							 .to_ns = polls->judged_ns,
							 .task = facts->trace->tasks[root->task].id,
							 .stack = polls->stacks[root->task],
							 .event = "AwaitPlaceEvent"});
}

/* One finding for each root: of all that wait for it. */
static void report_roots(struct ky_findings *findings, const struct stuck_kinds *stuck,
			 const struct ky_last_polls *polls)
{
	const struct stuck_kind *roots[KINDS_MAX];
	bool is_circle[KINDS_MAX], is_said[KINDS_MAX] = {false};

	for (uint32_t i = 0; i < stuck->count; i++)
		roots[i] = root_of(stuck, &stuck->list[i], &is_circle[i]);
	for (uint32_t i = 0; i < stuck->count; i++) {
		uint64_t tasks = 0, ns = 0;

		if (!stuck->list[i].is_judged || is_said[roots[i] - stuck->list])
			continue;
		for (uint32_t j = 0; j < stuck->count; j++) {
			if (roots[j] != roots[i])
				continue;
			tasks += stuck->list[j].count;
			ns += stuck->list[j].ns;
		}
		is_said[roots[i] - stuck->list] = true;
		report(findings, stuck, polls, roots[i], is_circle[i], tasks, ns);
	}
}

void ky_find_unanswered(struct ky_findings *findings, const struct ky_last_polls *polls)
{
	const struct ky_facts *facts = &findings->facts;
	struct stuck_kinds stuck = {.count = 0};
	size_t stacks = facts->trace->samples.stack_count + (size_t)1;

	if (!facts->profile)
		return;
	stuck.of_kind = ky_alloc((facts->kind_count + (size_t)1) * sizeof(*stuck.of_kind));
	stuck.debts = ky_alloc(stacks);
	stuck.messages = ky_alloc(stacks);
	if (stuck.of_kind && stuck.debts && stuck.messages && collect(&stuck, facts, polls)) {
		memset(stuck.debts, NOT_ASKED, stacks);
		memset(stuck.messages, NOT_ASKED, stacks);
		if (stuck.count)
			count_wakes(&stuck, facts);
		judge(&stuck, facts, polls);
		report_roots(findings, &stuck, polls);
	} else {
		findings->failed = true;
	}
	for (uint32_t i = 0; i < stuck.count; i++) {
		for (uint32_t debt = 0; debt < DEBTS; debt++)
			ky_free(stuck.list[i].by_kind[debt]);
		ky_free(stuck.list[i].sent);
		ky_kind_polls_release(&stuck.list[i].polls);
	}
	ky_free(stuck.of_kind);
	ky_free(stuck.debts);
	ky_free(stuck.messages);
}
