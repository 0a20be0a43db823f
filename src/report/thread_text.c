/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/thread_text.h>

#include <analyze/thread_uses.h>
#include <base/alloc.h>
#include <base/out_text.h>

#define SHOWN_MAX 10u
#define SHOWN_NS_MIN UINT64_C(1000000)

void ky_thread_text(struct ky_buf *out, const struct ky_trace *trace,
		    const struct ky_report *report, bool is_coloured)
{
	bool is_all = report->to_ns >= trace->run_last_ns;
	struct ky_thread_use *uses;
	struct ky_table table;
	uint32_t count, shown = 0;

	if (ky_thread_uses(trace, is_all ? 0 : report->from_ns, is_all ? 0 : report->to_ns, &uses,
			   &count))
		return;
	while (shown < count && shown < SHOWN_MAX &&
	       uses[shown].cpu_ns + uses[shown].run_delay_ns >= SHOWN_NS_MIN)
		shown++;
	if (shown) {
		ky_out_heading(out, is_coloured, "Threads beside the workers");
		ky_table_begin(&table, "rrrl", "On CPU|Waited for CPU|Thread|Name");
		for (uint32_t i = 0; i < shown; i++) {
			ky_table_duration(&table, uses[i].cpu_ns);
			ky_table_duration(&table, uses[i].run_delay_ns);
			ky_table_format(&table, "%u", uses[i].tid);
			ky_table_cell(&table, ky_trace_name(trace, uses[i].name));
		}
		ky_table_end(&table, out, 2, is_coloured);
		if (shown < count)
			ky_out_format(out, "  %u more; --json has them\n", count - shown);
		ky_out_text(out, "\n");
	}
	ky_free(uses);
}
