/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the recording was set up without, as its own trace says: no cause of harm, but what limits
 * every conclusion, each with what would change it. A trace that says nothing of its set-up, as
 * dial9's, has no such finding; what was recorded and then lost is recorder_losses. */
#include <analyze/findings/find.h>

#include <analyze/findings/metadata_value.h>
#include <analyze/findings/say.h>
#include <analyze/unseen.h>
#include <base/text.h>
#include <string.h>

#define SAID_MAX 3u /* in sentences; JSON has all of them */

static bool has_no_stacks(const struct ky_facts *facts)
{
	const char *tables = ky_trace_metadata(facts->trace, "unwind.tables");

	return tables && ky_text_begins(tables, "none");
}

static bool has_modules_without_tables(const struct ky_facts *facts)
{
	const char *tables = ky_trace_metadata(facts->trace, "unwind.tables");

	return tables && ky_text_contains(tables, " without (");
}

/* Most of its stacks end before their thread's start. */
static bool has_short_stacks(const struct ky_facts *facts)
{
	const struct ky_samples *samples = &facts->trace->samples;
	uint64_t cut = 0, all = 0;

	for (uint32_t i = 0; i < samples->row_count; i++) {
		all += samples->rows[i].stack != KY_NONE;
		cut += samples->rows[i].stack != KY_NONE &&
		       samples->rows[i].flags & KY_ROW_TRUNCATED;
	}
	return all >= KY_FIND_SAMPLES_MIN && ky_share_ppm(cut, all) >= KY_FIND_HALF_PPM;
}

/* Lines of the program, its libraries and what they call: not the kernel's, libc's, or ours. */
static void count_lines(const struct ky_facts *facts, uint64_t *all, uint64_t *named,
			uint64_t *placed)
{
	const struct ky_code_stacks *code = &facts->profile->code;

	for (uint32_t i = 0; i < code->line_count; i++) {
		const struct ky_code_line *line = &code->lines[i];

		if (line->is_system || line->is_recorder)
			continue;
		*all += 1;
		*named += line->why == KY_SYMBOL_FOUND;
		*placed += line->why == KY_SYMBOL_FOUND && *line->file;
	}
}

static bool has_no_names(const struct ky_facts *facts)
{
	uint64_t all = 0, named = 0, placed = 0;

	if (!facts->profile || !facts->trace->is_kymo)
		return false;
	count_lines(facts, &all, &named, &placed);
	return all && ky_share_ppm(all - named, all) > KY_FIND_HALF_PPM;
}

static bool has_no_line_tables(const struct ky_facts *facts)
{
	uint64_t all = 0, named = 0, placed = 0;

	if (!facts->profile || !facts->trace->is_kymo)
		return false;
	count_lines(facts, &all, &named, &placed);
	return named && ky_share_ppm(named - placed, named) > KY_FIND_HALF_PPM;
}

static bool is_stripped(const struct ky_facts *facts)
{
	return ky_metadata_number(facts->trace, "tokio.tables_by_shape") != 0;
}

static bool has_unsampled_threads(const struct ky_facts *facts)
{
	return ky_metadata_number(facts->trace, "sampling.cpu.threads_refused") != 0;
}

/* No poll was long enough that it had to be tried: that is no lack. */
static bool has_no_rseq(const struct ky_facts *facts)
{
	const char *mark = ky_trace_metadata(facts->trace, "poll_cost.mark");

	return mark && strcmp(mark, "rseq") != 0 && strcmp(mark, "not tried") != 0;
}

/* The kernel's counters of workers were read, and none had a run delay. */
static bool has_no_schedstat(const struct ky_facts *facts)
{
	const struct ky_trace *trace = facts->trace;

	for (uint32_t i = 0; i < trace->thread_cpu_count; i++)
		if (trace->thread_cpus[i].run_delay_ns != UINT64_MAX)
			return false;
	return trace->thread_cpu_count != 0;
}

static bool has_clock_jumps(const struct ky_facts *facts)
{
	return ky_metadata_number(facts->trace, "clock.jumps") != 0;
}

static bool has_processes(const struct ky_facts *facts)
{
	return facts->trace->has_processes;
}

static bool has_no_readings(const struct ky_facts *facts)
{
	const char *interval = ky_trace_metadata(facts->trace, "resources.interval_ns");

	return interval && strcmp(interval, "0") == 0;
}

/* A cgroup that does not count something is the machine's, and no fault of the set-up. */
static bool has_refused_readings(const struct ky_facts *facts)
{
	const char *missing = ky_trace_metadata(facts->trace, "resources.missing");

	return missing &&
	       (ky_text_contains(missing, "ermission") || ky_text_contains(missing, "ermitted") ||
		ky_text_contains(missing, "namespace"));
}

static bool is_ring_private(const struct ky_facts *facts)
{
	const char *is_anonymous = ky_trace_metadata(facts->trace, "ring.anonymous");

	return is_anonymous && strcmp(is_anonymous, "true") == 0;
}

/* A dump that does not reach from one reading of the resources to the next. */
static bool is_ring_short(const struct ky_facts *facts)
{
	uint64_t age_ns = ky_metadata_number(facts->trace, "flight.age_ns");

	return age_ns && age_ns / 1000000 < KY_RESOURCE_MS_MIN;
}

static bool has_nameless_wakes(const struct ky_facts *facts)
{
	return facts->trace->wake_sources_left_out != 0;
}

static bool has_no_spawns(const struct ky_facts *facts)
{
	const char *ids = ky_trace_metadata(facts->trace, "tokio.next_id");

	return ids && strcmp(ids, "none") == 0;
}

static bool has_no_allocations(const struct ky_facts *facts)
{
	const char *source = ky_trace_metadata(facts->trace, "alloc.source");

	return (source && !ky_text_contains(source, "through")) ||
	       ky_trace_metadata(facts->trace, "alloc.unseen");
}

#define KEEP_SYMBOLS "Build with CARGO_PROFILE_RELEASE_STRIP=false."

static const struct {
	const char *capability, *effect, *action;
	bool (*lacks)(const struct ky_facts *facts); /* NULL: the gate of that name is off */
	const char *gate;
} parts[] = {
	{"wakes", "How long tasks are ready, and by what, is not known.", "kymo set NAME wake=on",
	 NULL, "wake"},
	{"await points", "Where tasks wait is not known: no wait has a cause.",
	 "kymo set NAME places=on", NULL, "places"},
	{"calls that block", "What blocks in a poll is not known.", "kymo set NAME offcpu=on", NULL,
	 "offcpu"},
	{"stacks of calls that block", "Which function blocks in a poll is not known.",
	 "kymo set NAME offcpu.stacks=on", NULL, "offcpu.stacks"},
	{"parks", "Whether workers were idle or busy is not known.", "kymo set NAME park=on", NULL,
	 "park"},
	{"driver turns", "Late I/O and timers are not seen.", "kymo set NAME driver=on", NULL,
	 "driver"},
	{"closures of the blocking pool", "A full pool is not seen.", "kymo set NAME blocking=on",
	 NULL, "blocking"},
	{"spawns", "Who spawned a task, and when, is not known.", "kymo set NAME spawn=on", NULL,
	 "spawn"},
	{"counter of task ids", "Who spawned a task, and when, is not known.", KEEP_SYMBOLS,
	 has_no_spawns, NULL},
	{"unwind tables", "No stack can be walked: no function is named.",
	 "Build with RUSTFLAGS=\"-C force-unwind-tables=yes\"; kymo doctor PROGRAM says what is "
	 "there.",
	 has_no_stacks, NULL},
	{"unwind tables of some modules",
	 "Stacks through them end early, or follow frame pointers.",
	 "Build them with RUSTFLAGS=\"-C force-unwind-tables=yes\".", has_modules_without_tables,
	 NULL},
	{"whole stacks", "Most stacks end early: their function may not be the program's own.",
	 "Build with RUSTFLAGS=\"-C force-frame-pointers=yes\", or record with --sampler timers.",
	 has_short_stacks, NULL},
	{"symbols", "Most functions are module+offset, so rules that go by names do not fit.",
	 "kymo symbolize -o OUT FILE where the program's file is; build with "
	 "CARGO_PROFILE_RELEASE_STRIP=false.",
	 has_no_names, NULL},
	{"symbols of Tokio",
	 "The program is stripped: kinds of tasks that share code have one name.", KEEP_SYMBOLS,
	 is_stripped, NULL},
	{"line tables", "Functions have no file and line, and inlined ones no name.",
	 "Build with CARGO_PROFILE_RELEASE_DEBUG=limited.", has_no_line_tables, NULL},
	{"samples of some threads", "What they run is not known.",
	 "Do not block SIGPROF there, or allow perf_event: kymo doctor.", has_unsampled_threads,
	 NULL},
	{"rseq", "Fewer polls have a cost, so CPU time and blocked time go by samples.",
	 "Use glibc 2.35 or newer, and do not turn its rseq off (glibc.pthread.rseq).", has_no_rseq,
	 NULL},
	{"schedstat", "Waits for a CPU are not distinguished from other time off CPU.",
	 "Use a kernel with CONFIG_SCHED_INFO.", has_no_schedstat, NULL},
	{"steady clock", "The rate of the clock jumped: times near a jump may be off.",
	 "See kymo doctor, clock; a virtual machine that was moved or stopped does so.",
	 has_clock_jumps, NULL},
	{"one process",
	 "The trace has several processes, and what is of the process as a whole is summed.",
	 "Record one process a file, or choose one with --pid.", has_processes, NULL},
	{"readings of resources", "Memory, CPU limits and pressure are not known.",
	 "kymo set NAME resources=1s", has_no_readings, NULL},
	{"some readings of resources", "What the process used or may use is known in part.",
	 "Run kymo as the user of the process, in its pid namespace.", has_refused_readings, NULL},
	{"ring in shared memory", "No dump, and nothing after a crash: the ring dies with it.",
	 "Mount a tmpfs at /dev/shm, or choose one with --ring-dir.", is_ring_private, NULL},
	{"a longer ring",
	 "The dump reaches back less than one reading of resources: growth is not seen.",
	 "Raise --ring-bytes.", is_ring_short, NULL},
	{"causes of some wakes", "There was no room for all stacks of wakes.",
	 "Record for a shorter time.", has_nameless_wakes, NULL},
	{"allocations of some allocator", "What it allocates is in no sample.",
	 "Use the system's allocator, or preload the other one: kymo doctor PROGRAM.",
	 has_no_allocations, NULL},
};

/* What samplers could not see. */
static void add_unseen(struct ky_finding *found, struct ky_buf *why, const struct ky_facts *facts)
{
	struct ky_unseen list[KY_UNSEEN_MAX];
	uint32_t count = ky_unseen_find(list, facts->trace);

	for (uint32_t i = 0; i < count; i++) {
		bool is_cpu = list[i].kind == KY_STACK_CPU;

		ky_finding_lacks(found, list[i].what,
				 strcmp(list[i].what, "CPU samples") == 0 ?
					 "What ran in polls is not known: no function is named." :
				 is_cpu ? "What the kernel did in polls is known in part." :
					  "What held polls up for less than 100 us, or by no call, "
					  "is not known.",
				 list[i].command);
		ky_text(why, i ? "; " : " (");
		ky_text(why, list[i].why);
	}
	if (count)
		ky_text(why, ")");
}

static void add_parts(struct ky_finding *found, const struct ky_facts *facts)
{
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (parts[i].lacks ?
			    parts[i].lacks(facts) :
			    ky_metadata_has_word(facts->trace, "kymo.gates_off", parts[i].gate))
			ky_finding_lacks(found, parts[i].capability, parts[i].effect,
					 parts[i].action);
}

static void say(struct ky_finding *found, const struct ky_buf *why)
{
	const char *effect = NULL;
	uint32_t said = found->missing_count < SAID_MAX ? found->missing_count : SAID_MAX;

	ky_text(&found->statement, "The recording lacks ");
	for (uint32_t i = 0; i < said; i++) {
		ky_text(&found->statement, i == 0 ? "" : i + 1 < said ? ", " : " and ");
		ky_text(&found->statement, found->missing[i].capability);
	}
	if (found->missing_count > said) {
		ky_text(&found->statement, ", and ");
		ky_say_count(&found->statement, found->missing_count - said);
		ky_text(&found->statement, " more (kymo report --json)");
	}
	(void)ky_buf_append(&found->statement, why->bytes, why->used);
	ky_text(&found->statement, ".");
	for (uint32_t i = 0; i < said; i++) {
		const struct ky_missing *one = &found->missing[i];

		if (!effect || strcmp(effect, one->effect) != 0) {
			ky_text(&found->impact, i ? " " : "");
			ky_text(&found->impact, one->effect);
		}
		effect = one->effect;
		ky_text(&found->action, i ? "; " : "");
		ky_text(&found->action, one->action ? one->action : "kymo doctor");
	}
}

void ky_find_recorder_setup(struct ky_findings *findings)
{
	struct ky_finding *found = ky_findings_add(findings, KY_FINDING_RECORDER_SETUP);
	struct ky_buf why;

	if (!found)
		return;
	ky_buf_init(&why, 0);
	add_unseen(found, &why, &findings->facts);
	add_parts(found, &findings->facts);
	if (!found->missing_count) {
		ky_findings_drop(findings);
	} else {
		found->culprit.resource = "set-up of the recording";
		found->confidence = KY_CONFIDENCE_PROVEN;
		found->victims = found->missing_count;
		say(found, &why);
		findings->failed |= why.failed;
	}
	ky_buf_release(&why);
}
