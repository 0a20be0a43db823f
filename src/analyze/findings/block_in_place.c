/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* block_in_place() for every request: each call passes the worker to another thread, and what is
 * ready waits until that has it. The poll itself blocks nothing. */
#include <analyze/findings/find.h>

#include <analyze/findings/poll_rule.h>
#include <analyze/findings/say.h>
#include <base/text.h>

#define ACTION "Use spawn_blocking() for what is called often: it leaves the worker where it is."

/* ---- as the cause of long polls: no other thread had taken the worker by their end ---- */

static bool is_in_place(const struct ky_code_line *line)
{
	static const char *const parts[] = {"tokio::task::blocking::block_in_place",
					    "tokio::task::block_in_place",
					    "tokio::runtime::scheduler::block_in_place",
					    "scheduler::multi_thread::worker::block_in_place",
					    "tokio::runtime::context::runtime_mt::exit_runtime"};

	return KY_LINE_HAS(line, parts);
}

static bool fits(const struct ky_poll_case *one, enum ky_confidence *confidence)
{
	*confidence = KY_CONFIDENCE_PROVEN;
	return ky_poll_case_inside_ppm(one, is_in_place) >= KY_FIND_HALF_PPM;
}

static void say_polls(struct ky_buf *out, const struct ky_poll_case *one,
		      const struct ky_findings_options *options)
{
	(void)options;
	ky_text(out, one->is_blocked ? "were blocked" : "ran on CPU");
	ky_text(out, " in block_in_place(), and no other thread had their worker");
}

const struct ky_poll_rule ky_rule_in_place_blocked = {.id = KY_FINDING_BLOCK_IN_PLACE_STORM,
						      .is_blocked = true,
						      .fits = fits,
						      .say = say_polls,
						      .action = ACTION};

const struct ky_poll_rule ky_rule_in_place_busy = {.id = KY_FINDING_BLOCK_IN_PLACE_STORM,
						   .is_blocked = false,
						   .fits = fits,
						   .say = say_polls,
						   .action = ACTION};

/* ---- by the handovers themselves ---- */

void ky_find_handovers(struct ky_findings *findings)
{
	const struct ky_facts *facts = &findings->facts;
	uint64_t ns = ky_facts_scaled(facts, facts->why->sums[KY_PART_HANDOVER]), moves = 0;
	uint64_t worst_ns = 0;
	const struct ky_kind_facts *most = NULL;
	struct ky_finding *found;

	for (uint32_t i = 0; i < facts->trace->worker_count; i++)
		moves += facts->trace->workers[i].moved_count;
	for (uint32_t i = 0; i < facts->kind_count; i++)
		if (facts->kinds[i].moved_count &&
		    (!most || facts->kinds[i].moved_count > most->moved_count))
			most = &facts->kinds[i];
	for (uint32_t i = 0; i < facts->why->worst_count; i++)
		if (facts->why->worst[i].sums[KY_PART_HANDOVER] > worst_ns)
			worst_ns = facts->why->worst[i].sums[KY_PART_HANDOVER];
	found = ns && moves ? ky_findings_add(findings, KY_FINDING_BLOCK_IN_PLACE_STORM) : NULL;
	if (!found)
		return;
	found->culprit.kind = most ? "task" : "process";
	found->culprit.task = most ? most->name : KY_NONE;
	found->culprit.resource = "block_in_place()";
	found->confidence = KY_CONFIDENCE_PROVEN;
	found->victims = facts->slow_delays;
	found->delay_ns = ns;
	ky_finding_judge(found, ky_share_ppm(ns, facts->ready_ns), worst_ns);
	ky_text(&found->statement, "block_in_place() passed workers to other threads ");
	ky_say_many(&found->statement, moves, "time", "times");
	if (most) {
		ky_text(&found->statement, ", mostly in polls of ");
		ky_say_kind(&found->statement, facts->trace, most->name);
	}
	ky_text(&found->statement, ".");
	ky_text(&found->impact, "Tasks that were ready waited ");
	ky_say_ns(&found->impact, ns);
	ky_text(&found->impact, " until another thread had their worker, ");
	ky_say_ppm(&found->impact, found->score_ppm);
	ky_text(&found->impact, " of all time from wake to poll.");
	ky_text(&found->action, ACTION);
}
