/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <agent/rules.h>

#include <base/alloc.h>
#include <base/now.h>
#include <agent/named_dump.h>
#include <ring/ring_view.h>
#include <errno.h>
#include <kymo/base.h>
#include <watch/budget.h>
#include <watch/watchdog.h>
#include <ship/disk.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define DUMPS_MAX 16u /* that wait or are being made */
#define WATCHED_WORDS 5u
_Static_assert(sizeof(struct ky_ring_watched) == WATCHED_WORDS * sizeof(uint64_t), "all of them");

struct dump {
	enum {
		DUMP_FREE = 0,
		DUMP_WAITS,
		DUMP_RUNS
	} state;
	struct ky_rule rule;
	uint64_t due_ns, from_ns, to_ns;
	struct ky_trigger_note note;
	struct ky_stuck_note stuck[KY_STUCK_NOTES * 2u];
	size_t stuck_count;
	char path[KY_DUMP_PATH_BYTES];
	char reason[KY_RULE_NAME_BYTES + 16u], rule_text[256], value[64];
	pid_t maker;
};

struct ky_run_trigger {
	struct ky_run_trigger_options options;
	struct ky_watchdog *watchdog;
	struct dump dumps[DUMPS_MAX];
	uint32_t fired_count;
	/* Firings without a dump, and what those dumps would have told as held back. */
	uint64_t undumped_count, untold_count;
	bool said_full, said_budget;
	uint64_t watched_at; /* in the ring's file; 0: nowhere */
	uint64_t watched[WATCHED_WORDS];
};

bool ky_run_trigger_needs_events(const struct ky_agent_options *run)
{
	for (size_t i = 0; i < run->triggers.rule_count; i++)
		if (ky_rule_needs_events(&run->triggers.rules[i]))
			return true;
	return false;
}

static void report(const struct ky_run_trigger *trigger, struct ky_agent_event event)
{
	const struct ky_agent_options *options = trigger->options.run;

	event.pid = trigger->options.pid;
	options->event(options->event_ctx, &event);
}

/* ---- what the trace tells of all of them ---- */

/* Into the ring, from where every trace takes it; where that cannot be written it is not told. */
static void tell_ring(struct ky_run_trigger *trigger)
{
	struct ky_watchdog_stats stats;
	uint64_t now[WATCHED_WORDS]; /* in the order of struct ky_ring_watched */

	ky_watchdog_stats(trigger->watchdog, &stats);
	now[0] = stats.fired;
	now[1] = stats.suppressed;
	now[2] = stats.waiting + trigger->untold_count;
	now[3] = stats.over_budget;
	now[4] = trigger->undumped_count;
	if (!trigger->watched_at || memcmp(now, trigger->watched, sizeof(now)) == 0)
		return;
	if (pwrite(trigger->options.ring->fd, now, sizeof(now), (off_t)trigger->watched_at) ==
	    (ssize_t)sizeof(now))
		memcpy(trigger->watched, now, sizeof(now));
}

static uint64_t place_of_watched(const struct ky_open_ring *ring)
{
	struct ky_ring_view view;

	if (ky_ring_view_open(&view, ring->image, ring->image_bytes) < 0 || !view.side)
		return 0;
	return (uint64_t)((const uint8_t *)&view.side->watched - ring->image);
}

static void count_undumped(struct ky_run_trigger *trigger, uint64_t fired_ns,
			   uint64_t suppressed_count)
{
	trigger->undumped_count++;
	trigger->untold_count += suppressed_count;
	ky_watchdog_failed(trigger->watchdog, fired_ns);
}

/* ---- a rule has fired ---- */

/* Beside the traces, not among them: what reads a directory of traces takes everything in it. */
static void make_path(struct ky_run_trigger *trigger, struct dump *dump)
{
	const struct ky_agent_options *run = trigger->options.run;
	char directory[KY_DUMP_PATH_BYTES - KY_DUMP_NAME_BYTES], name[KY_DUMP_NAME_BYTES];
	const char *output = run->output.file != NULL ? run->output.file : run->output.directory;
	size_t bytes = strlen(output);
	struct ky_stage_factory stage = run->output.stage;

	while (bytes > 1 && output[bytes - 1] == '/')
		bytes--;
	if (run->triggers.dump_directory != NULL)
		(void)snprintf(directory, sizeof(directory), "%s", run->triggers.dump_directory);
	else
		(void)snprintf(directory, sizeof(directory), "%.*s.dumps", (int)bytes, output);
	(void)ky_disk_make_path(directory); /* making the file says what is wrong */
	ky_dump_name(name, sizeof(name), "", trigger->options.service, trigger->options.pid,
		     ky_now_ns(CLOCK_REALTIME), &stage);
	/* The number tells those of one second apart. */
	bytes = strlen(name) - strlen(".trc") - strlen(stage.suffix);
	(void)snprintf(dump->path, sizeof(dump->path), "%s/%.*s-%u.trc%s", directory, (int)bytes,
		       name, trigger->fired_count, stage.suffix);
}

static void take_note(struct dump *dump, const struct ky_firing *firing)
{
	static const char *const units[] = {
		[KY_RULE_POLL] = "ns",           [KY_RULE_WAKE] = "ns",
		[KY_RULE_QUEUE] = "tasks",       [KY_RULE_STALL] = "ns",
		[KY_RULE_RUNNABLE] = "ns",       [KY_RULE_CPU] = "percent",
		[KY_RULE_THROTTLED] = "percent", [KY_RULE_RSS] = "bytes",
		[KY_RULE_TASKS] = "tasks",       [KY_RULE_COUNTER] = "",
		[KY_RULE_SPAN] = "ns",           [KY_RULE_ERRORS] = "per second",
	};
	struct ky_trigger_note *note = &dump->note;

	*note = (struct ky_trigger_note){.monotonic_ns = firing->monotonic_ns,
					 .value = firing->value,
					 .threshold = firing->rule->threshold,
					 .task = firing->task,
					 .tid = firing->tid,
					 .suppressed_count = firing->suppressed_count,
					 .late_count = firing->late_count};
	(void)snprintf(note->unit, sizeof(note->unit), "%s", units[firing->rule->kind]);
	(void)ky_rule_format(firing->rule, dump->rule_text, sizeof(dump->rule_text));
	(void)snprintf(note->rule, sizeof(note->rule), "%.95s", dump->rule_text);
	(void)ky_rule_value_text(firing->rule, firing->value, dump->value, sizeof(dump->value));
	(void)snprintf(dump->reason, sizeof(dump->reason), "trigger-%s", firing->rule->name);
	dump->stuck_count = firing->note_count < KY_STUCK_NOTES ? firing->note_count :
								  KY_STUCK_NOTES;
	if (dump->stuck_count > 0)
		memcpy(dump->stuck, firing->notes, dump->stuck_count * sizeof(*dump->stuck));
}

static void tell_stream(const struct ky_run_trigger *trigger, const struct dump *dump)
{
	if (trigger->options.stream == NULL)
		return;
	(void)ky_drain_trigger(trigger->options.stream, &dump->note);
	for (size_t i = 0; i < dump->stuck_count; i++)
		(void)ky_drain_stuck(trigger->options.stream, &dump->stuck[i]);
}

static void on_firing(void *ctx, const struct ky_firing *firing)
{
	struct ky_run_trigger *trigger = ctx;
	const struct ky_rule *rule = firing->rule;
	struct dump *dump = NULL;

	trigger->fired_count++;
	for (size_t i = 0; i < DUMPS_MAX && dump == NULL; i++)
		if (trigger->dumps[i].state == DUMP_FREE)
			dump = &trigger->dumps[i];
	if (dump == NULL) {
		if (!trigger->said_full)
			report(trigger, (struct ky_agent_event){.kind = KY_AGENT_DUMPS_WAIT,
								.rule = rule->name,
								.count = DUMPS_MAX});
		trigger->said_full = true;
		count_undumped(trigger, firing->monotonic_ns, firing->suppressed_count);
		return;
	}
	memset(dump, 0, sizeof(*dump));
	dump->state = DUMP_WAITS;
	dump->rule = *rule;
	dump->due_ns = dump->to_ns = firing->monotonic_ns + rule->after_ns;
	if (rule->last_ns != 0 && firing->monotonic_ns > rule->last_ns)
		dump->from_ns = firing->monotonic_ns - rule->last_ns;
	take_note(dump, firing);
	make_path(trigger, dump);
	tell_stream(trigger, dump);
}

/* ---- dumps ---- */

/* In a process of its own. */
static int make_dump(const struct ky_run_trigger *trigger, const struct dump *dump, bool is_dead)
{
	const struct ky_agent_options *run = trigger->options.run;
	struct ky_cut_pair pairs[KY_OUTPUT_METADATA_MAX + 3u];
	struct ky_dump_job *job = ky_alloc(sizeof(*job));
	struct ky_cut_options *cut;
	int err;

	if (job == NULL)
		return 1;
	job->path = dump->path;
	job->taken = KY_DUMP_REPLACED;
	/* Beside the service; at its end nobody is there to make way for, and CMD's end waits. */
	job->gives_way = !is_dead;
	job->stage = run->output.stage;
	cut = &job->cut;
	pairs[cut->pair_count++] = (struct ky_cut_pair){"kymo.dump.reason", dump->reason};
	pairs[cut->pair_count++] = (struct ky_cut_pair){"kymo.trigger.rule", dump->rule_text};
	pairs[cut->pair_count++] = (struct ky_cut_pair){"kymo.trigger.value", dump->value};
	for (size_t i = 0; i < run->output.metadata_count; i++)
		pairs[cut->pair_count++] = (struct ky_cut_pair){run->output.metadata[i].key,
								run->output.metadata[i].value};
	cut->pairs = pairs;
	cut->source = trigger->options.source;
	cut->is_dead = is_dead;
	cut->from_ns = dump->from_ns;
	/* Without `after` the dump may hold what came until it was made. */
	cut->to_ns = dump->rule.after_ns != 0 ? dump->to_ns : 0;
	cut->stuck = dump->stuck;
	cut->stuck_count = dump->stuck_count;
	cut->triggers = &dump->note;
	cut->trigger_count = 1;
	err = ky_dump_write_named(job, trigger->options.ring);
	report(trigger,
	       (struct ky_agent_event){.kind = err == 0 ? KY_AGENT_DUMP_MADE : KY_AGENT_DUMP_FAILED,
				       .rule = dump->rule.name,
				       .value = dump->value,
				       .path = dump->path,
				       .error = err,
				       .count = job->report.events_written,
				       .span_ns = job->report.newest_ns - job->report.oldest_ns});
	return err == 0 ? 0 : 1;
}

static void start_dump(struct ky_run_trigger *trigger, struct dump *dump, bool is_dead)
{
	size_t room = sizeof(dump->stuck) / sizeof(*dump->stuck) - dump->stuck_count;

	if (room > KY_STUCK_NOTES)
		room = KY_STUCK_NOTES;
	/* What happened while it waited. */
	dump->stuck_count += ky_watchdog_notes(trigger->watchdog, dump->stuck + dump->stuck_count,
					       room);
	dump->maker = fork();
	if (dump->maker == 0)
		_exit(make_dump(trigger, dump, is_dead));
	if (dump->maker < 0) {
		report(trigger, (struct ky_agent_event){.kind = KY_AGENT_MAKER_FAILED,
							.rule = dump->rule.name,
							.error = -errno});
		count_undumped(trigger, dump->note.monotonic_ns, dump->note.suppressed_count);
	}
	dump->state = dump->maker > 0 ? DUMP_RUNS : DUMP_FREE;
}

static void reap(struct ky_run_trigger *trigger, struct dump *dump, int flags)
{
	struct stat st;
	int status = 0;
	pid_t got;

	do
		got = waitpid(dump->maker, &status, flags);
	while (got < 0 && errno == EINTR);
	if (got == 0)
		return;
	/* It could not say so itself. */
	if (got > 0 && WIFSIGNALED(status))
		report(trigger, (struct ky_agent_event){.kind = KY_AGENT_MAKER_KILLED,
							.rule = dump->rule.name,
							.value = dump->value,
							.path = dump->path,
							.count = (uint64_t)WTERMSIG(status)});
	if (got < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		count_undumped(trigger, dump->note.monotonic_ns, dump->note.suppressed_count);
	else if (stat(dump->path, &st) == 0)
		ky_watchdog_spent(trigger->watchdog, (uint64_t)st.st_size);
	dump->state = DUMP_FREE;
}

/* Whoever waits for the next dump hears why it does not come. Once, until one comes. */
static void tell_budget(struct ky_run_trigger *trigger)
{
	struct ky_watchdog_stats stats;

	ky_watchdog_stats(trigger->watchdog, &stats);
	if (stats.over_budget != 0 && !trigger->said_budget)
		report(trigger,
		       (struct ky_agent_event){.kind = stats.is_failing ? KY_AGENT_DUMPS_FAIL :
									  KY_AGENT_BUDGET_USED});
	trigger->said_budget = stats.over_budget != 0;
}

/* Those that no later dump can tell of. */
static void tell_held_back(const struct ky_run_trigger *trigger)
{
	struct ky_watchdog_stats stats;

	ky_watchdog_stats(trigger->watchdog, &stats);
	if (stats.waiting != 0)
		report(trigger, (struct ky_agent_event){.kind = KY_AGENT_FIRINGS_HELD,
							.count = stats.waiting,
							.budget_count = stats.over_budget});
}

uint64_t ky_run_trigger_step(struct ky_run_trigger *trigger, const struct ky_event_sums *sums)
{
	uint64_t pace = ky_watchdog_step(trigger->watchdog, sums);
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);

	tell_ring(trigger);
	tell_budget(trigger);
	for (size_t i = 0; i < DUMPS_MAX; i++) {
		struct dump *dump = &trigger->dumps[i];

		if (dump->state == DUMP_RUNS)
			reap(trigger, dump, WNOHANG);
		if (dump->state == DUMP_WAITS && now_ns >= dump->due_ns)
			start_dump(trigger, dump, false);
		if (dump->state == DUMP_WAITS && dump->due_ns - now_ns < pace)
			pace = dump->due_ns - now_ns;
	}
	return pace;
}

void ky_run_trigger_stream(struct ky_run_trigger *trigger, struct ky_drain *stream)
{
	trigger->options.stream = stream;
}

void ky_run_trigger_finish(struct ky_run_trigger *trigger, bool is_dead)
{
	for (size_t i = 0; i < DUMPS_MAX; i++)
		if (trigger->dumps[i].state == DUMP_WAITS)
			start_dump(trigger, &trigger->dumps[i], is_dead);
	for (size_t i = 0; i < DUMPS_MAX; i++)
		if (trigger->dumps[i].state == DUMP_RUNS)
			reap(trigger, &trigger->dumps[i], 0);
	tell_ring(trigger);
	tell_held_back(trigger);
}

/* ---- opening ---- */

int ky_run_trigger_open(struct ky_run_trigger **out, const struct ky_run_trigger_options *options)
{
	const struct ky_agent_options *run = options->run;
	struct ky_run_trigger *trigger = ky_alloc(sizeof(*trigger));
	uint64_t unusable = 0;
	char errbuf[256] = "";
	struct ky_watchdog_options watch = {.image = options->ring->image,
					    .image_bytes = options->ring->image_bytes,
					    .pid = options->pid,
					    .rules = run->triggers.rules,
					    .rule_count = run->triggers.rule_count,
					    .has_sums = options->has_sums,
					    .fire = on_firing,
					    .fire_ctx = trigger,
					    .unusable_rules = &unusable,
					    .errbuf = errbuf,
					    .errbuf_bytes = sizeof(errbuf)};
	int err;

	*out = NULL;
	if (trigger == NULL)
		return -ENOMEM;
	trigger->options = *options;
	trigger->watched_at = place_of_watched(options->ring);
	err = ky_watchdog_open(&trigger->watchdog, &watch);
	if (errbuf[0] != '\0')
		report(trigger,
		       (struct ky_agent_event){.kind = KY_AGENT_RULE_UNUSABLE, .reason = errbuf});
	if (err < 0) {
		ky_free(trigger);
		return err;
	}
	*out = trigger;
	return 0;
}

void ky_run_trigger_close(struct ky_run_trigger *trigger)
{
	if (trigger == NULL)
		return;
	ky_watchdog_close(trigger->watchdog);
	ky_free(trigger);
}
