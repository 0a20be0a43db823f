/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A step calls one stage after the other:
 *
 *   copy      what was published goes into the queues of its threads; says when these are full
 *   merge     orders the queues up to the watermark
 *   convert   takes record after record and appends events to the chunk; says when this is full
 *   segment   writes the chunk out and begins the next one
 *
 * No stage calls another one, but segment.c has convert's writers report what stands at the
 * beginning of a chunk. */
#include <drain/drain_parts.h>

#include <base/alloc.h>
#include <base/now.h>
#include <errno.h>
#include <kymo/arch.h>
#include <kymo/base.h>
#include <string.h>

#define ANCHOR_TRIES 3
#define ANCHOR_WIDE_NS 50000u /* a bracket wider than this was interrupted */
#define ANCHOR_PATIENCE_NS UINT64_C(500000000)
#define MERGE_SLACK_NS UINT64_C(1000000) /* T = now - this */

/* The narrowest of a few brackets: an interrupt between the readings shows as a wide one. */
int ky_drain_own_anchor(void *ctx, struct ky_clock_anchor *out)
{
	const struct ky_ring_view *ring = ctx;
	bool is_os = ring->flags & KY_RING_CLOCK_MONOTONIC || !KYMO_ARCH_HAS_TICKS;
	uint64_t narrowest = 0;

	for (int i = 0; i < ANCHOR_TRIES; i++) {
		struct ky_clock_anchor anchor = {0};
		uint32_t high;

		anchor.ticks_before = kymo_arch_ticks(&high);
		anchor.monotonic_ns = ky_now_ns(CLOCK_MONOTONIC);
		anchor.ticks_after = kymo_arch_ticks(&high);
		if (is_os)
			anchor.ticks_before = anchor.ticks_after = anchor.monotonic_ns;
		if (i && anchor.ticks_after - anchor.ticks_before >= narrowest)
			continue;
		narrowest = anchor.ticks_after - anchor.ticks_before;
		*out = anchor;
	}
	out->realtime_ns = ky_realtime_at_ns(out->monotonic_ns);
	return 0;
}

static int add_anchor(struct ky_drain_common *common, const struct ky_clock_anchor *anchor)
{
	uint64_t width = anchor->ticks_after - anchor->ticks_before;
	uint64_t middle = anchor->ticks_before + width / 2;
	uint64_t error_ns = ky_timeline_length_ns(&common->timeline, width) / 2;
	const struct ky_timeline *line = &common->timeline;

	if (anchor->ticks_after < anchor->ticks_before)
		return 0;
	if (error_ns > ANCHOR_WIDE_NS && line->count &&
	    anchor->monotonic_ns - line->points[line->count - 1].ns < ANCHOR_PATIENCE_NS)
		return 0;
	return ky_timeline_add(&common->timeline, middle, anchor->monotonic_ns, anchor->realtime_ns,
			       error_ns) == -ENOMEM ?
		       -ENOMEM :
		       0;
}

static int set_up(struct ky_drain *drain, const struct ky_drain_options *options)
{
	struct ky_drain_common *common = &drain->common;
	int err = ky_ring_view_init(&common->ring, options->image, options->image_bytes);

	if (err)
		return err;
	drain->anchor = options->anchor ? options->anchor : ky_drain_own_anchor;
	drain->anchor_ctx = options->anchor ? options->anchor_ctx : &common->ring;
	ky_timeline_init(&common->timeline, common->ring.ticks_per_second,
			 common->ring.flags & KY_RING_CLOCK_MONOTONIC);
	err = add_anchor(common, &common->ring.open_anchor);
	if (!err)
		err = ky_common_init(common);
	if (!err && options->source)
		err = ky_drain_metadata(drain, "kymo.source", options->source);
	common->names.name = options->name;
	common->names.name_ctx = options->name_ctx;
	if (!err)
		err = ky_copy_open(&drain->copy, common, options);
	if (!err)
		err = ky_convert_open(&drain->convert, common, options);
	if (!err)
		err = ky_segment_open(&drain->segment, common, drain->convert, options);
	common->is_watching = !options->chunk;
	common->from_ticks = common->is_watching ? 0 : options->from_ticks;
	common->from_ties = options->from_ties;
	if (!err && (common->is_watching || common->from_ticks))
		ky_chunk_mute(ky_convert_chunk(drain->convert), UINT64_MAX);
	return err;
}

int ky_drain_open(struct ky_drain **out, const struct ky_drain_options *options)
{
	struct ky_drain *drain;
	int err;

	*out = NULL;
	drain = ky_alloc(sizeof(*drain));
	if (!drain)
		return -ENOMEM;
	err = set_up(drain, options);
	if (err) {
		ky_drain_close(drain);
		return err;
	}
	*out = drain;
	return 0;
}

void ky_drain_close(struct ky_drain *drain)
{
	if (!drain)
		return;
	ky_segment_close(drain->segment);
	ky_convert_close(drain->convert);
	ky_merge_release(&drain->merge);
	ky_copy_close(drain->copy);
	ky_common_release(&drain->common);
	ky_free(drain);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* now and T. The timeline's newest point, not the anchor itself: only what lies between two
 * anchors is converted. */
static int read_clock(struct ky_drain *drain)
{
	struct ky_drain_common *common = &drain->common;
	const struct ky_timeline *line = &common->timeline;
	const struct ky_timeline_point *newest;
	struct ky_clock_anchor anchor;
	uint64_t slack;
	int err = 0;

	memset(&anchor, 0, sizeof(anchor));
	if (drain->anchor(drain->anchor_ctx, &anchor) == 0)
		err = add_anchor(common, &anchor);
	common->late_ticks = common->through_ticks;
	if (!line->count)
		return err;
	newest = &line->points[line->count - 1];
	slack = ky_timeline_length_ticks(line, MERGE_SLACK_NS);
	common->now_ns = newest->ns;
	common->now_ticks = newest->ticks;
	common->through_ticks = newest->ticks > slack ? newest->ticks - slack : 0;
	if (common->step == 1 && common->from_ticks && !common->is_cut)
		common->from_ns = ky_timeline_ns(&common->timeline, common->from_ticks);
	return err;
}

/* ---- merge, convert, segment ---- */

/* Every queued record at or below `through`. */
static int merge(struct ky_drain *drain, uint64_t through)
{
	uint64_t ns;
	int err = ky_merge_prepare(&drain->merge, &drain->common, through);

	if (err)
		return err;
	while (ky_convert_run(drain->convert, &drain->merge, &ns) == KY_CONVERT_FULL)
		ky_segment_turn(drain->segment, ns);
	return ky_convert_was_short(drain->convert) ? -ENOMEM : 0;
}

/* Up to where no thread may still publish anything. */
static uint64_t settled(const struct ky_drain *drain)
{
	const struct ky_drain_common *common = &drain->common;
	uint64_t settle = ky_worker_settle_ticks(ky_convert_workers(drain->convert),
						 &common->launches, &common->timeline,
						 common->now_ticks);

	return least(ky_copy_hold_ticks(drain->copy), settle - 1);
}

/* The queues are full: merges what no unread slot can precede while it is still in the cache.
 * Only when memory is short, too, what busy threads could precede, and then everything (late
 * ones are counted). */
static int relieve(struct ky_drain *drain)
{
	const struct ky_drain_common *common = &drain->common;
	uint64_t limit = common->is_final ? UINT64_MAX : common->through_ticks;
	uint64_t floor = least(ky_copy_floor(drain->copy), limit);
	int err = ky_copy_directory(drain->copy);

	if (!err)
		err = merge(drain, least(floor, settled(drain)));
	if (!err && ky_copy_is_over_budget(drain->copy))
		err = merge(drain, floor);
	if (!err && ky_copy_is_over_budget(drain->copy))
		err = merge(drain, limit);
	ky_copy_give_back(drain->copy);
	return err;
}

/* ---- a step ---- */

static void free_threads(struct ky_drain *drain)
{
	struct ky_thread_table *threads = &drain->common.threads;
	const struct ky_dthread *thread;
	uint32_t at = 0;

	/* Threads whose exit was never reported (the directory was full) must not fill the
	 * table. */
	if (threads->count >= KY_DTHREADS_FULL)
		ky_thread_table_retire(threads);
	while ((thread = ky_thread_table_over(threads, &at)) != NULL) {
		ky_worker_disown(ky_convert_workers(drain->convert), thread);
		ky_thread_table_remove(threads, at);
	}
}

/* What the settings say now, and which samples were lost. */
static void report_news(struct ky_drain *drain, const struct ky_sample_gap *gaps)
{
	struct ky_drain_common *common = &drain->common;
	uint64_t ns = ky_convert_merged_ns(drain->convert);
	struct ky_retain_policy before;

	if (ky_retain_read_settings(drain->convert, &before) && ky_segment_is_open(drain->segment))
		ky_segment_policy(drain->segment, &before, ns);
	/* A cut reports what is there, and a drain that only watches reports nothing. */
	if (common->is_cut || common->is_watching)
		return;
	for (uint32_t i = 0; i < KY_SAMPLE_CLASSES; i++) {
		struct ky_loss loss = {.cause = KY_LOSS_SAMPLES + i,
				       .count = gaps[i].count,
				       .from_ns = gaps[i].from_ns,
				       .to_ns = common->now_ns,
				       .is_exact = !gaps[i].is_inexact};

		if (!loss.count || !ky_segment_is_open(drain->segment))
			continue;
		common->stats.samples_lost += loss.count;
		ky_segment_loss(drain->segment, &loss, ns);
	}
}

/* Sub-buffers: as many as memory is for, then what they hold is merged. */
static int read_slots(struct ky_drain *drain)
{
	int err = ky_copy_slots(drain->copy);

	while (err == KY_COPY_FULL) {
		err = relieve(drain);
		if (!err)
			err = ky_copy_slots(drain->copy);
	}
	return err;
}

static int read_all(struct ky_drain *drain)
{
	struct ky_sample_gap gaps[KY_SAMPLE_CLASSES];
	const struct ky_drain_common *common = &drain->common;
	int err = ky_copy_samples(drain->copy, ky_segment_is_open(drain->segment), gaps);

	/* Before the first record of the step is merged. */
	report_news(drain, gaps);
	if (!err)
		err = read_slots(drain);
	if (!err)
		err = ky_copy_directory(drain->copy);
	if (!err)
		err = ky_copy_thread_counts(drain->copy, ky_convert_late_wakes(drain->convert));
	if (!err && !common->is_watching)
		err = ky_copy_resources(drain->copy, ky_convert_merged_ns(drain->convert));
	if (!err && !common->is_watching)
		err = ky_copy_side(drain->copy, ky_convert_counters(drain->convert));
	if (!err && common->is_final)
		err = ky_copy_last_gaps(drain->copy);
	return err ? err : ky_copy_exits(drain->copy);
}

static void write_end(struct ky_drain *drain)
{
	uint64_t ns = ky_convert_merged_ns(drain->convert);

	ky_segment_truncated(drain->segment, ns);
	ky_segment_header_drops(drain->segment, ns);
	if (ky_convert_chunk(drain->convert)->is_muted)
		return;
	ky_segment_places(drain->segment, ns);
	ky_segment_allocs(drain->segment, ns);
}

int ky_drain_step(struct ky_drain *drain, uint32_t flags)
{
	uint64_t cpu_before = ky_now_ns(CLOCK_THREAD_CPUTIME_ID);
	struct ky_drain_common *common = &drain->common;
	int err;

	common->step++;
	common->is_final = flags & KY_DRAIN_FINAL;
	err = read_clock(drain);
	ky_segment_first_step(drain->segment);
	ky_convert_chunk(drain->convert)->clock_span =
		0; /* the newest line may have another slope */
	if (!err)
		err = read_all(drain);
	if (!err) {
		ky_segment_announce(drain->segment, ky_convert_merged_ns(drain->convert));
		err = merge(drain, common->is_final ? UINT64_MAX :
						      least(common->through_ticks, settled(drain)));
	}
	if (common->is_final && ky_segment_is_open(drain->segment) && !common->is_cut)
		write_end(drain);
	if (ky_retain_is_due(drain->convert))
		ky_segment_counts(drain->segment, ky_convert_merged_ns(drain->convert), false);
	ky_segment_flush_old(drain->segment);
	free_threads(drain);
	drain->cpu_ns += ky_now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_before;
	return err;
}

/* ---- between steps ---- */

static struct ky_segment_report report(const struct ky_drain *drain)
{
	return (struct ky_segment_report){drain->cpu_ns, ky_copy_open_slots(drain->copy)};
}

int ky_drain_seal(struct ky_drain *drain)
{
	uint64_t ns = ky_convert_merged_ns(drain->convert);
	uint64_t end_ns = ky_segment_cut(drain->segment)->end_ns;
	struct ky_segment_report about = report(drain);

	ky_segment_seal(drain->segment, end_ns > ns ? end_ns : ns, &about);
	return 0;
}

void ky_drain_last_word(struct ky_drain *drain)
{
	struct ky_segment_report about = report(drain);

	ky_segment_last_word(drain->segment, ky_convert_merged_ns(drain->convert), &about);
}

void ky_drain_refused(struct ky_drain *drain, const struct ky_chunk_loss *loss)
{
	ky_segment_refused(drain->segment, loss);
}

void ky_drain_unsent(struct ky_drain *drain, uint64_t segment_count)
{
	drain->common.unsent_count += segment_count;
}

void ky_drain_resume(struct ky_drain *drain)
{
	struct ky_clock_anchor anchor = {0};
	uint64_t ticks = 0;

	if (drain->anchor(drain->anchor_ctx, &anchor) == 0)
		ticks = anchor.ticks_before;
	if (ky_copy_resume(drain->copy, ticks))
		ky_task_table_forget(ky_convert_tasks(drain->convert));
}

int ky_drain_metadata(struct ky_drain *drain, const char *key, const char *value)
{
	return ky_pair_set(&drain->common.pairs, key, strlen(key), value, strlen(value));
}

static int add_note(struct ky_drain *drain, enum ky_note_kind kind, const void *bytes, size_t count,
		    uint64_t ns)
{
	struct ky_note note = {.kind = kind, .body = ky_note_body(bytes, count)};

	return note.body ? ky_common_note(&drain->common, &note, ns) : -ENOMEM;
}

int ky_drain_stuck(struct ky_drain *drain, const struct ky_stuck_note *stuck)
{
	return add_note(drain, KY_NOTE_STUCK, stuck, sizeof(*stuck), stuck->monotonic_ns);
}

int ky_drain_trigger(struct ky_drain *drain, const struct ky_trigger_note *trigger)
{
	return add_note(drain, KY_NOTE_TRIGGER, trigger, sizeof(*trigger), trigger->monotonic_ns);
}

void ky_drain_watch(struct ky_drain *drain, struct ky_event_sums *out)
{
	ky_convert_take_sums(drain->convert, out);
	out->is_known = drain->common.step > 0;
}

void ky_drain_stats(const struct ky_drain *drain, struct ky_drain_stats *out)
{
	*out = drain->common.stats;
	out->threads = drain->common.threads.count;
	out->workers = ky_convert_workers(drain->convert)->count;
	out->tasks_alive = ky_convert_tasks(drain->convert)->count;
}
