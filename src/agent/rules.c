/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <agent/rules.h>

#include <base/alloc.h>
#include <errno.h>
#include <ring/ring_view.h>
#include <string.h>

#define WATCHED_WORDS 5u
#define UNWATCHED_WORDS 2u
_Static_assert(sizeof(struct ky_ring_watched) == WATCHED_WORDS * sizeof(uint64_t), "all of them");
_Static_assert(sizeof(struct ky_ring_unwatched) == UNWATCHED_WORDS * sizeof(uint64_t), "both");

struct ky_rules {
	struct ky_rules_options options;
	struct ky_watchdog *watchdog; /* NULL: no rule */
	struct ky_drain *stream;      /* of this step */
	bool needs_events, said_full, said_budget;
	uint32_t fired_count;
	/* Firings without a dump, and what those dumps would have had as held back. */
	uint64_t undumped_count, unreported_count;
	uint64_t watched_at, unwatched_at; /* in the ring; 0: nowhere */
	uint64_t watched[WATCHED_WORDS], unwatched[UNWATCHED_WORDS];
};

static void report(const struct ky_rules *rules, struct ky_agent_event event)
{
	event.pid = rules->options.pid;
	rules->options.event(rules->options.event_ctx, &event);
}

/* ---- figures of all of them ---- */

/* stored: what is there. */
static void store_words(const struct ky_rules *rules, uint64_t at, const uint64_t *now,
			uint64_t *stored, size_t count)
{
	size_t bytes = count * sizeof(*now);

	if (at && memcmp(now, stored, bytes) != 0 &&
	    ky_ring_access_store(&rules->options.access, at, now, bytes) == 0)
		memcpy(stored, now, bytes);
}

static void store_figures(struct ky_rules *rules)
{
	struct ky_watchdog_stats stats;
	/* In the order of struct ky_ring_watched and of struct ky_ring_unwatched. */
	uint64_t watched[WATCHED_WORDS], unwatched[UNWATCHED_WORDS];

	ky_rules_stats(rules, &stats);
	watched[0] = stats.fired;
	watched[1] = stats.suppressed;
	watched[2] = stats.waiting + rules->unreported_count;
	watched[3] = stats.over_budget;
	watched[4] = rules->undumped_count;
	unwatched[0] = stats.late_count;
	unwatched[1] = stats.unwatched_ns;
	store_words(rules, rules->watched_at, watched, rules->watched, WATCHED_WORDS);
	store_words(rules, rules->unwatched_at, unwatched, rules->unwatched, UNWATCHED_WORDS);
}

/* Who waits for the next dump reads why there is none. Once, until one comes. */
static void report_budget(struct ky_rules *rules)
{
	struct ky_watchdog_stats stats;

	ky_rules_stats(rules, &stats);
	if (stats.over_budget != 0 && !rules->said_budget)
		report(rules,
		       (struct ky_agent_event){.kind = stats.is_failing ? KY_AGENT_DUMPS_FAIL :
									  KY_AGENT_BUDGET_USED});
	rules->said_budget = stats.over_budget != 0;
}

/* ---- a rule has fired ---- */

static void count_undumped(struct ky_rules *rules, uint64_t fired_ns, uint64_t suppressed_count)
{
	rules->undumped_count++;
	rules->unreported_count += suppressed_count;
	ky_watchdog_failed(rules->watchdog, fired_ns);
}

static void write_stream(const struct ky_rules *rules, const struct ky_dump_request *request)
{
	int err;

	if (!rules->stream)
		return;
	err = ky_drain_trigger(rules->stream, &request->trigger);
	for (size_t i = 0; i < request->note_count && !err; i++)
		err = ky_drain_stuck(rules->stream, &request->notes[i]);
	if (err)
		report(rules, (struct ky_agent_event){.kind = KY_AGENT_FIRING_UNWRITTEN,
						      .rule = request->rule,
						      .error = err});
}

static void on_firing(void *ctx, const struct ky_firing *firing)
{
	struct ky_rules *rules = ctx;
	const struct ky_rules_options *options = &rules->options;
	struct ky_dump_request *request = NULL;
	const char *path;
	int err;

	rules->fired_count++;
	path = options->path ? options->path(options->path_ctx, rules->fired_count) : NULL;
	err = ky_dump_request_firing(&request, firing, path);
	if (!err) {
		write_stream(rules, request);
		err = ky_dumps_put(options->dumps, request);
	}
	if (!err)
		return;
	ky_free(request);
	if (!rules->said_full)
		report(rules, (struct ky_agent_event){.kind = KY_AGENT_DUMP_REFUSED,
						      .rule = firing->rule->name,
						      .error = err,
						      .count = options->dumps->waiting_max});
	rules->said_full = true;
	count_undumped(rules, firing->monotonic_ns, firing->suppressed_count);
}

/* ---- for the dumps ---- */

/* What happened while its range was not over yet. */
static void before(void *ctx, struct ky_dump_request *request)
{
	const struct ky_rules *rules = ctx;

	request->note_count += ky_watchdog_notes(rules->watchdog,
						 request->notes + request->note_count,
						 KY_DUMP_NOTES_MAX - request->note_count);
}

static void after(void *ctx, const struct ky_dump_request *request, int err)
{
	struct ky_rules *rules = ctx;

	if (err)
		count_undumped(rules, request->trigger.monotonic_ns,
			       request->trigger.suppressed_count);
	else
		ky_watchdog_spent(rules->watchdog, request->result.bytes_written);
}

struct ky_dump_hooks ky_rules_hooks(struct ky_rules *rules)
{
	return (struct ky_dump_hooks){before, after, rules};
}

/* ---- steps ---- */

void ky_rules_stats(const struct ky_rules *rules, struct ky_watchdog_stats *out)
{
	memset(out, 0, sizeof(*out));
	if (rules->watchdog)
		ky_watchdog_stats(rules->watchdog, out);
}

bool ky_rules_need_events(const struct ky_rules *rules)
{
	return rules->needs_events;
}

uint64_t ky_rules_step(struct ky_rules *rules, struct ky_drain *stream,
		       const struct ky_event_sums *sums)
{
	uint64_t pause_ns;

	if (!rules->watchdog)
		return UINT64_MAX;
	rules->stream = stream;
	pause_ns = ky_watchdog_step(rules->watchdog, sums);
	store_figures(rules);
	report_budget(rules);
	return pause_ns;
}

void ky_rules_finish(struct ky_rules *rules)
{
	struct ky_watchdog_stats stats;

	store_figures(rules);
	ky_rules_stats(rules, &stats);
	if (stats.waiting != 0)
		report(rules, (struct ky_agent_event){.kind = KY_AGENT_FIRINGS_HELD,
						      .count = stats.waiting,
						      .budget_count = stats.over_budget});
	if (stats.late_count != 0)
		report(rules, (struct ky_agent_event){.kind = KY_AGENT_CHECKS_LATE,
						      .count = stats.late_count,
						      .span_ns = stats.late_max_ns});
}

int ky_rules_set(struct ky_rules *rules, const struct ky_rule *list, size_t count)
{
	struct ky_watchdog *earlier = rules->watchdog;
	uint64_t unusable = 0;
	char why[256] = "";
	struct ky_watchdog_options options = {
		.image = rules->options.image,
		.image_bytes = rules->options.image_bytes,
		.pid = rules->options.pid,
		.rules = list,
		.rule_count = count,
		.has_sums = true, /* both callers drain where a rule needs events */
		.fire = on_firing,
		.fire_ctx = rules,
		.may_read = rules->options.may_read,
		.unusable_rules = &unusable,
		.errbuf = why,
		.errbuf_bytes = sizeof(why),
	};
	int err = ky_watchdog_open(&rules->watchdog, &options);

	if (unusable || why[0])
		report(rules, (struct ky_agent_event){.kind = KY_AGENT_RULE_UNUSABLE,
						      .error = -ENOTSUP,
						      .reason = why});
	if (err) {
		rules->watchdog = earlier;
		return err;
	}
	if (earlier)
		ky_watchdog_follow(rules->watchdog, earlier);
	ky_watchdog_close(earlier);
	rules->needs_events = false;
	for (size_t i = 0; i < count; i++)
		rules->needs_events = rules->needs_events || ky_rule_needs_events(&list[i]);
	return 0;
}

/* ---- opening ---- */

int ky_rules_open(struct ky_rules **out, const struct ky_rules_options *options)
{
	struct ky_rules *rules;
	struct ky_ring_view view;
	int err = ky_ring_view_init(&view, options->image, options->image_bytes);

	*out = NULL;
	rules = err ? NULL : ky_alloc(sizeof(*rules));
	if (!rules)
		return err ? err : -ENOMEM;
	rules->options = *options;
	if (view.side) {
		rules->watched_at = (uint64_t)((const uint8_t *)&view.side->watched -
					       options->image);
		rules->unwatched_at = (uint64_t)((const uint8_t *)&view.side->unwatched -
						 options->image);
	}
	*out = rules;
	return 0;
}

void ky_rules_close(struct ky_rules *rules)
{
	if (!rules)
		return;
	ky_watchdog_close(rules->watchdog);
	ky_free(rules);
}
