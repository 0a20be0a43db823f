/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <agent/agent.h>

#include <base/earlier.h>
#include <base/now.h>

static void keep_first(int *first, int err)
{
	if (err < 0 && *first >= 0)
		*first = err;
}

static uint64_t step_drain(struct ky_agent *agent, const struct ky_agent_moment *moment,
			   struct ky_drain *events, int *err)
{
	uint64_t again_ns = UINT64_MAX;

	if (!agent->drain.is_flight || !moment->rests_in_flight)
		keep_first(err, ky_drain_mode_step(&agent->drain, moment->now_ns, &moment->pace,
						   &again_ns));
	else if (events)
		keep_first(err, ky_drain_step(events, 0));
	return again_ns;
}

/* events: what rules judge by; NULL: none. */
static uint64_t check_rules(struct ky_agent *agent, struct ky_drain *events)
{
	struct ky_event_sums sums;
	uint64_t pause_ns, now_ns;

	if (!agent->rules)
		return UINT64_MAX;
	if (events)
		ky_drain_watch(events, &sums);
	pause_ns = ky_rules_step(agent->rules, ky_drain_mode_stream(&agent->drain),
				 events ? &sums : NULL);
	now_ns = ky_now_ns(CLOCK_MONOTONIC);
	return pause_ns < UINT64_MAX - now_ns ? now_ns + pause_ns : UINT64_MAX;
}

/* After the rules: a table takes milliseconds to read, and a probe and a rule of the same pace
 * would wake the thread twice for ever. */
static uint64_t step_probes(struct ky_agent *agent, const struct ky_agent_moment *moment)
{
	const struct ky_probe_moment now = {.now_ns = moment->now_ns,
					    .resource_ms = moment->resource_ms,
					    .stream = ky_drain_mode_stream(&agent->drain)};
	uint64_t again_ns = ky_probes_step(agent->probes, KY_AGENT_PROBES, &now);

	return moment->pace.has_slack ? UINT64_MAX : again_ns;
}

uint64_t ky_agent_make_dumps(struct ky_agent *agent, bool is_closing)
{
	const struct ky_dump_hooks hooks = ky_rules_hooks(agent->rules);

	return agent->dumps ? ky_dumps_run(agent->dumps, &agent->maker, &hooks, is_closing) :
			      UINT64_MAX;
}

uint64_t ky_agent_step(struct ky_agent *agent, const struct ky_agent_moment *moment, int *err)
{
	bool needs_events = agent->rules && ky_rules_need_events(agent->rules);
	struct ky_drain *events = NULL;
	uint64_t retry_ns = UINT64_MAX, again_ns;

	*err = 0;
	keep_first(err, ky_drain_mode_set(&agent->drain, moment->is_flight));
	keep_first(err, ky_drain_mode_events(&agent->drain, needs_events, &events));
	if (*err < 0) /* out of memory: in a moment there may be some */
		retry_ns = moment->now_ns + moment->pace.check_ns;
	again_ns = ky_earlier(retry_ns, step_drain(agent, moment, events, err));
	again_ns = ky_earlier(again_ns, check_rules(agent, events));
	again_ns = ky_earlier(again_ns, step_probes(agent, moment));
	return ky_earlier(again_ns, ky_agent_make_dumps(agent, false));
}

int ky_agent_finish(struct ky_agent *agent, bool is_dead, bool is_abnormal)
{
	struct ky_drain *stream = ky_drain_mode_stream(&agent->drain);

	(void)ky_agent_make_dumps(agent, true);
	if (agent->rules)
		ky_rules_finish(agent->rules);
	if (stream)
		ky_probes_describe(agent->probes, KY_AGENT_PROBES, stream);
	return ky_drain_mode_finish(&agent->drain, is_dead, is_abnormal);
}

void ky_agent_close(struct ky_agent *agent)
{
	ky_rules_close(agent->rules);
	agent->rules = NULL;
	ky_probes_close(agent->probes, KY_AGENT_PROBES);
	ky_drain_mode_close(&agent->drain);
	ky_agent_output_close(&agent->output);
}

void ky_agent_abandon(struct ky_agent *agent)
{
	ky_drain_mode_forget(&agent->drain);
	agent->rules = NULL;
}
