/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A lost wake that a time-out of the program hides: the wait ends by the timer, though what the
 * task waited for had come. Two facts say so:
 *
 *  - the future inside timeout() left no waker, where others of the kind are woken by code;
 *  - it waited at a Notify or a future of the program beside the timer, and right after the timer
 *    it wakes others that had waited for it, whose request did not wake it, as such requests do at
 *    other times. Channels lose no wake, so a receiver that works in batches is none of them. */
#include <analyze/findings/find.h>

#include <analyze/findings/say.h>
#include <analyze/wake_cause.h>
#include <analyze/wake_walk.h>
#include <base/alloc.h>
#include <base/earlier.h>
#include <base/text.h>
#include <read/sort.h>

#define POINTS_MAX 3u /* that a wait has in the trace: with so many some may be missing */
/* Of a stack where a task waits, asked once. */
#define POINT_ASKED 1u
#define POINT_TIMER 2u
#define POINT_IN_TIMEOUT 4u
#define POINT_CAN_MISS 8u
#define NEAR_NS UINT64_C(1000000) /* between a wake and the end of the wait */

/* One wait of a task, at one or more points. */
struct timed_wait {
	uint64_t from_ns, to_ns;
	uint32_t task, stack;   /* stack: of a timer's point, else of any */
	uint8_t timers, others; /* points */
	bool is_in_timeout, has_timed_out;
	bool can_miss; /* one of the others is a Notify, or the program's own */
};

struct timed_waits {
	struct timed_wait *list; /* by task, then end */
	uint32_t count, capacity;
	uint64_t *code_wakes; /* by kind */
	uint8_t *causes;      /* by stack: 1 + enum ky_wake_kind; 0: not asked */
	uint8_t *points;      /* by stack: POINT_ bits */
};

/* What is concluded of one kind. */
struct hidden_wakes {
	uint64_t count, ns, worst_ns;
	const struct timed_wait *worst;
	bool is_unregistered;
};

static bool is_timer(const struct ky_code_stacks *code, uint32_t stack, bool *is_in_timeout)
{
	static const char *const sleeps[] = {"tokio::time::sleep::", "tokio::time::interval::"};
	const struct ky_code_line *line;
	struct ky_code_walk walk;
	bool is_sleep = false, is_first = true;

	ky_code_walk_begin(&walk, code, stack);
	while ((line = ky_code_walk_next(&walk)) && !ky_code_is_own(line)) {
		is_sleep |= KY_LINE_HAS(line, sleeps);
		*is_in_timeout |= ky_text_contains(line->name, "time::timeout::");
		/* The timer is inlined there: nothing else of Tokio is further in. */
		is_sleep |= is_first && ky_text_contains(line->name, "time::timeout::Timeout");
		is_first &= line->is_system || ky_text_contains(line->name, "task::wake::");
	}
	return is_sleep;
}

/* A Notify, or a future of the program: the other primitives keep what came. */
static bool can_miss(const struct ky_code_stacks *code, uint32_t stack)
{
	static const char *const parts[] = {
		"tokio::", "flume::", "async_channel::", "futures_channel::", "hyper::"};
	const struct ky_code_line *line;
	struct ky_code_walk walk;
	bool is_own = true;

	ky_code_walk_begin(&walk, code, stack);
	while ((line = ky_code_walk_next(&walk)) && !ky_code_is_own(line)) {
		if (ky_text_contains(line->name, "sync::notify::"))
			return true;
		is_own &= !KY_LINE_HAS(line, parts) ||
			  ky_text_contains(line->name, "time::timeout::") ||
			  ky_text_contains(line->name, "macros::");
	}
	return is_own;
}

static uint8_t point_of(struct timed_waits *waits, const struct ky_facts *facts, uint32_t stack)
{
	const struct ky_code_stacks *code = &facts->profile->code;
	uint8_t *point = &waits->points[stack];
	bool is_in_timeout = false;

	if (*point)
		return *point;
	*point = POINT_ASKED;
	if (is_timer(code, stack, &is_in_timeout))
		*point |= POINT_TIMER;
	else if (can_miss(code, stack))
		*point |= POINT_CAN_MISS;
	*point |= is_in_timeout ? POINT_IN_TIMEOUT : 0;
	return *point;
}

static bool collect(struct timed_waits *waits, const struct ky_facts *facts)
{
	const struct ky_samples *samples = &facts->trace->samples;

	for (uint32_t i = 0; i < samples->row_count; i++) {
		const struct ky_stack_row *row = &samples->rows[i];
		struct timed_wait *last = waits->count ? &waits->list[waits->count - 1] : NULL;
		uint8_t point;

		if (row->kind != KY_STACK_PLACE || row->task == KY_NONE || row->stack == KY_NONE ||
		    row->reason != KY_PLACE_WAITED || row->flags & KY_ROW_END_UNSAFE ||
		    row->time_ns < facts->report->from_ns || row->end_ns > facts->report->to_ns)
			continue;
		if (!last || last->task != row->task || last->to_ns != row->end_ns) {
			if (ky_grow(&waits->list, &waits->capacity, waits->count + 1,
				    sizeof(*waits->list)))
				return false;
			last = &waits->list[waits->count++];
			*last = (struct timed_wait){.from_ns = row->time_ns,
						    .to_ns = row->end_ns,
						    .task = row->task,
						    .stack = row->stack};
		}
		point = point_of(waits, facts, row->stack);
		if (point & POINT_TIMER)
			last->stack = row->stack;
		last->can_miss |= (point & POINT_CAN_MISS) != 0;
		last->timers = (uint8_t)(last->timers + ((point & POINT_TIMER) != 0));
		last->others = (uint8_t)(last->others + !(point & POINT_TIMER));
		last->is_in_timeout |= (point & POINT_IN_TIMEOUT) != 0;
		if (row->value)
			last->from_ns = row->end_ns - ky_earlier(row->value, row->end_ns);
	}
	return true;
}

static bool is_before(const void *a, const void *b, const void *ctx)
{
	const struct timed_wait *one = a, *other = b;

	(void)ctx;
	return one->task != other->task ? one->task < other->task : one->to_ns < other->to_ns;
}

/* The first wait of the task that ends at or after that; NULL. */
static struct timed_wait *wait_at(const struct timed_waits *waits, uint32_t task, uint64_t ns)
{
	uint32_t low = 0, high = waits->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct timed_wait *one = &waits->list[middle];

		if (one->task < task || (one->task == task && one->to_ns < ns))
			low = middle + 1;
		else
			high = middle;
	}
	return low < waits->count && waits->list[low].task == task ? &waits->list[low] : NULL;
}

static uint8_t cause_of(struct timed_waits *waits, const struct ky_facts *facts,
			const struct ky_wake *wake)
{
	uint8_t *cause = wake->stack != KY_NONE ? &waits->causes[wake->stack] : NULL;

	if (!cause)
		return KY_WAKE_UNKNOWN;
	if (!*cause)
		*cause = (uint8_t)(1 + ky_wake_cause_of(&facts->profile->code, wake).kind);
	return *cause - 1;
}

/* Marks what a timer ended, and counts what code woke. */
static void read_wakes(struct timed_waits *waits, const struct ky_facts *facts)
{
	const struct ky_trace *trace = facts->trace;
	struct ky_wake wake;

	for (uint32_t worker = 0; worker < trace->worker_count; worker++)
		for (uint64_t row = 0; row < trace->workers[worker].wakes.row_count; row++) {
			const struct ky_kind_facts *kind;
			struct timed_wait *wait;
			uint8_t cause;

			ky_trace_wake(trace, worker, row, &wake);
			cause = cause_of(waits, facts, &wake);
			if (cause == KY_WAKE_CODE && wake.waker != wake.woken) {
				kind = ky_facts_kind(facts, trace->tasks[wake.woken].name);
				if (kind)
					waits->code_wakes[kind - facts->kinds]++;
			}
			if (cause != KY_WAKE_TIMER && cause != KY_WAKE_DRIVER)
				continue;
			wait = wait_at(waits, wake.woken, wake.time_ns);
			if (wait && wait->timers && wait->to_ns <= wake.time_ns + NEAR_NS)
				wait->has_timed_out = true;
		}
}

static void add(struct hidden_wakes *hidden, const struct timed_wait *wait, uint64_t ns)
{
	hidden->count++;
	hidden->ns += ns;
	if (ns <= hidden->worst_ns)
		return;
	hidden->worst_ns = ns;
	hidden->worst = wait;
}

/* A future that waits for what is outside of the process is no matter of wakes. */
static void find_unregistered(struct hidden_wakes *hidden, const struct timed_waits *waits,
			      const struct ky_facts *facts)
{
	for (uint32_t i = 0; i < waits->count; i++) {
		const struct timed_wait *one = &waits->list[i];
		const struct ky_kind_facts *kind = ky_facts_kind(
			facts, facts->trace->tasks[one->task].name);

		if (!kind || !one->has_timed_out || !one->is_in_timeout || one->timers != 1 ||
		    one->others || one->to_ns - one->from_ns < KY_FIND_STUCK_NS_MIN ||
		    waits->code_wakes[kind - facts->kinds] <= KY_FIND_STUCK_WAITS)
			continue;
		add(&hidden[kind - facts->kinds], one, one->to_ns - one->from_ns);
		hidden[kind - facts->kinds].is_unregistered = true;
	}
}

/* The wait of the waker that ended just before this wake, by a timer beside something else. */
static const struct timed_wait *wait_behind(const struct timed_waits *waits,
					    const struct ky_wake *wake)
{
	const struct timed_wait *one = wait_at(
		waits, wake->waker, wake->time_ns > NEAR_NS ? wake->time_ns - NEAR_NS : 0);

	return one && one->to_ns <= wake->time_ns && one->has_timed_out && one->can_miss &&
			       one->timers + one->others < POINTS_MAX ?
		       one :
		       NULL;
}

/* Did it wake that task in the poll after which it waited? */
static bool has_woken(const struct ky_trace *trace, const struct timed_wait *victim, uint32_t task)
{
	struct ky_wake_walk walk = {
		.trace = trace,
		.from_ns = victim->from_ns > NEAR_NS ? victim->from_ns - NEAR_NS : 0,
		.to_ns = victim->from_ns};
	struct ky_wake wake;

	while (ky_wake_walk_next(&walk, &wake))
		if (wake.waker == victim->task && wake.woken == task)
			return true;
	return false;
}

static void find_unheard(struct hidden_wakes *hidden, struct timed_waits *waits,
			 const struct ky_facts *facts)
{
	const struct ky_trace *trace = facts->trace;
	struct ky_wake wake;

	for (uint32_t worker = 0; worker < trace->worker_count; worker++)
		for (uint64_t row = 0; row < trace->workers[worker].wakes.row_count; row++) {
			const struct timed_wait *behind, *victim;
			const struct ky_kind_facts *kind;

			ky_trace_wake(trace, worker, row, &wake);
			if (wake.waker == KY_NONE || wake.waker == wake.woken ||
			    cause_of(waits, facts, &wake) != KY_WAKE_CODE)
				continue;
			behind = wait_behind(waits, &wake);
			victim = behind ? wait_at(waits, wake.woken, wake.time_ns) : NULL;
			kind = victim ? ky_facts_kind(facts, trace->tasks[wake.waker].name) : NULL;
			if (!kind || victim->to_ns > wake.time_ns + NEAR_NS ||
			    victim->from_ns >= behind->to_ns ||
			    waits->code_wakes[kind - facts->kinds] <= KY_FIND_STUCK_WAITS ||
			    has_woken(facts->trace, victim, wake.waker))
				continue;
			add(&hidden[kind - facts->kinds], behind, victim->to_ns - victim->from_ns);
		}
}

static void say(struct ky_finding *found, const struct hidden_wakes *hidden,
		const struct ky_facts *facts)
{
	struct ky_buf *out = &found->statement;

	ky_say_kind(out, facts->trace, found->culprit.task);
	if (hidden->is_unregistered) {
		ky_text(out, " waited inside a timeout() for what left no waker, ");
		ky_say_many(out, hidden->count, "time", "times");
		ky_text(out, ": only the timer ended the wait, after up to ");
		ky_say_ns(out, hidden->worst_ns);
		ky_text(out, ", where code of the program wakes such tasks at other times.");
		ky_say_many(&found->impact, hidden->count, "wait", "waits");
		ky_text(&found->impact, " of these tasks took ");
	} else {
		ky_text(out, " was not woken when there was something to do: it waited until its "
			     "own timer came, and then woke tasks that had waited for it since, "
			     "for up to ");
		ky_say_ns(out, hidden->worst_ns);
		ky_text(out, ".");
		ky_say_many(&found->impact, hidden->count, "task", "tasks");
		ky_text(&found->impact, " waited ");
	}
	ky_say_ns(&found->impact, hidden->ns);
	ky_text(&found->impact, " until a time-out of the program's own ended it.");
}

static void report(struct ky_findings *findings, const struct hidden_wakes *hidden, uint32_t name)
{
	const struct ky_facts *facts = &findings->facts;
	struct ky_finding *found = ky_findings_add(findings, KY_FINDING_LOST_WAKE);

	if (!found)
		return;
	found->culprit.kind = "task";
	found->culprit.task = name;
	found->culprit.code = ky_code_own_line(&facts->profile->code, hidden->worst->stack);
	if (found->culprit.code && !ky_code_is_own(found->culprit.code))
		found->culprit.code = NULL;
	found->confidence = KY_CONFIDENCE_LIKELY;
	found->victims = hidden->count;
	found->delay_ns = hidden->ns;
	ky_finding_judge(found,
			 ky_share_ppm(hidden->ns, hidden->ns + facts->poll_ns + facts->ready_ns),
			 hidden->worst_ns);
	say(found, hidden, facts);
	ky_text(&found->action,
		"Register for the wake before reading the state (Notify: enable() the future "
		"first), use notify_one(), which is kept, in place of notify_waiters(), and leave "
		"a waker in each poll that returns Pending. The time-out only hides it.");
	ky_finding_evidence(
		found, &(struct ky_evidence){.kind = "wait",
					     .from_ns = hidden->worst->from_ns,
					     .to_ns = hidden->worst->to_ns,
					     .task = facts->trace->tasks[hidden->worst->task].id,
					     .stack = hidden->worst->stack,
					     .event = "AwaitPlaceEvent"});
}

static void judge(struct ky_findings *findings, struct timed_waits *waits,
		  struct hidden_wakes *hidden)
{
	const struct ky_facts *facts = &findings->facts;

	ky_sort(waits->list, waits->count, sizeof(*waits->list), is_before, NULL);
	read_wakes(waits, facts);
	find_unregistered(hidden, waits, facts);
	find_unheard(hidden, waits, facts);
	/* Once may be a request that came with the timer. */
	for (uint32_t i = 0; i < facts->kind_count; i++)
		if (hidden[i].count >= KY_FIND_SAMPLES_MIN &&
		    hidden[i].worst_ns >= KY_FIND_STUCK_NS_MIN &&
		    !ky_findings_of_task(findings, KY_FINDING_LOST_WAKE, facts->kinds[i].name))
			report(findings, &hidden[i], facts->kinds[i].name);
}

void ky_find_timed_out_waits(struct ky_findings *findings)
{
	const struct ky_facts *facts = &findings->facts;
	struct timed_waits waits = {0};
	struct hidden_wakes *hidden;

	if (!facts->profile || !facts->trace->samples.counts[KY_STACK_PLACE])
		return;
	hidden = ky_alloc((facts->kind_count + (size_t)1) * sizeof(*hidden));
	waits.code_wakes = ky_alloc((facts->kind_count + (size_t)1) * sizeof(*waits.code_wakes));
	waits.causes = ky_alloc(facts->trace->samples.stack_count + (size_t)1);
	waits.points = ky_alloc(facts->trace->samples.stack_count + (size_t)1);
	if (hidden && waits.code_wakes && waits.causes && waits.points && collect(&waits, facts))
		judge(findings, &waits, hidden);
	else
		findings->failed = true;
	ky_free(hidden);
	ky_free(waits.code_wakes);
	ky_free(waits.causes);
	ky_free(waits.points);
	ky_free(waits.list);
}
