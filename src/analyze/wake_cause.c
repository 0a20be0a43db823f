/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/wake_cause.h>

#include <analyze/crate_name.h>
#include <base/alloc.h>
#include <base/json_write.h>
#include <base/text.h>
#include <errno.h>
#include <read/sort.h>
#include <read/turns.h>
#include <string.h>

#define WAKE_LOOP KY_WAKE_KINDS /* the driver or a yield, to be decided */
#define LOOP_WAKES_MAX 65536u   /* looked at, of each worker */
#define SEVERAL (KY_NONE - 1)   /* of a task: no one descriptor */

/* What a function is, by a part of its name (Tokio 1.38 to 1.54). A more general part comes later:
 * the first row that fits a frame decides. */
static const struct {
	const char *part;
	uint32_t kind;
} functions[] = {
	{"scheduler::defer::Defer", KY_WAKE_DEFERRED},
	{"ScheduledIo::wake", KY_WAKE_IO},
	{"ScheduledIo>::wake", KY_WAKE_IO},
	{"runtime::io::driver::Driver", KY_WAKE_IO},
	{"runtime::signal::Driver", KY_WAKE_SIGNAL},
	{"signal::registry", KY_WAKE_SIGNAL},
	{"process_at_", KY_WAKE_TIMER},
	{"runtime::time::wheel", KY_WAKE_TIMER},
	{"runtime::time::entry", KY_WAKE_TIMER},
	{"runtime::time_alt", KY_WAKE_TIMER},
	{"runtime::time::Driver", KY_WAKE_DRIVER},
	{"runtime::driver::", KY_WAKE_DRIVER},
	{"runtime::park::", KY_WAKE_DRIVER},
	{"scheduler::multi_thread::park", KY_WAKE_DRIVER},
	{"task::core::Trailer", KY_WAKE_JOIN},
	{"task::core::wake_join", KY_WAKE_JOIN},
	{"task::harness::", KY_WAKE_JOIN},
	/* Of a worker's loop: what wakes by itself there is inlined. */
	{"multi_thread::worker::", WAKE_LOOP},
	{"current_thread::Context", WAKE_LOOP},
	{"current_thread::CoreGuard", WAKE_LOOP},
};

static uint32_t kind_of_function(const struct ky_code_line *line)
{
	if (!ky_text_contains(line->name, "tokio::"))
		return KY_WAKE_UNKNOWN;
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (ky_text_contains(line->name, functions[i].part))
			return functions[i].kind;
	return KY_WAKE_UNKNOWN;
}

/* One of the language's library says nothing. */
static const struct ky_code_line *line_to_show(const struct ky_code_stacks *code, uint32_t stack)
{
	static const char *const crates[] = {"std::", "core::", "alloc::"};
	const struct ky_code_line *line = ky_code_own_line(code, stack);
	const char *name = line ? ky_crate_name_begin(line->name) : "";

	for (size_t i = 0; i < sizeof(crates) / sizeof(crates[0]); i++)
		if (ky_text_begins(name, crates[i]))
			return NULL;
	return line;
}

static struct ky_wake_cause cause_of_stack(const struct ky_code_stacks *code, uint32_t stack)
{
	struct ky_wake_cause cause = {KY_WAKE_UNKNOWN, NULL};
	const struct ky_code_line *line;
	struct ky_code_walk walk;
	bool is_named = false;

	ky_code_walk_begin(&walk, code, stack);
	while ((line = ky_code_walk_next(&walk))) {
		if (line->why != KY_SYMBOL_FOUND)
			continue;
		is_named |= !line->is_system;
		if (ky_code_is_own(line))
			break;
		cause.kind = kind_of_function(line);
		if (cause.kind)
			return cause;
	}
	if (!is_named)
		return cause;
	cause.kind = KY_WAKE_CODE;
	cause.line = line_to_show(code, stack);
	return cause;
}

/* ---- each stack once ---- */

int ky_wake_namer_make(struct ky_wake_namer *out, const struct ky_trace *trace,
		       const struct ky_code_stacks *code)
{
	*out = (struct ky_wake_namer){.trace = trace, .code = code};
	if (!code)
		return 0;
	out->by_stack = ky_alloc((trace->samples.stack_count + (size_t)1) * sizeof(*out->by_stack));
	return out->by_stack ? 0 : -ENOMEM;
}

void ky_wake_namer_release(struct ky_wake_namer *namer)
{
	ky_free(namer->by_stack);
	ky_free(namer->by_task);
	*namer = (struct ky_wake_namer){0};
}

static struct ky_wake_cause of_stack(struct ky_wake_namer *namer, uint32_t stack)
{
	struct ky_wake_name *name;

	if (!namer->by_stack)
		return cause_of_stack(namer->code, stack);
	name = &namer->by_stack[stack];
	if (!name->is_made)
		name->cause = cause_of_stack(namer->code, stack);
	name->is_made = true;
	return name->cause;
}

static uint64_t ready_events(const struct ky_trace *trace, uint32_t worker, uint64_t to_ns)
{
	const struct ky_worker *of = &trace->workers[worker];
	uint64_t count = 0;
	struct ky_turn turn;
	struct ky_park park;

	for (uint64_t row = 0; row < of->turns.row_count; row++) {
		ky_trace_turn(trace, worker, row, &turn);
		if (turn.end_ns > to_ns)
			break;
		count += turn.ready_count;
	}
	for (uint64_t row = 0; row < of->parks.row_count; row++) {
		ky_trace_park(trace, worker, row, &park);
		if (park.start_ns > to_ns)
			break;
		count += park.ready_count;
	}
	return count;
}

/* Of a sample, the first wakes of each worker: are there more in the loop of one than the events of
 * its driver can have made? One event wakes a reader and a writer. */
static bool exceed_events(struct ky_wake_namer *namer)
{
	const struct ky_trace *trace = namer->trace;

	for (uint32_t worker = 0; worker < trace->worker_count; worker++) {
		const struct ky_column *wakes = &trace->workers[worker].wakes;
		struct ky_wake wake = {.time_ns = 0};
		uint64_t in_loop = 0, count = 0;
		struct ky_cursor at;
		bool is_going;

		for (is_going = ky_cursor_begin(&at, wakes, 0); is_going && count < LOOP_WAKES_MAX;
		     is_going = ky_cursor_next(&at), count++) {
			ky_trace_wake_at(trace, worker, &at, &wake);
			in_loop += wake.stack != KY_NONE &&
				   of_stack(namer, wake.stack).kind == WAKE_LOOP;
		}
		/* One more may be under way at the end of the sample. */
		if (trace->workers[worker].turns.row_count &&
		    in_loop > 2 * (1 + ready_events(trace, worker, wake.time_ns)))
			return true;
	}
	return false;
}

/* Where the functions of the I/O driver and of the timers are seen to wake by themselves, they are
 * not inlined into the worker's loop: what wakes there was put off by a yield. A program without
 * I/O has the latter alone. */
static uint32_t kind_of_loop(struct ky_wake_namer *namer)
{
	const struct ky_trace *trace = namer->trace;
	bool has[KY_WAKE_KINDS + 1] = {false};

	for (uint32_t i = 0; !namer->loop_kind && i < trace->wake_source_count; i++)
		if (trace->wake_sources[i].stack != KY_NONE)
			has[of_stack(namer, trace->wake_sources[i].stack).kind] = true;
	if (!namer->loop_kind)
		namer->loop_kind = has[KY_WAKE_TIMER] && (has[KY_WAKE_IO] || exceed_events(namer)) ?
					   KY_WAKE_DEFERRED :
					   KY_WAKE_DRIVER;
	return namer->loop_kind;
}

struct ky_wake_cause ky_wake_namer_cause(struct ky_wake_namer *namer, const struct ky_wake *wake)
{
	struct ky_wake_cause cause = {KY_WAKE_UNKNOWN, NULL};

	if (namer->code && wake->stack != KY_NONE)
		cause = of_stack(namer, wake->stack);
	if (cause.kind == WAKE_LOOP)
		cause.kind = kind_of_loop(namer);
	if (!cause.kind && wake->origin & KY_WAKE_AT_END)
		cause.kind = KY_WAKE_JOIN;
	if (!cause.kind && wake->origin & KY_WAKE_DERIVED && wake->waker == wake->woken)
		cause.kind = KY_WAKE_SELF;
	return cause;
}

struct ky_wake_cause ky_wake_cause_of(const struct ky_code_stacks *code, const struct ky_wake *wake)
{
	struct ky_wake_namer namer = {.trace = code ? code->trace : NULL, .code = code};

	return ky_wake_namer_cause(&namer, wake);
}

uint32_t ky_wake_descriptor(const struct ky_trace *trace, const struct ky_wake *wake,
			    struct ky_wake_cause cause)
{
	struct ky_turn check;

	/* One that is not over by then did not bring it. */
	if (cause.kind != KY_WAKE_IO || wake->worker >= trace->worker_count ||
	    !ky_trace_driver_check(trace, wake->worker, wake->time_ns, &check) ||
	    check.end_ns > wake->time_ns)
		return KY_NONE;
	return check.ready_descriptor;
}

void ky_wake_cause_json(struct ky_buf *out, const struct ky_wake_cause *cause, uint32_t descriptor)
{
	ky_json_text(out, "cause", ky_wake_kind_key(cause->kind));
	if (cause->line)
		ky_json_text(out, "function", cause->line->name);
	if (descriptor != KY_NONE)
		ky_json_number(out, "descriptor", descriptor);
}

static void note_descriptor(struct ky_wake_namer *namer, uint32_t task, uint32_t descriptor)
{
	if (descriptor == KY_NONE || task >= namer->trace->task_count)
		return;
	if (namer->by_task[task] == KY_NONE)
		namer->by_task[task] = descriptor;
	else if (namer->by_task[task] != descriptor)
		namer->by_task[task] = SEVERAL;
}

/* Many wakes follow one check, so it is searched for where the worker has begun another since. */
static void learn_worker(struct ky_wake_namer *namer, uint32_t worker)
{
	const struct ky_trace *trace = namer->trace;
	const struct ky_worker *of = &trace->workers[worker];
	uint64_t park_row = 0, turn_row = 0;
	struct ky_turn check = {.end_ns = UINT64_MAX};
	struct ky_cursor at;
	struct ky_wake wake;
	bool is_going, is_new = true;

	for (is_going = ky_cursor_begin(&at, &of->wakes, 0); is_going;
	     is_going = ky_cursor_next(&at)) {
		ky_trace_wake_at(trace, worker, &at, &wake);
		for (; park_row < of->parks.row_count &&
		       ky_column_time(&of->parks, park_row) <= wake.time_ns;
		     park_row++)
			is_new = true;
		for (; turn_row < of->turns.row_count &&
		       ky_column_time(&of->turns, turn_row) <= wake.time_ns;
		     turn_row++)
			is_new = true;
		if (is_new)
			(void)ky_trace_driver_check(trace, worker, wake.time_ns, &check);
		is_new = false;
		if (check.ready_descriptor != KY_NONE && check.end_ns <= wake.time_ns &&
		    ky_wake_namer_cause(namer, &wake).kind == KY_WAKE_IO)
			note_descriptor(namer, wake.woken, check.ready_descriptor);
	}
}

uint32_t ky_wake_inferred_descriptor(struct ky_wake_namer *namer, const struct ky_wake *wake)
{
	const struct ky_trace *trace = namer->trace;
	uint32_t descriptor;

	if (ky_wake_namer_cause(namer, wake).kind != KY_WAKE_IO || wake->woken >= trace->task_count)
		return KY_NONE;
	if (!namer->by_task) {
		namer->by_task = ky_alloc(trace->task_count * sizeof(*namer->by_task));
		if (!namer->by_task)
			return KY_NONE;
		memset(namer->by_task, 0xff, trace->task_count * sizeof(*namer->by_task));
		for (uint32_t worker = 0; worker < trace->worker_count; worker++)
			learn_worker(namer, worker);
	}
	descriptor = namer->by_task[wake->woken];
	return descriptor == SEVERAL ? KY_NONE : descriptor;
}

const char *ky_wake_origin_text(const struct ky_wake *wake)
{
	static const char *const texts[] = {NULL, "its own poll", "another task's poll",
					    "the driver or a yield", "another thread"};
	uint32_t origin = wake->origin & KY_WAKE_ORIGIN;

	return origin < sizeof(texts) / sizeof(texts[0]) ? texts[origin] : NULL;
}

const char *ky_wake_kind_key(uint32_t kind)
{
	static const char *const keys[KY_WAKE_KINDS] = {
		"unknown", "io", "timer", "deferred", "driver", "signal", "join", "code", "self"};

	return keys[kind < KY_WAKE_KINDS ? kind : 0];
}

const char *ky_wake_kind_text(uint32_t kind)
{
	static const char *const texts[KY_WAKE_KINDS] = {"(unknown)",
							 "I/O",
							 "a timer",
							 "its own yield",
							 "the driver or a yield",
							 "a signal",
							 "the end of what it joined",
							 "code",
							 "itself"};

	return texts[kind < KY_WAKE_KINDS ? kind : 0];
}

/* ---- all of them ---- */

/* Wakes by number of their source + 1; [0]: without one, by kind. */
struct counting {
	const struct ky_trace *trace;
	uint64_t *counts;
	struct ky_wake_causes *out;
	uint32_t capacity;
};

static void count_all(struct counting *counting, uint64_t from_ns, uint64_t to_ns)
{
	for (uint32_t lane = 0; lane < counting->trace->worker_count; lane++) {
		const struct ky_column *wakes = &counting->trace->workers[lane].wakes;
		struct ky_cursor at;

		if (!ky_cursor_begin(&at, wakes, ky_column_find(wakes, from_ns)))
			continue;
		do {
			const struct ky_wake_row *row = (const void *)at.at;
			uint32_t source = row->word >> KY_WAKE_SOURCE_SHIFT;

			if (at.time_ns > to_ns)
				break;
			counting->out->all++;
			if (source || !(row->word >> 8 & KY_WAKE_DERIVED) ||
			    row->waker != row->woken)
				counting->counts[source]++;
			else
				counting->out->counts[KY_WAKE_SELF]++;
		} while (ky_cursor_next(&at));
	}
}

/* Groups are few: as many as lines of code that wake. */
static int add(struct counting *counting, struct ky_wake_cause cause, uint32_t tid, uint64_t count)
{
	struct ky_wake_causes *out = counting->out;
	uint32_t i;

	out->counts[cause.kind] += count;
	for (i = 0; i < out->group_count; i++) {
		struct ky_wake_group *group = &out->groups[i];

		if (group->cause.kind == cause.kind && group->cause.line == cause.line &&
		    group->tid == tid)
			break;
	}
	if (i == out->group_count) {
		if (ky_grow(&out->groups, &counting->capacity, i + 1, sizeof(*out->groups)))
			return -ENOMEM;
		out->groups[out->group_count++] = (struct ky_wake_group){cause, tid, 0};
	}
	out->groups[i].count += count;
	return 0;
}

static bool is_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_wake_group *one = a, *other = b;

	(void)ctx;
	if (one->count != other->count)
		return one->count > other->count;
	return one->cause.kind != other->cause.kind ? one->cause.kind < other->cause.kind :
						      one->tid < other->tid;
}

int ky_wake_causes_make(struct ky_wake_causes *out, const struct ky_trace *trace,
			const struct ky_code_stacks *code, uint64_t from_ns, uint64_t to_ns)
{
	struct counting counting = {.trace = trace, .out = out};
	struct ky_wake_namer namer = {0};
	uint64_t self;
	int result = ky_wake_namer_make(&namer, trace, code);

	memset(out, 0, sizeof(*out));
	counting.counts = ky_alloc((trace->wake_source_count + 1) * sizeof(uint64_t));
	if (!counting.counts || result) {
		ky_wake_namer_release(&namer);
		ky_free(counting.counts);
		return -ENOMEM;
	}
	count_all(&counting, from_ns, to_ns);
	self = out->counts[KY_WAKE_SELF];
	out->counts[KY_WAKE_SELF] = 0;
	if (self)
		result = add(&counting, (struct ky_wake_cause){KY_WAKE_SELF, NULL}, 0, self);
	for (uint32_t i = 0; i <= trace->wake_source_count && result == 0; i++) {
		struct ky_wake wake = {.stack = KY_NONE, .waker = KY_NONE, .woken = 0};

		if (i) {
			wake.stack = trace->wake_sources[i - 1].stack;
			wake.tid = trace->wake_sources[i - 1].tid;
		}
		if (counting.counts[i])
			result = add(&counting, ky_wake_namer_cause(&namer, &wake), wake.tid,
				     counting.counts[i]);
	}
	ky_free(counting.counts);
	ky_wake_namer_release(&namer);
	if (result == 0 && out->group_count)
		ky_sort(out->groups, out->group_count, sizeof(*out->groups), is_before, NULL);
	return result;
}

void ky_wake_causes_release(struct ky_wake_causes *causes)
{
	ky_free(causes->groups);
	memset(causes, 0, sizeof(*causes));
}
