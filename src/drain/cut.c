/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <drain/cut.h>

#include <base/now.h>
#include <drain/drain_parts.h>
#include <drain/ring_copy.h>
#include <errno.h>
#include <kymo/base.h>
#include <kymo/emit.h>
#include <string.h>

#define MIB UINT64_C(1048576)

struct cut {
	const struct ky_cut_options *options;
	struct ky_cut_report *report;
	struct ky_ring_copy copy;
	struct ky_drain *drain;
	bool has_lapped;      /* the ring has overwritten something */
	uint64_t claims_held; /* from the oldest sub-buffer of the last round to the newest */
};

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* ---- copy ---- */

static int take_copy(struct cut *cut)
{
	const struct ky_cut_options *options = cut->options;
	struct ky_ring_copy_options how = {.image = options->image,
					   .image_bytes = options->image_bytes,
					   .bytes_max = options->copy_bytes_max,
					   .anchor = options->anchor,
					   .anchor_ctx = options->anchor_ctx};
	struct ky_ring_view view;
	int err = ky_ring_view_init(&view, options->image, options->image_bytes);

	if (err)
		return err;
	if (!how.anchor) {
		how.anchor = ky_drain_own_anchor;
		how.anchor_ctx = &view;
	}
	/* What this machine's clocks say has nothing to do with a ring that is not written any
	 * more. */
	if (options->is_dead)
		how.anchor = NULL;
	return ky_ring_copy_take(&cut->copy, &how);
}

/* ---- drain over the copy ---- */

static int on_chunk(void *ctx, const struct ky_chunk *chunk)
{
	struct cut *cut = ctx;
	struct ky_cut_report *report = cut->report;
	int err = cut->options->chunk ? cut->options->chunk(cut->options->chunk_ctx, chunk) : 0;

	if (err)
		return err;
	report->records_lost += chunk->reported_loss_count;
	if (!report->oldest_ns || chunk->first_ns < report->oldest_ns)
		report->oldest_ns = chunk->first_ns;
	if (chunk->last_ns > report->newest_ns)
		report->newest_ns = chunk->last_ns;
	return 0;
}

/* The copy brings its readings of the clock along. */
static int no_anchor(void *ctx, struct ky_clock_anchor *out)
{
	(void)ctx;
	(void)out;
	return KYMO_E_AGAIN;
}

static int open_drain(struct cut *cut)
{
	const struct ky_cut_options *options = cut->options;
	struct ky_drain_options how = {.image = cut->copy.image,
				       .image_bytes = cut->copy.image_bytes,
				       .anchor = no_anchor,
				       .name = options->name,
				       .name_ctx = options->name_ctx,
				       .chunk = on_chunk,
				       .chunk_ctx = cut,
				       .hostname = options->hostname,
				       .source = options->source};
	struct ky_drain_common *common;
	struct ky_segment_cut *about;
	struct ky_drain *drain;
	int err = ky_drain_open(&drain, &how);

	if (err)
		return err;
	cut->drain = drain;
	common = &drain->common;
	err = ky_drain_ring_clock(common, cut->copy.has_now ? &cut->copy.now : NULL);
	if (err)
		return err;
	common->is_cut = true;
	common->is_dead = options->is_dead;
	about = ky_segment_cut(drain->segment);
	about->ring_slots = cut->copy.ring_slots;
	about->truncated_count = cut->copy.truncated_count;
	about->pairs = options->pairs;
	about->pair_count = options->pair_count;
	if (common->timeline.count)
		common->now_ns = common->timeline.points[common->timeline.count - 1].ns;
	return 0;
}

/* Where the ring begins: its oldest sub-buffer of the last round. Open ones may be much older, and
 * say nothing about how long the others are kept. */
static void find_horizon(struct cut *cut)
{
	struct ky_drain *drain = cut->drain;
	uint64_t claim_index = atomic_load_explicit(&drain->common.ring.header->claim_index,
						    memory_order_relaxed);
	uint64_t round = claim_index > cut->copy.ring_slots ? claim_index - cut->copy.ring_slots :
							      0;
	uint64_t oldest = UINT64_MAX;

	cut->has_lapped = cut->copy.claim_index_at_start > cut->copy.ring_slots;
	for (uint32_t slot = 0; slot < cut->copy.slot_count; slot++) {
		uint64_t number = KY_CLAIM_NUMBER(ky_ring_view_claim(&drain->common.ring, slot));
		struct ky_slot_head head;

		if (number <= round || number >= oldest ||
		    ky_ring_view_head(&drain->common.ring, slot, number, &head) != 0)
			continue;
		oldest = number;
		drain->common.horizon_ticks = head.start_ticks;
		cut->claims_held = claim_index - number + 1;
	}
}

/* Workers are numbered in the order of their launches: all that the ring knows of are noted before
 * the first of them is met. */
static int note_workers(struct cut *cut)
{
	struct ky_drain *drain = cut->drain;
	int err = 0;

	for (uint32_t slot = 0; slot < cut->copy.slot_count && !err; slot++) {
		uint64_t number = KY_CLAIM_NUMBER(ky_ring_view_claim(&drain->common.ring, slot));
		struct ky_launch launch;
		struct ky_slot_head head;
		bool is_known = false;

		if (ky_ring_view_head(&drain->common.ring, slot, number, &head) != 0 ||
		    !head.worker_identity)
			continue;
		for (uint32_t i = drain->common.launches.count; i-- > 0 && !is_known;)
			is_known = drain->common.launches.list[i].runtime_key ==
					   head.worker_runtime &&
				   drain->common.launches.list[i].identity == head.worker_identity;
		launch = (struct ky_launch){head.worker_runtime, head.worker_identity,
					    head.worker_task >> KYMO_NAME_BITS, 0};
		if (!is_known)
			err = ky_launch_note(&drain->common.launches, &launch);
	}
	return err;
}

static void set_range(struct cut *cut)
{
	const struct ky_cut_options *options = cut->options;
	struct ky_drain_common *common = &cut->drain->common;
	struct ky_open_chunk *chunk = ky_convert_chunk(cut->drain->convert);
	uint64_t now_ns = UINT64_MAX;

	if (options->to_ns)
		common->to_ns = options->to_ns;
	/* All that was published until then is in the copy; of what came later only a part. The
	 * timeline, by which stamps are converted, may be a few us ahead of the clock. */
	if (cut->copy.has_now)
		now_ns = ky_timeline_ns(&common->timeline, cut->copy.now.ticks_before);
	if (now_ns < cut->copy.now.monotonic_ns)
		now_ns = cut->copy.now.monotonic_ns;
	if (now_ns < common->to_ns)
		common->to_ns = now_ns;
	if (cut->copy.has_now)
		ky_segment_cut(cut->drain->segment)->end_ns = common->to_ns;
	common->from_ns = options->from_ns;
	if (options->from_ticks) {
		common->from_ns = ky_timeline_ns(&common->timeline, options->from_ticks);
		common->from_ticks = options->from_ticks;
		common->from_ties = options->from_ties;
	}
	if (options->from_ticks || options->from_ns)
		ky_chunk_mute(chunk, common->from_ns);
	if (options->from_ticks)
		chunk->span_ns = UINT64_MAX; /* its stamp decides, not its time */
}

/* From where on the segment has something, and has everything. */
static void find_beginning(struct cut *cut)
{
	const struct ky_cut_options *options = cut->options;
	struct ky_drain *drain = cut->drain;
	struct ky_segment_cut *about = ky_segment_cut(drain->segment);
	uint64_t from = options->from_ticks;

	if (!from && options->from_ns)
		from = ky_timeline_ticks(&drain->common.timeline, options->from_ns);
	if (from && !options->from_ticks)
		from--; /* the stamps after it */
	about->cover_from = about->cover_whole_from = from;
	if (cut->has_lapped && drain->common.horizon_ticks > from)
		about->cover_whole_from = drain->common.horizon_ticks;
}

/* Up to where it has everything: a thread inside an event may have stamped it and not published it
 * when the copy was made, but not long ago. */
static void find_reach(struct cut *cut)
{
	struct ky_drain *drain = cut->drain;
	struct ky_segment_cut *about = ky_segment_cut(drain->segment);
	const struct ky_timeline *line = &drain->common.timeline;
	uint64_t now = cut->copy.now.ticks_before, back,
		 to = ky_convert_chunk(drain->convert)->last_ticks;

	if (cut->copy.has_now) {
		back = ky_timeline_length_ticks(line, KY_HOLD_MAX_NS);
		to = least(now, drain->common.busy_ticks);
		if (now > back && to < now - back)
			to = now - back;
	}
	if (drain->common.to_ns != UINT64_MAX && drain->common.to_ns < cut->copy.now.monotonic_ns)
		to = least(to, ky_timeline_ticks(line, drain->common.to_ns + 1) - 1);
	about->cover_to = to;
}

/* Two things with too many notes: the trace continues without them. */
static int append_notes(struct cut *cut)
{
	const struct ky_cut_options *options = cut->options;
	int err = 0;

	for (size_t i = 0; i < options->trigger_count && err != -ENOMEM; i++)
		err = ky_drain_trigger(cut->drain, &options->triggers[i]);
	for (size_t i = 0; i < options->stuck_count && err != -ENOMEM; i++)
		err = ky_drain_stuck(cut->drain, &options->stuck[i]);
	return err == -ENOMEM ? err : 0;
}

/* When a process that is gone was last known to be there: by its last record, by the handler of its
 * fatal signal, or by the process that waited for it. */
static void find_end(struct ky_drain *drain)
{
	const struct ky_ring_side *side = drain->common.ring.side;
	uint64_t last = ky_convert_merged_ns(drain->convert),
		 limit = last + drain->common.timeline.ahead_max_ns, at;

	if (side && atomic_load_explicit(&side->crash.state, memory_order_acquire) == 2) {
		at = side->crash.monotonic_ns;
		if (at > last && at < limit)
			last = at;
	}
	if (side && atomic_load_explicit(&side->end.kind, memory_order_acquire) != KY_END_UNKNOWN) {
		at = side->end.monotonic_ns;
		if (at > last && at < limit)
			last = at;
	}
	ky_segment_cut(drain->segment)->end_ns = least(last, drain->common.to_ns);
}

static uint64_t last_ns(const struct ky_drain *drain)
{
	uint64_t merged_ns = ky_convert_merged_ns(drain->convert);
	uint64_t end_ns = ky_segment_cut(drain->segment)->end_ns;

	return end_ns > merged_ns ? end_ns : merged_ns;
}

static int encode(struct cut *cut)
{
	struct ky_drain *drain = cut->drain;
	struct ky_segment_cut *about;
	uint64_t ns;
	int err = ky_drain_step(drain, KY_DRAIN_FINAL);

	if (err || drain->common.stats.last_sink_error)
		return err ? err : drain->common.stats.last_sink_error;
	if (cut->options->is_dead)
		find_end(drain);
	about = ky_segment_cut(drain->segment);
	if (about->end_ns < drain->common.from_ns) /* the ring ends before the range begins */
		about->end_ns = drain->common.from_ns;
	ns = last_ns(drain);
	find_reach(cut);
	/* Nothing happened in the range: it has a state all the same. */
	if (!ky_segment_is_open(drain->segment))
		ky_segment_turn(drain->segment, ns);
	ky_segment_truncated(drain->segment, ns);
	ky_segment_counters(drain->segment, ns);
	ky_segment_open_spans(drain->segment, ns, cut->options->is_dead);
	ky_segment_places(drain->segment, ns);
	ky_segment_allocs(drain->segment, ns);
	ky_drain_seal(drain);
	return drain->common.stats.last_sink_error;
}

/* ---- report ---- */

/* The closure that is a worker's whole life: the longest of all, and no finding. */
static bool is_runtimes(const struct ky_cut_poll *poll)
{
	return strstr(poll->name, "::worker::Launch::launch") != NULL;
}

static bool is_longer(const struct ky_cut_poll *a, const struct ky_cut_poll *b)
{
	if (is_runtimes(a) != is_runtimes(b))
		return is_runtimes(b);
	return a->start_ns < b->start_ns;
}

static void list_poll(struct ky_cut_report *report, const struct ky_cut_poll *poll)
{
	uint32_t at = report->open_poll_count++;

	if (at >= KY_CUT_POLLS_MAX) {
		at = KY_CUT_POLLS_MAX - 1;
		if (!is_longer(poll, &report->open_polls[at]))
			return;
	}
	for (; at && is_longer(poll, &report->open_polls[at - 1]); at--)
		report->open_polls[at] = report->open_polls[at - 1];
	report->open_polls[at] = *poll;
}

static void report_poll(struct cut *cut, const struct ky_dthread *thread, uint32_t worker_id,
			uint64_t task, uint64_t start_ns, uint32_t name)
{
	struct ky_cut_poll poll = {
		.worker_id = worker_id, .tid = thread->tid, .task = task, .start_ns = start_ns};

	strncpy(poll.name, ky_name_text(&cut->drain->common.names, name), sizeof(poll.name) - 1);
	list_poll(cut->report, &poll);
}

static void report_open_polls(struct cut *cut)
{
	const struct ky_drain *drain = cut->drain;

	for (uint32_t i = 0; i < drain->common.threads.count; i++) {
		const struct ky_dthread *thread = drain->common.threads.list[i];

		for (uint32_t depth = 0; depth < thread->depth; depth++) {
			const struct ky_drain_poll *poll = &thread->stack[depth];

			report_poll(cut, thread, ky_worker_id(poll->worker), poll->task,
				    poll->start_ns, poll->name);
		}
		if (thread->is_blocking)
			report_poll(cut, thread, KY_WORKER_BLOCKING_POOL, thread->blocking_task,
				    thread->blocking_start_ns, thread->blocking_name);
	}
}

/* By the rate seen: sub-buffers given out over the time they cover. */
static uint64_t bytes_needed(const struct cut *cut, uint64_t newest_ns)
{
	uint64_t age_ns = cut->report->age_ns, from_ns = cut->options->from_ns, bytes;
	ky_wide exact;

	if (!from_ns || !age_ns || !cut->has_lapped || from_ns >= newest_ns ||
	    newest_ns - from_ns <= age_ns)
		return 0;
	exact = (ky_wide)cut->claims_held * KY_SLOT_BYTES * (newest_ns - from_ns) / age_ns;
	bytes = exact > UINT64_MAX - MIB ? UINT64_MAX - MIB : (uint64_t)exact;
	return (bytes + MIB - 1) / MIB * MIB;
}

static void fill_report(struct cut *cut)
{
	struct ky_cut_report *report = cut->report;
	struct ky_drain *drain = cut->drain;
	uint64_t newest_ns = cut->copy.has_now ? cut->copy.now.monotonic_ns : last_ns(drain);
	uint64_t horizon_ns = ky_timeline_ns(&drain->common.timeline, drain->common.horizon_ticks);

	report->events_written = drain->common.stats.events_written;
	report->records_read = drain->common.stats.records_read;
	report->samples_lost = ky_ring_view_samples_lost(&drain->common.ring);
	if (drain->common.horizon_ticks && newest_ns > horizon_ns)
		report->age_ns = newest_ns - horizon_ns;
	report->ring_bytes = (uint64_t)cut->copy.ring_slots * KY_SLOT_BYTES;
	report->ring_bytes_used = least(cut->copy.claim_index_at_start, cut->copy.ring_slots) *
				  KY_SLOT_BYTES;
	report->ring_bytes_needed = bytes_needed(cut, newest_ns);
	if (drain->common.ring.control)
		report->stopped_ns = ky_settings_stopped_ns(&drain->common.ring.control->settings);
	report->bytes_copied = cut->copy.bytes;
	report->slots_overwritten = cut->copy.lost_count;
	report_open_polls(cut);
}

int ky_cut(const struct ky_cut_options *options, struct ky_cut_report *out)
{
	struct cut cut = {.options = options, .report = out};
	uint64_t start_ns = ky_now_ns(CLOCK_THREAD_CPUTIME_ID), copied_ns;
	int err;

	memset(out, 0, sizeof(*out));
	err = take_copy(&cut);
	copied_ns = ky_now_ns(CLOCK_THREAD_CPUTIME_ID);
	out->copy_cpu_ns = copied_ns - start_ns;
	if (!err)
		err = open_drain(&cut);
	if (!err) {
		find_horizon(&cut);
		set_range(&cut);
		find_beginning(&cut);
		err = note_workers(&cut);
	}
	if (!err) {
		err = append_notes(&cut);
	}
	if (!err)
		err = encode(&cut);
	if (!err)
		fill_report(&cut);
	ky_drain_close(cut.drain);
	ky_ring_copy_release(&cut.copy);
	out->encode_cpu_ns = ky_now_ns(CLOCK_THREAD_CPUTIME_ID) - copied_ns;
	return err;
}
