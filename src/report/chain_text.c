/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/chain_text.h>

#include <base/alloc.h>
#include <errno.h>
#include <read/sort.h>
#include <report/wake_text.h>
#include <report/why_text.h>
#include <string.h>

#define GROUPS_SHOWN 16u
#define DEPTH_SHOWN 8u

static void put_name(struct ky_buf *out, const struct ky_report_view *view, uint32_t name)
{
	char cell[KY_REPORT_NAME_BYTES];

	ky_out_text(out, ky_report_name(cell, view, name));
}

/* ", of it blocked 3 ms": what polls did other than run. */
static void put_own(struct ky_buf *out, const uint64_t own[KY_OWN_PARTS])
{
	static const struct {
		uint32_t part;
		const char *text;
	} rows[] = {{KY_OWN_BLOCKED, "blocked"},
		    {KY_OWN_RUNNABLE, "waiting for a CPU"},
		    {KY_OWN_NESTED, "in polls inside it"},
		    {KY_OWN_STOPPED, "stopped"}};
	char cell[KY_OUT_CELL_BYTES];
	bool is_first = true;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (!own[rows[i].part])
			continue;
		ky_out_format(out, "%s%s %s", is_first ? "; " : ", ", rows[i].text,
			      ky_out_duration(cell, own[rows[i].part]));
		is_first = false;
	}
}

static void put_wait(struct ky_buf *out, const struct ky_report_view *view,
		     struct ky_wake_cause cause, uint32_t tid)
{
	char cell[KY_WAKE_TEXT_BYTES];

	(void)ky_wake_cause_text(cell, view, cause, tid);
	ky_out_format(out, "waiting for %s", *cell ? cell : "a wake of which nothing is recorded");
}

static void put_group(struct ky_buf *out, const struct ky_report_view *view,
		      const struct ky_chain_group *group)
{
	switch (group->kind) {
	case KY_LINK_POLL:
		put_name(out, view, group->name);
		ky_out_text(out, " is polled");
		put_own(out, group->own);
		break;
	case KY_LINK_READY:
		if (group->name != KY_NONE) {
			put_name(out, view, group->name);
			ky_out_text(out, " is ready: ");
		} else {
			ky_out_text(out, "ready for the first poll, or before the range");
		}
		if (group->part == KY_PART_BEHIND_UNSPLIT) {
			ky_out_text(out, "waits for polls of ");
			put_name(out, view, group->culprit);
		} else if (group->part < KY_PARTS) {
			ky_out_text(out, ky_part_text(group->part));
		}
		break;
	case KY_LINK_RUN:
		put_name(out, view, group->name);
		ky_out_text(out, " runs on the blocking pool");
		break;
	case KY_LINK_LINE:
		put_name(out, view, group->name);
		ky_out_text(out, " stands in line for a thread of the blocking pool");
		break;
	case KY_LINK_WAIT:
		put_name(out, view, group->name);
		ky_out_text(out, " is ");
		if (group->culprit == KY_NONE) {
			put_wait(out, view, group->cause, group->tid);
		} else {
			ky_out_text(out, "waiting for ");
			put_name(out, view, group->culprit);
			ky_out_text(out, ", of which no poll is recorded");
		}
		break;
	default:
		put_name(out, view, group->name);
		ky_out_text(out, ": not known");
	}
}

static void put_link(struct ky_buf *out, const struct ky_report_view *view,
		     const struct ky_link *link)
{
	uint32_t depth = link->depth < DEPTH_SHOWN ? link->depth : DEPTH_SHOWN;

	ky_out_format(out, "%*s", (int)(2 * depth), "");
	ky_report_put_task(out, view->trace, link->task);
	switch (link->kind) {
	case KY_LINK_POLL:
		ky_out_text(out, " is polled");
		break;
	case KY_LINK_READY:
		ky_out_text(out, " is ready");
		break;
	case KY_LINK_RUN:
		ky_out_format(out, " runs on thread %u of the blocking pool", link->tid);
		break;
	case KY_LINK_LINE:
		ky_out_text(out, " stands in line for the blocking pool");
		break;
	case KY_LINK_WAIT:
		ky_out_text(out, " is ");
		if (link->waker == KY_NONE) {
			put_wait(out, view, link->cause, link->tid);
		} else {
			ky_out_text(out, "waiting for ");
			ky_report_put_task(out, view->trace, link->waker);
		}
		break;
	default:
		ky_out_text(out, ": not known");
	}
}

static void add_row(struct ky_table *table, const struct ky_buf *line)
{
	ky_table_cell(table, line->failed ? "" : (const char *)line->bytes);
}

static void print_groups(const struct ky_report_view *view, const struct ky_task_chain *chain)
{
	struct ky_table table;
	struct ky_buf line;

	ky_table_begin(&table, "rrrrl", "Time|Share|n|Longest|What");
	ky_buf_init(&line, 0);
	for (uint32_t i = 0; i < chain->group_count && i < GROUPS_SHOWN; i++) {
		const struct ky_chain_group *group = &chain->groups[i];

		ky_table_duration(&table, group->ns);
		ky_report_permille_cell(&table, ky_report_permille(group->ns,
								   chain->to_ns - chain->from_ns));
		ky_table_count(&table, group->count);
		ky_table_duration(&table, group->longest_ns);
		ky_buf_clear(&line);
		put_group(&line, view, group);
		(void)ky_buf_append(&line, "", 1);
		add_row(&table, &line);
	}
	ky_buf_release(&line);
	ky_table_end(&table, view->out, 2, view->is_coloured);
	if (chain->group_count > GROUPS_SHOWN)
		ky_out_format(view->out, "  ... and %u more; --json has all\n",
			      chain->group_count - GROUPS_SHOWN);
}

static bool is_longer(const void *a, const void *b, const void *ctx)
{
	const struct ky_task_chain *chain = ctx;
	uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
	uint64_t ns = chain->links[one].to_ns - chain->links[one].from_ns;
	uint64_t other_ns = chain->links[other].to_ns - chain->links[other].from_ns;

	return ns != other_ns ? ns > other_ns : one < other;
}

static bool is_less(const void *a, const void *b, const void *ctx)
{
	(void)ctx;
	return *(const uint32_t *)a < *(const uint32_t *)b;
}

static void print_links(const struct ky_report_view *view, const struct ky_task_chain *chain,
			const uint32_t *order, uint32_t count)
{
	struct ky_table table;
	struct ky_buf line;
	uint64_t shown_ns = 0;
	char number[KY_OUT_CELL_BYTES], cell[KY_OUT_CELL_BYTES];

	ky_table_begin(&table, "rrl", "From|Time|What; what it waited for is set in");
	ky_buf_init(&line, 0);
	for (uint32_t i = 0; i < count; i++) {
		const struct ky_link *link = &chain->links[order[i]];

		ky_report_moment_cell(&table, view, link->from_ns);
		ky_table_duration(&table, link->to_ns - link->from_ns);
		ky_buf_clear(&line);
		put_link(&line, view, link);
		(void)ky_buf_append(&line, "", 1);
		add_row(&table, &line);
		shown_ns += link->to_ns - link->from_ns;
	}
	ky_buf_release(&line);
	ky_table_end(&table, view->out, 2, view->is_coloured);
	if (count < chain->link_count)
		ky_out_format(view->out, "  ... and %s shorter ones, %s in all; --limit chooses\n",
			      ky_out_count(number, chain->link_count - count),
			      ky_out_duration(cell, chain->to_ns - chain->from_ns - shown_ns));
}

void ky_chain_text(const struct ky_report_view *view, const struct ky_task_chain *chain,
		   uint64_t limit)
{
	uint32_t *order = ky_alloc((chain->link_count + (size_t)1) * sizeof(*order));
	uint32_t count = chain->link_count;
	char cell[KY_OUT_CELL_BYTES];
	struct ky_buf head;

	if (!order) {
		view->out->failed = -ENOMEM;
		return;
	}
	ky_buf_init(&head, 0);
	ky_report_put_task(&head, view->trace, chain->task);
	ky_out_safe(view->out, (const char *)head.bytes, head.used);
	ky_buf_release(&head);
	ky_out_format(view->out, ": %s\n", ky_out_duration(cell, chain->to_ns - chain->from_ns));
	if (chain->is_cut)
		ky_out_format(view->out,
			      "! it has more than %u steps; what came first is not followed\n",
			      KY_LINKS_MAX);
	ky_out_text(view->out, "\n");
	ky_out_heading(view->out, view->is_coloured,
		       "What it took; what it waited for counts as what that did meanwhile");
	print_groups(view, chain);
	for (uint32_t i = 0; i < count; i++)
		order[i] = i;
	if (limit && limit < count) {
		ky_sort(order, count, sizeof(*order), is_longer, chain);
		count = (uint32_t)limit;
		ky_sort(order, count, sizeof(*order), is_less, NULL);
	}
	ky_out_text(view->out, "\n");
	ky_out_heading(view->out, view->is_coloured, "In the order of time");
	print_links(view, chain, order, count);
	ky_free(order);
}
