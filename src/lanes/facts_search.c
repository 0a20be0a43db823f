/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <lanes/poll_facts.h>

#include <base/alloc.h>
#include <errno.h>
#include <lanes/facts_json.h>

/* ---- a poll by its moment ---- */

/* Less is better: polls that are open then, the last to begin first; then those after it. */
static uint64_t apart(const struct ky_poll *poll, uint64_t time_ns)
{
	return poll->start_ns > time_ns ? (UINT64_C(1) << 63) + (poll->start_ns - time_ns) :
					  time_ns - poll->start_ns;
}

bool ky_facts_find_poll(const struct ky_trace *trace, uint64_t task_id, uint64_t time_ns,
			uint32_t *worker, uint64_t *row)
{
	uint64_t best = UINT64_MAX;

	for (uint32_t i = 0; i < trace->worker_count; i++) {
		const struct ky_column *polls = &trace->workers[i].polls;
		uint64_t at = ky_column_find(polls, time_ns);
		struct ky_poll poll;

		for (at = at > 2 ? at - 2 : 0; at < polls->row_count; at++) {
			ky_trace_poll(trace, i, at, &poll);
			if (poll.start_ns > time_ns && apart(&poll, time_ns) >= best)
				break;
			if (poll.start_ns + poll.duration_ns < time_ns ||
			    (task_id != UINT64_MAX && trace->tasks[poll.task].id != task_id) ||
			    apart(&poll, time_ns) >= best)
				continue;
			best = apart(&poll, time_ns);
			*worker = i;
			*row = at;
		}
	}
	return best != UINT64_MAX;
}

/* ---- by words ---- */

static uint8_t lower(char byte)
{
	uint8_t code = (uint8_t)byte;

	return code >= 'A' && code <= 'Z' ? (uint8_t)(code + 32) : code;
}

/* Letters of ASCII in either case. */
static bool has(const char *text, const char *part)
{
	for (; *text; text++) {
		const char *a = text, *b = part;

		while (*b && lower(*a) == lower(*b)) {
			a++;
			b++;
		}
		if (!*b)
			return true;
	}
	return false;
}

static bool number_of(const char *text, uint64_t *out)
{
	*out = 0;
	if (!*text)
		return false;
	for (; *text; text++)
		if (*text < '0' || *text > '9' || *out > (UINT64_MAX - 9) / 10)
			return false;
		else
			*out = *out * 10 + (uint64_t)(*text - '0');
	return true;
}

struct fact_search {
	struct ky_buf *out;
	const struct ky_lanes *lanes;
	const char *text;
	uint32_t found;
};

static void open(struct fact_search *search, const char *kind)
{
	search->found++;
	ky_json_open(search->out, NULL, "{");
	ky_json_text(search->out, "kind", kind);
}

static void find_task(struct fact_search *search)
{
	const struct ky_trace *trace = search->lanes->trace;
	uint32_t task;
	uint64_t id;

	if (!number_of(search->text, &id))
		return;
	task = ky_trace_task(trace, id);
	if (task == KY_NONE)
		return;
	open(search, "task");
	ky_json_number(search->out, "task", task);
	ky_json_number(search->out, "id", id);
	ky_json_text(search->out, "text", ky_trace_name(trace, trace->tasks[task].name));
	ky_json_number(search->out, "polls", trace->tasks[task].poll_count);
	ky_json_number(search->out, "poll_max_ns", trace->tasks[task].poll_max_ns);
	ky_json_close(search->out, "}");
}

/* Kinds of task: the one of its tasks with the longest poll stands for it. */
static void find_kinds(struct fact_search *search)
{
	const struct ky_trace *trace = search->lanes->trace;
	uint32_t count = ky_trace_name_count(trace);
	uint32_t *tasks = ky_alloc((count + (size_t)1) * sizeof(*tasks));

	if (!tasks) {
		search->out->failed = -ENOMEM;
		return;
	}
	for (uint32_t i = 0; i < count; i++)
		tasks[i] = KY_NONE;
	for (uint32_t i = 0; i < trace->task_count; i++) {
		const struct ky_task *task = &trace->tasks[i];

		if (task->name < count &&
		    (tasks[task->name] == KY_NONE ||
		     task->poll_max_ns > trace->tasks[tasks[task->name]].poll_max_ns))
			tasks[task->name] = i;
	}
	for (uint32_t i = 0; i < count && search->found < KY_FACTS_FOUND_MAX; i++) {
		if (tasks[i] == KY_NONE || !has(ky_trace_name(trace, i), search->text))
			continue;
		open(search, "kind");
		ky_json_number(search->out, "name", i);
		ky_json_text(search->out, "text", ky_trace_name(trace, i));
		ky_json_number(search->out, "task", tasks[i]);
		ky_json_number(search->out, "poll_max_ns", trace->tasks[tasks[i]].poll_max_ns);
		ky_json_close(search->out, "}");
	}
	ky_free(tasks);
}

static void find_spans(struct fact_search *search)
{
	const struct ky_lanes *lanes = search->lanes;

	for (uint32_t i = 0; i < lanes->count && search->found < KY_FACTS_FOUND_MAX; i++) {
		const struct ky_lane *lane = &lanes->list[i];

		if (lane->kind != KY_LANE_SPANS ||
		    !has(ky_trace_name(lanes->trace, lane->name), search->text))
			continue;
		open(search, "spans");
		ky_json_number(search->out, "lane", i);
		ky_json_text(search->out, "text", ky_trace_name(lanes->trace, lane->name));
		ky_json_number(search->out, "count", lane->row_count);
		ky_json_close(search->out, "}");
	}
}

struct function_use {
	uint64_t samples;
	uint32_t best; /* sample + 1, of those inside polls the one in the longest; 0: none */
};

static void count_functions(struct function_use *uses, const struct ky_trace *trace,
			    const struct ky_code_stacks *stacks)
{
	const struct ky_stack_row *rows = trace->samples.rows;

	for (uint32_t i = 0; i < trace->samples.row_count; i++) {
		const struct ky_code_line *own;
		struct function_use *use;

		if (rows[i].stack == KY_NONE || !rows[i].poll_start_ns)
			continue;
		own = ky_code_own_line(stacks, rows[i].stack);
		if (!own)
			continue;
		use = &uses[own->function];
		use->samples++;
		if (!use->best || rows[i].poll_ns > rows[use->best - 1].poll_ns)
			use->best = i + 1;
	}
}

static void put_function(struct fact_search *search, const struct ky_code_line *line,
			 const struct function_use *use)
{
	const struct ky_trace *trace = search->lanes->trace;
	const struct ky_stack_row *row = &trace->samples.rows[use->best - 1];
	bool has_task = row->task < trace->task_count;

	open(search, "function");
	ky_json_text(search->out, "text", line->name);
	ky_json_text(search->out, "file", line->file);
	ky_json_number(search->out, "line", line->line);
	ky_json_number(search->out, "samples", use->samples);
	ky_facts_moment(search->out, "poll_start_ns", trace, row->poll_start_ns);
	ky_json_number_or_null(search->out, "task_id", has_task,
			       has_task ? trace->tasks[row->task].id : 0);
	ky_json_close(search->out, "}");
}

static void find_functions(struct fact_search *search, const struct ky_code_stacks *stacks)
{
	struct function_use *uses = ky_alloc((stacks->function_count + 1) * sizeof(*uses));

	if (!uses) {
		search->out->failed = -ENOMEM;
		return;
	}
	count_functions(uses, search->lanes->trace, stacks);
	for (uint32_t i = 0; i < stacks->function_count && search->found < KY_FACTS_FOUND_MAX;
	     i++) {
		const struct ky_code_line *line = &stacks->lines[stacks->function_lines[i]];

		if (uses[i].best &&
		    (has(line->name, search->text) || has(line->file, search->text)))
			put_function(search, line, &uses[i]);
	}
	ky_free(uses);
}

void ky_facts_search_json(struct ky_buf *out, const struct ky_lanes *lanes, const char *text,
			  const struct ky_code_stacks *stacks)
{
	struct fact_search search = {.out = out, .lanes = lanes, .text = text};

	ky_json_open(out, NULL, "[");
	if (*text) {
		find_task(&search);
		find_kinds(&search);
		find_spans(&search);
		if (stacks)
			find_functions(&search, stacks);
	}
	ky_json_close(out, "]");
}
