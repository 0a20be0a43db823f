/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/unseen.h>
#include <string.h>

static const char *find(const char *text, const char *part)
{
	size_t bytes = strlen(part);

	for (; text && *text; text++)
		if (strncmp(text, part, bytes) == 0)
			return text;
	return NULL;
}

static void set_why(struct ky_unseen *out, const char *text, size_t bytes)
{
	if (bytes > KY_UNSEEN_WHY_BYTES - 1)
		bytes = KY_UNSEEN_WHY_BYTES - 1;
	memcpy(out->why, text, bytes);
	out->why[bytes] = '\0';
}

static void say_why(struct ky_unseen *out, const char *text)
{
	set_why(out, text, strlen(text));
}

/* "perf_event: Permission denied" of "...; perf_event: Permission denied; ...". Returns false: it
 * was not refused. */
static bool take_refusal(struct ky_unseen *out, const char *refused, const char *source)
{
	const char *at = find(refused, source), *end;

	if (!at)
		return false;
	for (end = at; *end && *end != ';';)
		end++;
	set_why(out, at, (size_t)(end - at));
	return true;
}

/* The errors are reported as text: strerrordesc_np()'s, which no locale changes. */
static const char *command_for(const char *why)
{
	static const char *const commands[][2] = {
		{"Permission denied", "sudo sysctl kernel.perf_event_paranoid=1"},
		{"Operation not permitted",
		 "docker run --cap-add PERFMON ..., or sudo sysctl kernel.perf_event_paranoid=1"},
		{"Too many open files", "ulimit -n 65536"},
		{"file-size limit", "ulimit -f unlimited"},
		{"No data available", NULL}, /* it opens and yields nothing: the machine's */
	};

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (find(why, commands[i][0]))
			return commands[i][1];
	return "kymo doctor";
}

static struct ky_unseen *add(struct ky_unseen *out, uint32_t *count, uint32_t kind,
			     const char *what)
{
	struct ky_unseen *unseen = &out[(*count)++];

	memset(unseen, 0, sizeof(*unseen));
	unseen->kind = kind;
	unseen->what = what;
	return unseen;
}

/* Of CPU samples. */
static void find_cpu(struct ky_unseen *out, uint32_t *count, const struct ky_trace *trace)
{
	const char *source = ky_trace_metadata(trace, "sampling.cpu");
	const char *refused = ky_trace_metadata(trace, "sampling.cpu.refused");
	const char *kernel = ky_trace_metadata(trace, "sampling.cpu.kernel");
	const char *choice = ky_trace_metadata(trace, "sampling.cpu.choice");
	struct ky_unseen *unseen;

	if (!source)
		return;
	if (!trace->samples.counts[KY_STACK_CPU] &&
	    (strcmp(source, "off") == 0 || strcmp(source, "none") == 0)) {
		unseen = add(out, count, KY_STACK_CPU, "CPU samples");
		if (strcmp(source, "off") == 0 && !refused) {
			say_why(unseen, "sampling was off");
			unseen->command = "kymo run --sample 99, or kymo set NAME sampling=99";
			return;
		}
		(void)take_refusal(unseen, refused, "perf_event"); /* the first to be tried */
		unseen->command = command_for(unseen->why[0] || !refused ? unseen->why : refused);
		if (!unseen->command)
			unseen->command = "kymo doctor";
		if (refused)
			say_why(unseen, refused);
		else
			say_why(unseen, "no sampler was available");
		return;
	}
	if (kernel || find(source, "timers")) {
		unseen = add(out, count, KY_STACK_CPU,
			     kernel && find(kernel, "not sampled") ?
				     "time in the kernel (system calls appear idle)" :
				     "frames of the kernel");
		if (take_refusal(unseen, refused, "perf_event")) {
			unseen->command = command_for(unseen->why);
		} else if (find(source, "timers")) {
			/* "timers: 41000 switches a second, 1300 ns more each by perf_event" */
			say_why(unseen, choice && find(choice, "more each by perf_event") ?
						choice :
						"timers sampled");
			unseen->command = "kymo run --sampler perf";
		} else {
			say_why(unseen, "perf_event_paranoid keeps it from perf_event");
			unseen->command = "sudo sysctl kernel.perf_event_paranoid=1";
		}
	}
}

/* Of what the kernel's switch records report: a recording that is short may have no window
 * either. */
static void find_off_cpu(struct ky_unseen *out, uint32_t *count, const struct ky_trace *trace)
{
	const char *sources = ky_trace_metadata(trace, "offcpu.sources");
	const char *refused = ky_trace_metadata(trace, "offcpu.refused");
	const char *by = ky_trace_metadata(trace, "kymo.source");
	struct ky_unseen *unseen;

	if (!sources || trace->off_window_count || find(sources, "context switches"))
		return;
	unseen = add(out, count, KY_STACK_OFF_CPU,
		     "preemption, page faults and other waits inside polls");
	if (take_refusal(unseen, refused, "context switches")) {
		unseen->command = command_for(unseen->why);
		return;
	}
	say_why(unseen, "the kernel's switch records were not watched");
	unseen->command = by && strcmp(by, "tokio preload") == 0 ?
				  "kymo run --switches on, or kymo attach --mode stream" :
				  "KYMO_SWITCHES=on in the program's environment";
}

uint32_t ky_unseen_find(struct ky_unseen *out, const struct ky_trace *trace)
{
	uint32_t count = 0;

	find_cpu(out, &count, trace);
	find_off_cpu(out, &count, trace);
	return count;
}
