/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The kernel made threads wait for a CPU: what it took is no task's doing. */
#include <analyze/findings/find.h>

#include <analyze/findings/say.h>
#include <analyze/resource_use.h>
#include <analyze/thread_uses.h>
#include <base/alloc.h>
#include <base/earlier.h>
#include <base/text.h>
#include <read/id_map.h>

#define THREAD_BYTES_MAX (UINT64_C(1) << 26)

/* Run delay in the three places where it is seen. */
struct starvation {
	uint64_t polls_ns, worst_ns; /* inside long polls */
	uint64_t ready_ns;           /* of ready time: the worker was runnable, or woken late */
	uint64_t cpu_ns, delay_ns;   /* of the workers' threads, as the kernel counted */
	uint64_t parks_ns;           /* of delay_ns: in none of the others; 0: not asked */
};

/* Of the time by which parks ended late: the part that a program can tell. The kernel's counters
 * have sums; parks whose time-out was over say how late each ended. Where none has one the mean
 * decides: below a tick it is what a wake-up costs on a machine that others use. */
static void split_parks(struct starvation *sums, const struct ky_facts *facts)
{
	uint64_t all_ns = 0, long_ns = 0, worst_ns = 0, parks = 0, late_ns;
	const struct ky_trace *trace = facts->trace;
	struct ky_park park;

	for (uint32_t worker = 0; worker < trace->worker_count; worker++) {
		const struct ky_column *rows = &trace->workers[worker].parks;

		for (uint64_t row = ky_column_find(rows, facts->report->from_ns);
		     row < rows->row_count; row++) {
			ky_trace_park(trace, worker, row, &park);
			if (park.start_ns > facts->report->to_ns)
				break;
			parks++;
			late_ns = ky_park_late_ns(&park);
			if (late_ns == UINT64_MAX)
				continue;
			all_ns += late_ns;
			long_ns += late_ns > KY_FIND_LONG_NS ? late_ns : 0;
			worst_ns = ky_later(worst_ns, late_ns);
		}
	}
	if (all_ns)
		sums->parks_ns = ky_ppm_of(sums->parks_ns, ky_share_ppm(long_ns, all_ns));
	else if (!parks || sums->parks_ns / parks < KY_FIND_LONG_NS)
		sums->parks_ns = 0;
	else
		worst_ns = KY_FIND_WORST_NS_MIN;
	if (sums->parks_ns)
		sums->worst_ns = ky_later(sums->worst_ns, worst_ns);
}

static bool began_within(const struct ky_trace *trace, uint32_t tid)
{
	for (uint32_t i = 0; i < trace->thread_count; i++)
		if (trace->threads[i].tid == tid)
			return trace->threads[i].start_ns >= trace->first_ns;
	return false;
}

/* Of each worker's thread: all that it counted where it began within the trace, else between its
 * first and its last reading. Returns false where memory is short. */
static bool add_counts(struct starvation *sums, const struct ky_facts *facts)
{
	const struct ky_trace *trace = facts->trace;
	const struct ky_trace_thread_cpu **firsts, *first, *last;
	struct ky_id_map threads;
	struct ky_pages pages;
	uint32_t count = 0, *slot;
	bool is_whole;

	firsts = ky_alloc((trace->thread_cpu_count + (size_t)1) * 2 * sizeof(*firsts));
	is_whole = firsts != NULL;
	ky_pages_init(&pages, THREAD_BYTES_MAX);
	ky_id_map_init(&threads, &pages);
	for (uint32_t i = 0; is_whole && i < trace->thread_cpu_count; i++) {
		slot = ky_id_map_slot(&threads, trace->thread_cpus[i].tid);
		is_whole = slot != NULL;
		if (is_whole && !*slot) {
			*slot = ++count;
			firsts[2 * (size_t)(count - 1)] = &trace->thread_cpus[i];
		}
		if (is_whole) /* the last one, beside the first */
			firsts[2 * (size_t)(*slot - 1) + 1] = &trace->thread_cpus[i];
	}
	for (uint32_t i = 0; is_whole && i < count; i++) {
		bool began = began_within(trace, firsts[2 * (size_t)i]->tid);

		first = firsts[2 * (size_t)i];
		last = firsts[2 * (size_t)i + 1];
		if (last->run_delay_ns == UINT64_MAX || last->cpu_ns == UINT64_MAX ||
		    (!began && first == last))
			continue;
		sums->cpu_ns += last->cpu_ns - (began ? 0 : first->cpu_ns);
		sums->delay_ns += last->run_delay_ns - (began ? 0 : first->run_delay_ns);
	}
	ky_id_map_release(&threads);
	ky_pages_release(&pages);
	ky_free(firsts);
	return is_whole;
}

static void add_polls(struct starvation *sums, const struct ky_facts *facts)
{
	for (uint32_t i = 0; i < facts->kind_count; i++) {
		if (facts->kinds[i].is_runtimes)
			continue;
		sums->polls_ns += facts->kinds[i].sums[KY_OWN_RUNNABLE];
		if (facts->kinds[i].worst[KY_OWN_RUNNABLE] > sums->worst_ns)
			sums->worst_ns = facts->kinds[i].worst[KY_OWN_RUNNABLE];
	}
}

static void add_ready(struct starvation *sums, const struct ky_facts *facts)
{
	const struct ky_why *why = facts->why;
	static const uint8_t parts[] = {KY_PART_BEHIND_RUNNABLE, KY_PART_SCHEDULER_READY,
					KY_PART_PARKED_NOTIFIED};

	for (size_t part = 0; part < sizeof(parts); part++) {
		sums->ready_ns += ky_facts_scaled(facts, why->sums[parts[part]]);
		for (uint32_t i = 0; i < why->worst_count; i++)
			if (why->worst[i].sums[parts[part]] > sums->worst_ns)
				sums->worst_ns = why->worst[i].sums[parts[part]];
	}
}

/* Tasks of the machine, or of its cgroup, waited for a CPU in so much of the time between two
 * readings at most. The counters of threads have their start in them, which is late on any
 * machine: without pressure they say nothing. */
static bool is_under_pressure(const struct ky_facts *facts)
{
	struct ky_resource_use *use = NULL;
	bool is_pressed = false;

	if (ky_resource_use(facts->trace, facts->report->from_ns, facts->report->to_ns, &use) ||
	    !use)
		return false;
	for (uint32_t scope = 0; scope < 2; scope++) {
		const struct ky_growth *some = &use->pressure[scope][KY_PRESSURE_CPU_SOME];

		is_pressed |= some->sum != KY_RESOURCE_NONE &&
			      some->max_permille * 1000 >= KY_FIND_HALF_PPM;
	}
	ky_free(use);
	return is_pressed;
}

bool ky_may_have_starved(const struct ky_facts *facts, uint64_t ns)
{
	struct starvation sums = {0};

	return is_under_pressure(facts) && add_counts(&sums, facts) && sums.delay_ns >= ns;
}

/* Another thread of the process took half a CPU or more: it is the neighbour. */
static uint32_t greedy_thread(const struct ky_facts *facts)
{
	uint64_t lasted_ns = facts->report->to_ns - facts->report->from_ns;
	struct ky_thread_use *uses = NULL;
	uint32_t count = 0, name = KY_NONE;

	if (ky_thread_uses(facts->trace, facts->report->from_ns, facts->report->to_ns, &uses,
			   &count))
		return KY_NONE;
	if (count && ky_share_ppm(uses[0].cpu_ns, lasted_ns) >= KY_FIND_HALF_PPM)
		name = uses[0].name;
	ky_free(uses);
	return name;
}

static void say(struct ky_finding *found, const struct starvation *sums,
		const struct ky_facts *facts)
{
	struct ky_buf *out = &found->statement;

	if (sums->delay_ns + sums->cpu_ns) {
		ky_text(out, "The workers' threads waited for a CPU ");
		ky_say_ppm(out, ky_share_ppm(sums->delay_ns, sums->delay_ns + sums->cpu_ns));
		ky_text(out, " of the time that they could run, ");
		ky_say_ns(out, sums->delay_ns);
		ky_text(out, " in all, as the kernel counted.");
	} else {
		ky_text(out, "The workers' threads were ready to run and had no CPU for up to ");
		ky_say_ns(out, sums->worst_ns);
		ky_text(out, ".");
	}
	out = &found->impact;
	ky_say_ns(out, sums->ready_ns);
	ky_text(out, " of the time from wake to poll (");
	ky_say_ppm(out, ky_share_ppm(sums->ready_ns, facts->ready_ns));
	ky_text(out, ") and ");
	ky_say_ns(out, sums->polls_ns);
	ky_text(out, " of the time in polls (");
	ky_say_ppm(out, ky_share_ppm(sums->polls_ns, facts->poll_ns));
	ky_text(out, ") were waits for a CPU.");
	if (sums->parks_ns) {
		ky_text(out, " Workers came out of their parks late by ");
		ky_say_ns(out, sums->parks_ns);
		ky_text(out, " in all, so timers and I/O were late before any task was woken.");
	}
	ky_text(&found->action,
		found->culprit.thread != KY_NONE ?
			"Give that thread a CPU of its own or a lower priority: it takes the "
			"workers' CPU time." :
			"Give the service more CPU, or keep other processes away from its CPUs "
			"(cpusets, priorities).");
}

void ky_find_starvation(struct ky_findings *findings)
{
	const struct ky_facts *facts = &findings->facts;
	struct starvation sums = {0};
	uint32_t score, counted;
	struct ky_finding *found;
	uint64_t seen_ns;

	if (!add_counts(&sums, facts))
		findings->failed = true;
	add_polls(&sums, facts);
	add_ready(&sums, facts);
	score = ky_share_ppm(sums.polls_ns, facts->poll_ns);
	if (ky_share_ppm(sums.ready_ns, facts->ready_ns) > score)
		score = ky_share_ppm(sums.ready_ns, facts->ready_ns);
	counted = ky_share_ppm(sums.delay_ns, sums.delay_ns + sums.cpu_ns);
	/* The kernel's counters have sums, no single waits: where they are high, the rest of
	 * them is how late workers came out of their parks, before any task was woken. */
	if (counted >= KY_FIND_HALF_PPM && sums.delay_ns >= KY_FIND_STARVED_NS &&
	    is_under_pressure(facts)) {
		seen_ns = sums.polls_ns + sums.ready_ns;
		sums.parks_ns = sums.delay_ns > seen_ns ? sums.delay_ns - seen_ns : 0;
		split_parks(&sums, facts);
		counted = ky_share_ppm(sums.parks_ns,
				       facts->poll_ns + facts->ready_ns + sums.parks_ns);
		score = counted > score ? counted : score;
	}
	if (!score || !sums.worst_ns)
		return;
	found = ky_findings_add(findings, KY_FINDING_CPU_STARVATION);
	if (!found)
		return;
	found->culprit.thread = greedy_thread(facts);
	found->culprit.kind = found->culprit.thread != KY_NONE ? "thread" : "machine";
	found->culprit.resource = "CPU time that others took";
	found->confidence = KY_CONFIDENCE_PROVEN;
	found->victims = facts->slow_delays;
	found->delay_ns = sums.ready_ns + sums.polls_ns;
	ky_finding_judge(found, score, sums.worst_ns);
	/* Any machine that others use has some of it. */
	if (score < KY_FIND_STARVED_PPM)
		found->severity = KY_SEVERITY_INFO;
	say(found, &sums, facts);
	ky_finding_evidence(found, &(struct ky_evidence){.kind = "readings",
							 .from_ns = facts->report->from_ns,
							 .to_ns = facts->report->to_ns,
							 .task = UINT64_MAX,
							 .stack = KY_NONE,
							 .event = "ThreadCpuEvent"});
}
