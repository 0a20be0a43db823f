/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/loss_text.h>

#include <read/left_out.h>

#include <base/out_text.h>
#include <string.h>

void ky_loss_counts_text(struct ky_buf *out, const struct ky_loss_counts *counts)
{
	char cell[KY_OUT_CELL_BYTES];
	bool has_records = counts->records != 0 || counts->dropped != 0;

	if (!has_records && counts->samples == 0) {
		ky_out_text(out, "nothing lost");
		return;
	}
	if (has_records)
		ky_out_format(out, "%s records lost", ky_out_count(cell, counts->records));
	if (counts->dropped)
		ky_out_format(out, ", %s dropped", ky_out_count(cell, counts->dropped));
	if (counts->samples)
		ky_out_format(out, "%s%s sample%s lost%s", has_records ? ", " : "no record lost, ",
			      ky_out_count(cell, counts->samples), counts->samples == 1 ? "" : "s",
			      counts->since_start ? " since the process started" : "");
}

void ky_loss_samples_text(struct ky_buf *out, const struct ky_trace *trace)
{
	static const struct {
		enum ky_stack_kind kind;
		const char *what;
	} kinds[] = {{KY_STACK_CPU, "CPU"},
		     {KY_STACK_OFF_CPU, "off CPU"},
		     {KY_STACK_PLACE, "await points"},
		     {KY_STACK_ALLOC, "allocations"},
		     {KY_STACK_FREE, "frees"}};
	char cell[KY_OUT_CELL_BYTES];
	bool is_first = true;

	if (!trace->lost_samples)
		return;
	ky_out_format(out, "%s sample%s", ky_out_count(cell, trace->lost_samples),
		      trace->lost_samples == 1 ? "" : "s");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		uint64_t count = trace->samples.lost[kinds[i].kind];

		if (!count)
			continue;
		ky_out_format(out, "%s%s %s", is_first ? " (" : ", ", ky_out_count(cell, count),
			      kinds[i].what);
		is_first = false;
	}
	if (!is_first)
		ky_out_text(out, ")");
}

static void row(struct ky_buf *out, bool *is_first)
{
	ky_out_format(out, "%-9s ", *is_first ? "Losses" : "");
	*is_first = false;
}

/* Records in gaps. horizons: threads of a dump whose records begin later than it does. */
static void record_row(struct ky_buf *out, const struct ky_trace *trace, uint32_t gaps,
		       bool *is_first)
{
	char cell[KY_OUT_CELL_BYTES];
	bool is_exact = true;

	for (uint32_t i = 0; i < trace->loss_count; i++)
		is_exact &= trace->losses[i].is_exact;
	row(out, is_first);
	ky_out_format(out, "%s%s records in %u gap%s; `kymo report` says what is unsafe\n",
		      is_exact ? "" : "at least ", ky_out_count(cell, trace->lost_records), gaps,
		      gaps == 1 ? "" : "s");
}

void ky_unsent_text(struct ky_buf *out, const struct ky_trace *trace)
{
	char cell[KY_OUT_CELL_BYTES];

	ky_out_format(out,
		      "%s segment%s deleted by the bound on disk (--total-bytes) before every "
		      "destination had %s",
		      ky_out_count(cell, trace->unsent_segments),
		      trace->unsent_segments == 1 ? " was" : "s were",
		      trace->unsent_segments == 1 ? "it" : "them");
}

void ky_loss_rows(struct ky_buf *out, const struct ky_trace *trace)
{
	uint32_t horizons = 0, gaps = trace->loss_count - trace->unrecorded_count;
	uint64_t switches = ky_trace_lost_switches(trace);
	char cell[KY_OUT_CELL_BYTES];
	bool is_first = true;

	for (uint32_t i = 0; i < trace->loss_count; i++)
		horizons += strcmp(ky_trace_name(trace, trace->losses[i].cause), "horizon") == 0;
	if (gaps > horizons)
		record_row(out, trace, gaps, &is_first);
	if (trace->lost_samples) {
		row(out, &is_first);
		ky_loss_samples_text(out, trace);
		ky_out_text(out, "; polls, parks and wakes are not among them\n");
	}
	if (switches) {
		row(out, &is_first);
		ky_out_format(out, "%s of the kernel's switch records\n",
			      ky_out_count(cell, switches));
	}
	if (trace->unsent_segments) {
		row(out, &is_first);
		ky_unsent_text(out, trace);
		ky_out_text(out, "\n");
	}
	if (trace->requests_unseen) {
		row(out, &is_first);
		ky_out_format(out, "%s connections or requests on them are not seen\n",
			      ky_out_count(cell, trace->requests_unseen));
	}
	if (is_first && horizons) {
		row(out, &is_first);
		ky_out_format(out,
			      "none; of %u thread%s the ring reached less far back than this "
			      "dump\n",
			      horizons, horizons == 1 ? "" : "s");
	}
	if (is_first) {
		row(out, &is_first);
		ky_out_text(out, trace->is_kymo ? "none\n" :
						  "none recorded (this writer may not record its "
						  "losses)\n");
	}
	ky_left_out_text(out, trace, "Left out  ");
}

void ky_left_out_text(struct ky_buf *out, const struct ky_trace *trace, const char *prefix)
{
	char cell[KY_OUT_CELL_BYTES];

	for (uint32_t i = 0; i < trace->left_out_count; i++) {
		const struct ky_left_out *left = &trace->left_outs[i];

		ky_out_format(out, "%s%s %s have no room in memory: %s\n", prefix,
			      ky_out_count(cell, left->count), ky_left_out_noun(left->kind),
			      ky_left_out_effect(left->kind));
	}
}
