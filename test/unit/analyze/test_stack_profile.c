/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../read/dial9_case.h"
#include "../read/sample_case.h"
#include <analyze/canonical.h>
#include <analyze/stack_profile.h>

#define MS UINT64_C(1000000)

struct profile_case {
	struct read_case c;
	struct ky_symbol_table *symbols;
	struct ky_report *report;
	struct ky_stack_profile *profile;
};

static void begin(struct profile_case *p)
{
	memset(p, 0, sizeof(*p));
	case_begin(&p->c);
	case_symbol(&p->c, 0x10, "app::hash", 0, 7);
	case_symbol(&p->c, 0x20, "app::handler", 0, 42);
	case_symbol(&p->c, 0x30, "tokio::runtime::poll", 0, 1);
	case_symbol(&p->c, 0x40, "app::recurse", 0, 50);
	case_symbol(&p->c, 0x60, "<core::task::wake::Waker as core::clone::Clone>::clone", 0, 619);
	case_symbol(&p->c, 0x70, "tokio::sync::mutex::Mutex<T>::lock::{{closure}}", 0, 70);
	case_symbol(&p->c, 0x80, "hyper_util::server::conn::auto::Conn::poll", 0, 80);
	case_symbol(&p->c, 0x90, "tokio::runtime::task::raw::poll", 0, 90);
	case_symbol(&p->c, 0x50, "app::outer", 0, 60);
	case_symbol(&p->c, 0x50, "core::inlined", 1, 61);
	case_symbol(&p->c, 0xa0, "make_room", 0, 70);
	case_symbol_in(&p->c, "../include/kymo/alloc.h", 0xa0, "kymo_alloc", 1, 80);
	case_symbol(&p->c, 0xb0, "make_list", 0, 71);
	case_symbol_in(&p->c, "/usr/include/kymo/alloc.h", 0xb0, "kymo_alloc", 1, 80);
	case_symbol_in(&p->c, "/rustc/59807616/library/alloc/src/alloc.rs", 0xc0,
		       "alloc::alloc::alloc", 0, 95);
	case_symbol_in(&p->c, "/rust/deps/hashbrown-0.16.1/src/raw/alloc.rs", 0xd0,
		       "hashbrown::raw::alloc::inner::do_alloc", 0, 19);
}

static void make(struct profile_case *p, const struct ky_stack_profile_options *options)
{
	struct ky_trace_options trace_options = {0};

	assert_int_equal(ky_symbol_table_open(&p->symbols, 0), 0);
	trace_options.symbols = p->symbols;
	assert_int_equal(case_try_open(&p->c, p->c.buf.used, &trace_options), 0);
	assert_int_equal(ky_report_make(&p->report, p->c.trace, NULL), 0);
	assert_int_equal(
		ky_stack_profile_make(&p->profile, p->c.trace, p->report, p->symbols, options), 0);
}

static void finish(struct profile_case *p)
{
	ky_stack_profile_free(p->profile);
	ky_report_free(p->report);
	ky_symbol_table_close(p->symbols);
	case_finish(&p->c);
}

static const struct ky_stack_profile_function *function_of(const struct ky_stack_profile *profile,
							   const struct ky_stack_profile_cpu *cpu,
							   const char *name)
{
	for (uint32_t i = 0; i < cpu->function_count; i++) {
		uint32_t line = profile->code.function_lines[cpu->functions[i].function];

		if (strcmp(profile->code.lines[line].name, name) == 0)
			return &cpu->functions[i];
	}
	return NULL;
}

static void profile__gives_self_and_total_by_weight(void **state)
{
	const struct ky_stack_profile_function *function;
	struct profile_case p;
	uint32_t stack;

	(void)state;
	begin(&p);
	stack = CASE_STACK(&p.c, 0x10, 0x20, 0x30);
	for (uint64_t i = 0; i < 3; i++)
		case_cpu(&p.c, 100 * MS + i, 0, 11, stack, 10 * MS, 0, 0);
	case_cpu(&p.c, 101 * MS, 0, 11, CASE_STACK(&p.c, 0x20, 0x30), 70 * MS, 0, 0);
	make(&p, NULL);
	assert_true(p.profile->is_by_time);
	assert_int_equal(p.profile->cpu.all.count, 4);
	function = function_of(p.profile, &p.profile->cpu, "app::hash");
	assert_int_equal(function->self_count, 3);
	assert_int_equal(ky_whole(function->self), 30 * MS);
	assert_int_equal(function->self_share.ppm, 300000);
	function = function_of(p.profile, &p.profile->cpu, "app::handler");
	assert_int_equal(function->self_count, 1);
	assert_int_equal(function->total_count, 4);
	assert_int_equal(function->total_share.ppm, 1000000);
	assert_int_equal(function->self_share.ppm, 700000);
	assert_int_equal(p.profile->cpu.functions[0].function, function->function);
	finish(&p);
}

static void profile__counts_recursion_once_in_total(void **state)
{
	const struct ky_stack_profile_function *function;
	struct profile_case p;

	(void)state;
	begin(&p);
	case_cpu(&p.c, 100 * MS, 0, 11, CASE_STACK(&p.c, 0x40, 0x40, 0x40, 0x20), 10 * MS, 0, 0);
	make(&p, NULL);
	function = function_of(p.profile, &p.profile->cpu, "app::recurse");
	assert_int_equal(function->total_count, 1);
	assert_int_equal(ky_whole(function->total), 10 * MS);
	finish(&p);
}

static void profile__gives_self_time_to_what_is_inlined(void **state)
{
	struct profile_case p;

	(void)state;
	begin(&p);
	case_cpu(&p.c, 100 * MS, 0, 11, CASE_STACK(&p.c, 0x50, 0x20), 10 * MS, 0, 0);
	make(&p, NULL);
	assert_int_equal(function_of(p.profile, &p.profile->cpu, "core::inlined")->self_count, 1);
	assert_int_equal(function_of(p.profile, &p.profile->cpu, "app::outer")->self_count, 0);
	assert_int_equal(function_of(p.profile, &p.profile->cpu, "app::outer")->total_count, 1);
	assert_string_equal(ky_code_own_line(&p.profile->code, 0)->name, "app::outer");
	finish(&p);
}

static void profile__covers_long_polls_and_kinds(void **state)
{
	struct profile_case p;
	uint32_t hash, other;

	(void)state;
	begin(&p);
	hash = CASE_STACK(&p.c, 0x10, 0x20);
	other = CASE_STACK(&p.c, 0x20);
	case_start(&p.c, 100 * MS, 0, 7, "app::slow");
	case_cpu(&p.c, 105 * MS, 0, 11, hash, 10 * MS, 7, 100 * MS);
	case_cpu(&p.c, 115 * MS, 0, 11, hash, 10 * MS, 7, 100 * MS);
	case_end(&p.c, 120 * MS, 0);
	case_start(&p.c, 130 * MS, 0, 8, "app::fast");
	case_cpu(&p.c, 130 * MS + 100, 0, 11, other, 10 * MS, 8, 130 * MS);
	case_end(&p.c, 130 * MS + 200, 0);
	case_cpu(&p.c, 140 * MS, 0, 11, other, 10 * MS, 0, 0);
	make(&p, NULL);
	assert_int_equal(p.profile->long_polls.all.count, 2);
	assert_int_equal(p.profile->long_polls.share.ppm, 500000);
	assert_null(function_of(p.profile, &p.profile->long_polls, "tokio::runtime::poll"));
	assert_int_equal(p.profile->kind_count, 3);
	assert_string_equal(ky_trace_name(p.c.trace, p.profile->kinds[0].name), "app::slow");
	assert_int_equal(p.profile->kinds[0].all.count, 2);
	assert_int_equal(p.profile->worst_count, 2);
	assert_int_equal(p.profile->worst[0].cpu_count, 2);
	assert_int_equal(p.profile->worst[0].cpu_row_count, 1);
	assert_int_equal(p.profile->worst[1].cpu_count, 1);
	finish(&p);
}

static void profile__names_what_a_poll_waited_for(void **state)
{
	static const uint64_t sleeps[] = {0x30, 0x20};
	struct profile_case p;

	(void)state;
	begin(&p);
	case_start(&p.c, 100 * MS, 0, 7, "app::slow");
	case_off_cpu(&p.c, 110 * MS, 8 * MS, 7, 100 * MS, 1, 35, sleeps, 2);
	case_off_cpu(&p.c, 119 * MS, 4 * MS, 7, 100 * MS, 1, 35, sleeps, 2);
	case_off_cpu(&p.c, 119 * MS + 100, 50, 7, 100 * MS, 4, 35, sleeps, 2);
	case_end(&p.c, 120 * MS, 0);
	make(&p, NULL);
	assert_int_equal(p.profile->wait_count, 2);
	assert_int_equal(p.profile->waits[0].seen_ns, 12 * MS);
	assert_int_equal(p.profile->waits[0].max_ns, 8 * MS);
	assert_int_equal(p.profile->waits[0].ns.count, 2);
	assert_int_equal(p.profile->waits[0].syscall, 35);
	assert_string_equal(ky_off_cpu_reason(p.profile->waits[0].reason),
			    "blocked in a system call");
	assert_string_equal(ky_code_own_line(&p.profile->code, p.profile->waits[0].stack)->name,
			    "app::handler");
	assert_int_equal(p.profile->worst[0].off_count, 3);
	assert_int_equal(p.profile->worst[0].off_rows[0].ns, 12 * MS);
	finish(&p);
}

/* Calls of one kind of descriptor are one row, with all ports, results and errors. */
static void profile__separates_calls_by_descriptor(void **state)
{
	enum {
		FILE_KIND = 1,
		PIPE_KIND = 3
	};
	const struct ky_stack_profile_calls *calls;
	struct profile_case p;

	(void)state;
	begin(&p);
	case_off_cpu_call(&p.c, 110 * MS, 8 * MS, 0, KY_FD_KIND_TCP, 5432, 40000, 100, 0);
	case_off_cpu_call(&p.c, 120 * MS, 8 * MS, 0, KY_FD_KIND_TCP, 5432, 40001, 0, 110);
	case_off_cpu_call(&p.c, 130 * MS, 8 * MS, 0, KY_FD_KIND_TCP, 6379, 40001, 20, 0);
	case_off_cpu_call(&p.c, 140 * MS, 4 * MS, 0, PIPE_KIND, 0, 0, 7, 0);
	case_off_cpu_call(&p.c, 150 * MS, 2 * MS, 0, FILE_KIND, 0, 0, 0, 0);
	make(&p, NULL);
	assert_int_equal(p.profile->wait_count, 3);
	calls = &p.profile->waits[0].calls;
	assert_string_equal(ky_fd_kind_name(calls->fd_kind), "tcp");
	assert_int_equal(p.profile->waits[0].ns.count, 3);
	assert_int_equal(calls->peer_port_count, 2);
	assert_int_equal(calls->peer_ports[0], 5432);
	assert_int_equal(calls->peer_ports[1], 6379);
	assert_int_equal(calls->local_port, 0);
	assert_int_equal(calls->failed_count, 1);
	assert_int_equal(calls->errors[0], 110);
	assert_int_equal(calls->moved_bytes, 120);
	assert_string_equal(ky_fd_kind_name(p.profile->waits[1].calls.fd_kind), "pipe");
	assert_int_equal(p.profile->waits[1].calls.moved_bytes, 7);
	assert_string_equal(ky_fd_kind_name(p.profile->waits[2].calls.fd_kind), "file");
	assert_string_equal(ky_fd_kind_name(255), "");
	finish(&p);
}

static void profile__separates_blocked_from_runnable(void **state)
{
	struct profile_case p;

	(void)state;
	begin(&p);
	case_off_cpu_split(&p.c, 110 * MS, 8 * MS, 11, 1, KY_OFF_CPU_BY_SWITCHES, MS, 3 * MS);
	case_off_cpu_split(&p.c, 130 * MS, 2 * MS, 11, 1, KY_OFF_CPU_BY_SWITCHES, 0, 0);
	make(&p, NULL);
	assert_int_equal(p.profile->wait_count, 1);
	assert_true(p.profile->waits[0].parts.blocked == 7.0 * (double)MS);
	assert_true(p.profile->waits[0].parts.runnable == 1.0 * (double)MS);
	assert_true(p.profile->off_cpu_parts.blocked == 7.0 * (double)MS);
	assert_true(p.profile->off_cpu_parts.runnable == 1.0 * (double)MS);
	finish(&p);
}

static const struct ky_stack_profile_waker *waker_of(const struct profile_case *p, uint32_t i,
						     uint64_t count, uint64_t ms)
{
	const struct ky_stack_profile_waker *waker = &p->profile->waits[0].wakers[i];

	assert_true(i < p->profile->waits[0].waker_count);
	assert_int_equal(waker->count, count);
	assert_int_equal(ky_whole(waker->ns), ms * MS);
	return waker;
}

/* Every interval counts twice. Thread 51 serves worker 3 and polls tasks 7 and 8. */
static void write_woken(struct profile_case *p)
{
	ky_trc_enc_event(&p->c.enc, KY_EV_SEGMENT_METADATA, 100);
	ky_trc_enc_count(&p->c.enc, 1);
	ky_trc_enc_text(&p->c.enc, "pid", 3);
	ky_trc_enc_text(&p->c.enc, "40", 2);
	case_unpark(&p->c, 90 * MS, 3, 51);
	case_start(&p->c, 100 * MS, 3, 7, "app::waker");
	case_end(&p->c, 110 * MS, 3);
	case_off_cpu_woken(&p->c, 105 * MS, 4 * MS, 11, 1, 51, 40, "worker");
	case_off_cpu_woken(&p->c, 109 * MS, 3 * MS, 12, 1, 51, 40, "worker");
	case_off_cpu_woken(&p->c, 110 * MS + 500, MS, 11, 1, 51, 40, "worker"); /* in the poll */
	case_off_cpu_woken(&p->c, 110 * MS + 1001, MS, 12, 1, 51, 40, "worker");
	case_off_cpu_woken(&p->c, 120 * MS, 6 * MS, 11, 1, 60, 59, "postgres");
	case_off_cpu_woken(&p->c, 121 * MS, 5 * MS, 12, 1, 61, 59, "postgres");
	case_off_cpu_woken(&p->c, 122 * MS, MS / 2, 12, 2, 0, 0, "");
	case_off_cpu_woken(&p->c, 123 * MS, MS, 13, 0, 0, 0, "");
}

static void profile__names_the_wakers_of_waits(void **state)
{
	const struct ky_stack_profile_waker *waker;
	struct profile_case p;

	(void)state;
	begin(&p);
	write_woken(&p);
	make(&p, NULL);
	assert_int_equal(p.profile->wait_count, 1);
	assert_int_equal(p.profile->waits[0].ns.count, 8);
	assert_int_equal(p.profile->waits[0].woken_count, 7);
	assert_int_equal(ky_whole(p.profile->waits[0].woken_ns), 41 * MS);
	assert_int_equal(p.profile->waits[0].waker_total, 4);
	assert_int_equal(p.profile->waits[0].waker_count, KY_STACK_PROFILE_WAKERS);
	waker = waker_of(&p, 0, 2, 22);
	assert_string_equal(ky_trace_name(p.c.trace, waker->thread), "postgres");
	assert_true(waker->by == KY_ROW_WOKEN_BY_THREAD && !waker->is_own && !waker->is_task);
	assert_int_equal(waker->pid, 59);
	assert_int_equal(waker->tid, 0); /* two of them */
	waker = waker_of(&p, 1, 3, 16);
	assert_true(waker->is_own && waker->is_task);
	assert_int_equal(p.c.trace->tasks[waker->task].id, 7);
	assert_string_equal(ky_trace_name(p.c.trace, waker->kind), "app::waker");
	assert_int_equal(waker->tid, 51);
	waker = waker_of(&p, 2, 1, 2); /* its poll was over */
	assert_true(waker->is_own && !waker->is_task && waker->task == KY_NONE);
	assert_string_equal(ky_trace_name(p.c.trace, waker->thread), "worker");
	finish(&p);
}

static void profile__counts_tasks_of_one_kind_as_one_waker(void **state)
{
	const struct ky_stack_profile_waker *waker;
	struct profile_case p;

	(void)state;
	begin(&p);
	write_woken(&p);
	case_start(&p.c, 200 * MS, 3, 8, "app::waker");
	case_off_cpu_woken(&p.c, 205 * MS, 4 * MS, 11, 1, 51, 40, "worker");
	case_end(&p.c, 210 * MS, 3);
	make(&p, NULL);
	waker = waker_of(&p, 0, 4, 24);
	assert_true(waker->is_task && waker->task == KY_NONE && waker->kind != KY_NONE);
	finish(&p);
}

static void profile__names_what_took_the_cpu_from_a_poll(void **state)
{
	struct profile_case p;

	(void)state;
	begin(&p);
	/* Two windows of 20 ms, each standing for 100; the second goes over into another part. */
	case_start(&p.c, 100 * MS, 0, 7, "app::slow");
	case_off_cpu_by(&p.c, 105 * MS, 4 * MS, 11, 7, 100 * MS, 4, 5.0, KY_OFF_CPU_BY_SWITCHES);
	case_off_cpu_by(&p.c, 108 * MS, 2 * MS, 11, 7, 100 * MS, 4, 5.0, KY_OFF_CPU_BY_SWITCHES);
	case_off_cpu_by(&p.c, 110 * MS, MS, 11, 7, 100 * MS, 3, 5.0, KY_OFF_CPU_BY_SWITCHES);
	case_off_window(&p.c, 112 * MS, 20 * MS, 100 * MS);
	case_off_cpu_by(&p.c, 205 * MS, 3 * MS, 11, 7, 100 * MS, 4, 5.0, KY_OFF_CPU_BY_SWITCHES);
	case_off_window(&p.c, 212 * MS, 20 * MS, 100 * MS);
	case_off_window(&p.c, 213 * MS, 20 * MS, 10 * MS); /* makes no sense */
	case_end(&p.c, 220 * MS, 0);
	case_off_window(&p.c, 150 * MS, 0, 38 * MS); /* another process ended: written again */
	case_off_window(&p.c, 262 * MS, 0, 50 * MS); /* nothing was watched up to the end */
	make(&p, NULL);
	assert_int_equal(p.profile->switches_observed_ns, 40 * MS);
	assert_int_equal(p.profile->switches_stretch_ns, 250 * MS);
	assert_int_equal(p.profile->wait_count, 2);
	assert_int_equal(p.profile->waits[0].reason, 4);
	assert_int_equal(p.profile->waits[0].ns.count, 3);
	assert_true(p.profile->waits[0].ns.sum == 45.0 * (double)MS);
	/* What lies in one window varies together: 0.8 * (30^2 + 15^2). */
	assert_true(p.profile->waits[0].ns.variance > 899.9 * (double)(MS * MS) &&
		    p.profile->waits[0].ns.variance < 900.1 * (double)(MS * MS));
	assert_true(p.profile->off_cpu.variance > 1159.9 * (double)(MS * MS) &&
		    p.profile->off_cpu.variance < 1160.1 * (double)(MS * MS));
	assert_true(p.profile->waits[0].parts.runnable == 45.0 * (double)MS &&
		    p.profile->waits[0].parts.blocked == 0.0);
	assert_true(p.profile->off_cpu_parts.runnable == 45.0 * (double)MS &&
		    p.profile->off_cpu_parts.blocked == 0.0);
	assert_int_equal(p.profile->worst[0].preempted_ns, 9 * MS);
	assert_int_equal(p.profile->worst[0].fault_ns, MS);
	assert_int_equal(p.profile->worst[0].off_ns, 10 * MS);
	finish(&p);
}

static void profile__names_what_a_task_awaits_and_not_how_it_was_seen(void **state)
{
	const struct ky_code_stacks *code;
	struct profile_case p;
	uint32_t own, foreign, bare;

	(void)state;
	begin(&p);
	own = CASE_STACK(&p.c, 0x60, 0x70, 0x20, 0x90);
	foreign = CASE_STACK(&p.c, 0x60, 0x70, 0x80, 0x90);
	bare = CASE_STACK(&p.c, 0x60, 0x70, 0x90);
	case_place(&p.c, 100 * MS, 1, own, 1.0);
	case_place(&p.c, 100 * MS, 2, foreign, 1.0);
	case_place(&p.c, 100 * MS, 3, bare, 1.0);
	make(&p, NULL);
	code = &p.profile->code;
	assert_string_equal(ky_code_own_line(code, own)->name, "app::handler");
	assert_string_equal(ky_code_leaf_line(code, own)->name,
			    "tokio::sync::mutex::Mutex<T>::lock::{{closure}}");
	assert_string_equal(ky_code_own_line(code, foreign)->name,
			    "hyper_util::server::conn::auto::Conn::poll");
	assert_string_equal(ky_code_leaf_line(code, foreign)->name,
			    "tokio::sync::mutex::Mutex<T>::lock::{{closure}}");
	assert_string_equal(ky_code_own_line(code, bare)->name,
			    "tokio::sync::mutex::Mutex<T>::lock::{{closure}}");
	assert_null(ky_code_leaf_line(code, bare));
	finish(&p);
}

static void profile__names_where_tasks_wait(void **state)
{
	struct profile_case p;
	uint32_t stack;

	(void)state;
	begin(&p);
	stack = CASE_STACK(&p.c, 0x30, 0x20);
	for (uint64_t task = 1; task <= 3; task++) {
		case_poll(&p.c, 100 * MS + task, 101 * MS, 0, task);
		case_place(&p.c, 100 * MS + task + 1, task, stack, 0.5);
	}
	case_poll(&p.c, 110 * MS, 111 * MS, 0, 3);
	case_place(&p.c, 110 * MS + 1, 3, CASE_STACK(&p.c, 0x10), 1.0);
	case_poll(&p.c, 120 * MS, 121 * MS, 0, 9);
	make(&p, NULL);
	assert_int_equal(p.profile->waiting_count, 3);
	assert_int_equal(p.profile->place_count, 2);
	assert_int_equal(p.profile->places[0].task_count, 2);
	assert_int_equal(p.profile->places[0].since_ns, 100 * MS + 2);
	assert_int_equal(p.profile->places[0].ns.count, 3);
	/* Two waits of 21 ms and one of 10 ms, each with chance 1/2. */
	assert_int_equal((ky_whole(p.profile->places[0].ns.sum) + MS / 2) / MS, 104);
	finish(&p);
}

/* Two tasks of a select, one of which stands at a place that is no other's. */
static void profile__counts_a_task_at_several_places_once(void **state)
{
	struct profile_case p;
	uint32_t both, own;
	uint64_t sum = 0;

	(void)state;
	begin(&p);
	both = CASE_STACK(&p.c, 0x30, 0x20);
	own = CASE_STACK(&p.c, 0x10);
	for (uint64_t task = 1; task <= 2; task++) {
		case_poll(&p.c, 100 * MS + task, 101 * MS, 0, task);
		if (task == 1)
			case_place(&p.c, 100 * MS + task + 1, task, own, 1.0);
		case_place(&p.c, 100 * MS + task + 2, task, both, 1.0);
		case_place(&p.c, 100 * MS + task + 3, task, both, 1.0); /* two ways to it */
	}
	case_poll(&p.c, 120 * MS, 121 * MS, 0, 9);
	make(&p, NULL);
	assert_int_equal(p.profile->waiting_count, 2);
	assert_int_equal(p.profile->place_count, 2);
	assert_int_equal(p.profile->places[0].task_count, 2);
	assert_int_equal(p.profile->places[0].also_count, 0);
	assert_int_equal(p.profile->places[1].task_count, 0);
	assert_int_equal(p.profile->places[1].also_count, 1);
	assert_int_equal(p.profile->places[1].since_task,
			 ky_trace_task(p.c.trace, 1)); /* it waits there all the same */
	for (uint32_t i = 0; i < p.profile->place_count; i++)
		sum += p.profile->places[i].task_count;
	assert_int_equal(sum, p.profile->waiting_count);
	finish(&p);
}

static void profile__counts_a_task_that_a_dump_lists_once(void **state)
{
	struct profile_case p;
	uint32_t stack;

	(void)state;
	begin(&p);
	stack = CASE_STACK(&p.c, 0x30, 0x20);
	case_poll(&p.c, 100 * MS, 101 * MS, 0, 1);
	case_place(&p.c, 100 * MS + 5, 1, stack, 1.0);
	case_poll(&p.c, 110 * MS, 111 * MS, 0, 9);
	case_listed_place(&p.c, 111 * MS, 1, stack, 100 * MS + 5, 0);
	case_listed_place(&p.c, 111 * MS, 2, stack, 50 * MS, 1); /* nothing else knows this task */
	case_listed_place(&p.c, 111 * MS, 3, stack, 60 * MS, 2); /* it was being polled */
	make(&p, NULL);
	assert_int_equal(p.profile->waiting_count, 2);
	assert_int_equal(p.profile->place_count, 1);
	assert_int_equal(p.profile->places[0].task_count, 2);
	assert_int_equal(p.profile->places[0].since_ns, 50 * MS);
	assert_int_equal(p.profile->places[0].ns.count, 1);
	finish(&p);
}

/* Two waits of task 1, of which one has points, two of them; task 2 waits still. A short one counts
 * nowhere. */
static void profile__splits_the_time_that_polls_say(void **state)
{
	struct profile_case p;
	uint32_t one, other;

	(void)state;
	begin(&p);
	one = CASE_STACK(&p.c, 0x30, 0x20);
	other = CASE_STACK(&p.c, 0x10);
	case_poll(&p.c, 100 * MS, 101 * MS, 0, 1);
	case_poll(&p.c, 102 * MS, 103 * MS, 0, 2);
	case_poll(&p.c, 131 * MS, 132 * MS, 0, 1);
	case_wait(&p.c, 131 * MS, 1, one, 101 * MS, 101 * MS, 30 * MS, 0);
	case_wait(&p.c, 131 * MS, 1, other, 50 * MS, 101 * MS, 30 * MS, 1);
	case_poll(&p.c, 137 * MS, 138 * MS, 0, 1);
	case_wait(&p.c, 137 * MS, 1, one, 132 * MS, 132 * MS, 5 * MS, 0);
	case_poll(&p.c, 158 * MS, 163 * MS, 0, 1);
	case_wait(&p.c, 163 * MS, 2, other, 20 * MS, 103 * MS, 0, 0);
	make(&p, NULL);
	assert_int_equal(p.profile->waited_ns, 110 * MS);
	assert_int_equal(p.profile->waited_known_ns, 90 * MS);
	assert_int_equal(p.profile->place_count, 2);
	assert_int_equal(p.profile->places[0].task_count, 1);
	assert_int_equal(p.profile->places[0].since_ns, 103 * MS);
	assert_int_equal(p.profile->places[0].known_ns, 20 * MS);
	assert_int_equal(ky_whole(p.profile->places[0].ns.sum), 60 * MS);
	assert_int_equal(p.profile->places[0].also_ns, 30 * MS);
	assert_int_equal(ky_whole(p.profile->places[1].ns.sum), 30 * MS);
	assert_int_equal(p.profile->places[1].known_ns, 0);
	finish(&p);
}

static void profile__adds_up_live_and_allocated_bytes(void **state)
{
	struct profile_case p;
	uint32_t stack;

	(void)state;
	begin(&p);
	stack = CASE_STACK(&p.c, 0x10, 0x20);
	case_alloc(&p.c, 100 * MS, 1000, 0x1000, stack, 4.0);
	case_alloc(&p.c, 101 * MS, 1000, 0x2000, stack, 4.0);
	case_free(&p.c, 102 * MS, 1000, 0x1000);
	make(&p, NULL);
	assert_true(p.profile->is_heap_weighted);
	assert_int_equal(p.profile->heap_count, 1);
	assert_int_equal(ky_whole(p.profile->heap[0].bytes.sum), 8000);
	assert_int_equal(ky_whole(p.profile->heap[0].live_bytes.sum), 4000);
	/* 1.96 sqrt(2 * 4 * 3 * 1000^2) */
	assert_int_equal(ky_whole(ky_total_margin(&p.profile->heap_all.bytes)), 9602);
	assert_int_equal(ky_whole(p.profile->heap[0].allocations.sum), 8);
	assert_int_equal(ky_whole(p.profile->heap[0].live_allocations.sum), 4);
	/* 1.96 sqrt(2 * 4 * 3) */
	assert_int_equal(ky_whole(10.0 * ky_total_margin(&p.profile->heap_all.allocations)), 96);
	finish(&p);
}

/* By the C functions, which are inlined: the call is no line of the program. */
static void profile__distinguishes_functions_that_call_the_library(void **state)
{
	struct profile_case p;

	(void)state;
	begin(&p);
	case_alloc(&p.c, 100 * MS, 1000, 0x1000, CASE_STACK(&p.c, 0xa0, 0x20), 4.0);
	case_alloc(&p.c, 101 * MS, 2000, 0x2000, CASE_STACK(&p.c, 0xb0, 0x20), 4.0);
	make(&p, NULL);
	assert_int_equal(p.profile->heap_count, 2);
	assert_string_equal(ky_code_own_line(&p.profile->code, p.profile->heap[0].stack)->name,
			    "make_list");
	assert_string_equal(ky_code_own_line(&p.profile->code, p.profile->heap[1].stack)->name,
			    "make_room");
	finish(&p);
}

/* Else all that dependencies allocate would be the one row of the language's alloc(). */
static void profile__names_the_dependency_where_nothing_is_the_programs_own(void **state)
{
	const struct ky_code_stacks *code;
	struct profile_case p;
	uint32_t own, foreign, bare;

	(void)state;
	begin(&p);
	own = CASE_STACK(&p.c, 0xc0, 0xd0, 0x80, 0x20, 0x90);
	foreign = CASE_STACK(&p.c, 0xc0, 0xd0, 0x80, 0x90);
	bare = CASE_STACK(&p.c, 0xc0, 0xd0, 0x90);
	case_alloc(&p.c, 100 * MS, 1000, 0x1000, own, 4.0);
	case_alloc(&p.c, 101 * MS, 2000, 0x2000, foreign, 4.0);
	case_alloc(&p.c, 102 * MS, 3000, 0x3000, bare, 4.0);
	make(&p, NULL);
	code = &p.profile->code;
	assert_string_equal(ky_code_own_line(code, own)->name, "app::handler");
	assert_string_equal(ky_code_own_line(code, foreign)->name,
			    "hyper_util::server::conn::auto::Conn::poll");
	assert_string_equal(ky_code_own_line(code, bare)->name, "alloc::alloc::alloc");
	assert_int_equal(p.profile->heap_count, 3);
	finish(&p);
}

/* As in a release build, which has names alone. */
static void profile__recognises_own_functions_by_their_names(void **state)
{
	static const char *const names[] = {
		"demo::export::{{closure}}",
		"<demo::Order as core::clone::Clone>::clone",
		"<F as demo::Handler<M>>::call",
		"httpd::serve",
		"main", /* 5 own, the rest not */
		"<F as axum::handler::Handler<(M,T1),S>>::call::{{closure}}",
		"<bytes::bytes::Bytes as core::convert::From<alloc::vec::Vec<u8>>>::from",
		"<&F as core::ops::function::Fn<A>>::call",
		"<u8 as <[_]>::to_vec_in::ConvertVec>::to_vec",
		"<dyn core::any::Any>::is",
		"http::header::map::HeaderMap<T>::insert",
		"serde_json::ser::to_vec",
		"hashbrown::raw::RawTable<T,A>::reserve_rehash"};
	struct ky_code_line line = {.file = "", .why = KY_SYMBOL_FOUND};

	(void)state;
	for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		line.name = names[i];
		assert_int_equal(ky_code_is_own(&line), i < 5);
	}
}

/* Ten parts of 100 ms .. 200 ms; half of it is at 150 ms. */
static void profile__gives_growth_and_live_bytes_over_time(void **state)
{
	const struct ky_stack_profile_heap *heap;
	struct profile_case p;
	uint32_t leak, steady;

	(void)state;
	begin(&p);
	leak = CASE_STACK(&p.c, 0x10, 0x20);
	steady = CASE_STACK(&p.c, 0x30, 0x20);
	case_alloc(&p.c, 100 * MS, 1000, 0x1000, leak, 2.0);
	case_alloc(&p.c, 101 * MS, 500, 0x2000, steady, 2.0);
	case_free(&p.c, 155 * MS, 500, 0x2000);
	case_alloc(&p.c, 160 * MS, 500, 0x3000, steady, 2.0);
	case_alloc(&p.c, 170 * MS, 1000, 0x4000, leak, 2.0);
	case_alloc(&p.c, 200 * MS, 1000, 0x5000, leak, 2.0);
	make(&p, NULL);
	assert_int_equal(p.profile->heap_count, 2);
	heap = &p.profile->heap[0];
	assert_int_equal(ky_whole(heap->live_bytes.sum), 6000);
	assert_int_equal(ky_whole(heap->growth.sum), 4000);
	/* 2 * 1 * 1000^2 each */
	assert_int_equal(ky_whole(heap->growth.variance), 4000000);
	assert_true(p.profile->heap_points[0] == 100 * MS);
	assert_true(p.profile->heap_points[5] == 150 * MS);
	assert_true(p.profile->heap_points[10] == 200 * MS);
	assert_int_equal(ky_whole(heap->live_at[0]), 2000);
	assert_int_equal(ky_whole(heap->live_at[6]), 2000);
	assert_int_equal(ky_whole(heap->live_at[7]), 4000);
	assert_int_equal(ky_whole(heap->live_at[10]), 6000);
	heap = &p.profile->heap[1];
	assert_int_equal(ky_whole(heap->live_bytes.sum), 1000);
	assert_true(heap->growth.sum == 0.0 && heap->growth.count == 2);
	assert_int_equal(ky_whole(heap->live_at[5]), 1000);
	assert_int_equal(ky_whole(p.profile->heap_all.live_at[5]), 3000);
	finish(&p);
}

/* What was allocated before it is live in a range, and not allocated there. */
static void profile__range_begins_with_what_is_live(void **state)
{
	struct ky_stack_profile_options options = {.from_ns = 110 * MS, .to_ns = 130 * MS};
	struct profile_case p;
	uint32_t stack;

	(void)state;
	begin(&p);
	stack = CASE_STACK(&p.c, 0x10, 0x20);
	case_alloc(&p.c, 100 * MS, 1000, 0x1000, stack, 1.0);
	case_alloc(&p.c, 101 * MS, 10, 0x2000, stack, 1.0);
	case_free(&p.c, 105 * MS, 10, 0x2000);
	case_alloc(&p.c, 120 * MS, 500, 0x3000, stack, 1.0);
	case_free(&p.c, 140 * MS, 500, 0x3000);
	case_alloc(&p.c, 150 * MS, 7, 0x4000, stack, 1.0);
	make(&p, &options);
	assert_int_equal(ky_whole(p.profile->heap_all.bytes.sum), 500);
	assert_int_equal(ky_whole(p.profile->heap_all.live_bytes.sum), 1500);
	assert_int_equal(p.profile->heap_all.count, 2);
	finish(&p);
}

static void profile__withholds_what_losses_make_unsafe(void **state)
{
	struct profile_case p;

	(void)state;
	begin(&p);
	case_cpu(&p.c, 100 * MS, 0, 11, CASE_STACK(&p.c, 0x10), 10 * MS, 0, 0);
	case_cpu(&p.c, 101 * MS, 0, 11, CASE_STACK(&p.c, 0x20), 10 * MS, 0, 0);
	case_lost_samples(&p.c, 102 * MS, 3, "cpu-samples");
	make(&p, NULL);
	assert_true(ky_stack_profile_is_withheld(p.profile, KY_STACK_CPU));
	assert_false(ky_stack_profile_is_withheld(p.profile, KY_STACK_OFF_CPU));
	assert_true(p.profile->cpu.functions[0].self_share.high_ppm > 900000);
	finish(&p);
}

static void profile__keeps_to_its_range(void **state)
{
	struct ky_stack_profile_options options = {.from_ns = 101 * MS, .to_ns = 102 * MS};
	struct profile_case p;

	(void)state;
	begin(&p);
	for (uint64_t i = 0; i < 3; i++)
		case_cpu(&p.c, (100 + i) * MS, 0, 11, CASE_STACK(&p.c, 0x10), 10 * MS, 0, 0);
	make(&p, &options);
	assert_int_equal(p.profile->cpu.all.count, 1);
	assert_int_equal(p.profile->counts[KY_STACK_CPU], 1);
	finish(&p);
}

static void profile__survives_each_failing_allocation(void **state)
{
	struct profile_case p;
	int result = -ENOMEM;
	uint64_t n;

	(void)state;
	begin(&p);
	case_poll(&p.c, 1000, 1900, 0, 1);
	case_cpu(&p.c, 1500, 0, 11, CASE_STACK(&p.c, 0x10, 0x20), 5, 1, 1000);
	case_place(&p.c, 1600, 1, CASE_STACK(&p.c, 0x20), 1.0);
	case_alloc(&p.c, 1700, 64, 0x10, CASE_STACK(&p.c, 3), 8.0);
	write_woken(&p);
	make(&p, NULL);
	ky_stack_profile_free(p.profile);
	for (n = 0; result != 0; n++) {
		test_alloc_fail_at(n);
		result = ky_stack_profile_make(&p.profile, p.c.trace, p.report, p.symbols, NULL);
		test_alloc_normal();
		assert_true(result == 0 || result == -ENOMEM);
	}
	assert_true(n > 15);
	finish(&p);
}

/* dial9 names its own code; its samples have no weight. */
static void profile__reads_dial9(void **state)
{
	const struct ky_stack_profile *profile;
	struct profile_case p;
	uint8_t *bytes;
	size_t count;

	(void)state;
	bytes = dial9_bytes(DIAL9_057, &count);
	if (!bytes)
		skip();
	memset(&p, 0, sizeof(p));
	case_begin(&p.c);
	ky_buf_clear(&p.c.buf);
	ky_buf_append(&p.c.buf, bytes, count);
	make(&p, NULL);
	profile = p.profile;
	assert_false(profile->is_by_time);
	assert_int_equal(profile->cpu.all.count, 141);
	assert_true(profile->cpu.function_total > 100);
	assert_true(profile->code.nameless_count < profile->code.spot_count / 10);
	assert_true(profile->place_count > 0 && profile->heap_count > 0);
	assert_false(profile->is_heap_weighted);
	finish(&p);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(profile__gives_self_and_total_by_weight),
		cmocka_unit_test(profile__counts_recursion_once_in_total),
		cmocka_unit_test(profile__gives_self_time_to_what_is_inlined),
		cmocka_unit_test(profile__covers_long_polls_and_kinds),
		cmocka_unit_test(profile__names_what_a_poll_waited_for),
		cmocka_unit_test(profile__separates_calls_by_descriptor),
		cmocka_unit_test(profile__separates_blocked_from_runnable),
		cmocka_unit_test(profile__names_the_wakers_of_waits),
		cmocka_unit_test(profile__counts_tasks_of_one_kind_as_one_waker),
		cmocka_unit_test(profile__names_what_took_the_cpu_from_a_poll),
		cmocka_unit_test(profile__names_where_tasks_wait),
		cmocka_unit_test(profile__names_what_a_task_awaits_and_not_how_it_was_seen),
		cmocka_unit_test(profile__counts_a_task_at_several_places_once),
		cmocka_unit_test(profile__counts_a_task_that_a_dump_lists_once),
		cmocka_unit_test(profile__splits_the_time_that_polls_say),
		cmocka_unit_test(profile__adds_up_live_and_allocated_bytes),
		cmocka_unit_test(profile__distinguishes_functions_that_call_the_library),
		cmocka_unit_test(profile__names_the_dependency_where_nothing_is_the_programs_own),
		cmocka_unit_test(profile__recognises_own_functions_by_their_names),
		cmocka_unit_test(profile__gives_growth_and_live_bytes_over_time),
		cmocka_unit_test(profile__range_begins_with_what_is_live),
		cmocka_unit_test(profile__withholds_what_losses_make_unsafe),
		cmocka_unit_test(profile__keeps_to_its_range),
		cmocka_unit_test(profile__survives_each_failing_allocation),
		cmocka_unit_test(profile__reads_dial9),
	};

	return cmocka_run_group_tests_name("profile", tests, NULL, NULL);
}
