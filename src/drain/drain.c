/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <drain/drain_state.h>

#include <base/alloc.h>
#include <base/now.h>
#include <errno.h>
#include <kymo/arch.h>
#include <kymo/base.h>
#include <string.h>
#include <unistd.h>

#define TASKS_DEFAULT (1u << 20)
#define TASKS_LIMIT (1u << 26)
#define OUT_BYTES_MAX ((size_t)64 << 20)
#define INDEX_BYTES_MAX ((size_t)64 << 20)
#define ANCHOR_TRIES 3
#define ANCHOR_WIDE_NS 50000u /* a bracket wider than this was interrupted */
#define ANCHOR_PATIENCE_NS UINT64_C(500000000)

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

static void add_anchor(struct ky_drain *drain, const struct ky_clock_anchor *anchor)
{
	uint64_t width = anchor->ticks_after - anchor->ticks_before;
	uint64_t middle = anchor->ticks_before + width / 2;
	uint64_t error_ns = ky_timeline_length_ns(&drain->timeline, width) / 2;
	const struct ky_timeline *line = &drain->timeline;

	if (anchor->ticks_after < anchor->ticks_before)
		return;
	if (error_ns > ANCHOR_WIDE_NS && line->count &&
	    anchor->monotonic_ns - line->points[line->count - 1].ns < ANCHOR_PATIENCE_NS)
		return;
	if (ky_timeline_add(&drain->timeline, middle, anchor->monotonic_ns, anchor->realtime_ns,
			    error_ns) == -ENOMEM)
		drain->is_out_of_memory = true;
}

static int set_options(struct ky_drain *drain, const struct ky_drain_options *options)
{
	drain->options = *options;
	if (!drain->options.anchor) {
		drain->options.anchor = ky_drain_own_anchor;
		drain->options.anchor_ctx = &drain->ring;
	}
	if (!drain->options.tracked_tasks_max)
		drain->options.tracked_tasks_max = TASKS_DEFAULT;
	if (drain->options.tracked_tasks_max > TASKS_LIMIT)
		drain->options.tracked_tasks_max = TASKS_LIMIT;
	if (options->host)
		strncpy(drain->host, options->host, sizeof(drain->host) - 1);
	else if (gethostname(drain->host, sizeof(drain->host) - 1) != 0)
		drain->host[0] = 0;
	drain->options.host = NULL; /* the caller's string may go away */
	if (!options->source)
		return 0;
	return ky_drain_set_pair(drain, "kymo.source", 11, options->source,
				 strlen(options->source));
}

static int set_up(struct ky_drain *drain, const struct ky_drain_options *options)
{
	size_t slots;
	int err = ky_ring_view_open(&drain->ring, options->image, options->image_bytes);

	if (err)
		return err;
	err = set_options(drain, options);
	if (err)
		return err;
	drain->options.source = NULL;
	slots = (size_t)drain->ring.slot_count + 1;
	ky_timeline_init(&drain->timeline, drain->ring.ticks_per_second,
			 drain->ring.flags & KY_RING_CLOCK_MONOTONIC);
	add_anchor(drain, &drain->ring.open_anchor);
	drain->cursors = ky_alloc(slots * sizeof(*drain->cursors));
	drain->listed = ky_alloc(slots * sizeof(*drain->listed));
	drain->visits = ky_alloc(slots * sizeof(*drain->visits));
	ky_buf_init(&drain->out, OUT_BYTES_MAX);
	ky_buf_init(&drain->index, INDEX_BYTES_MAX);
	if (!drain->cursors || !drain->listed || !drain->visits || drain->is_out_of_memory)
		return -ENOMEM;
	err = ky_buf_reserve(&drain->out, KY_CHUNK_BYTES_MAX);
	if (!err)
		err = ky_task_table_init(&drain->tasks, drain->options.tracked_tasks_max);
	if (!err)
		err = ky_trc_enc_init(&drain->enc, &drain->out);
	if (!err)
		err = ky_drain_side_open(drain);
	if (!err)
		err = ky_drain_sample_open(drain);
	if (!err)
		err = ky_retain_open(drain);
	drain->to_ns = drain->busy_ticks = UINT64_MAX;
	if (!drain->options.chunk)
		ky_drain_mute(drain, UINT64_MAX);
	return err;
}

/* The buffer refuses everything, and the chunk that is not open asks for no other one. */
void ky_drain_mute(struct ky_drain *drain, uint64_t from_ns)
{
	drain->is_muted = true;
	drain->from_ns = from_ns;
	drain->out.failed = KYMO_E_AGAIN;
	drain->chunk.first_ns = 0;
	drain->chunk.span_ns = from_ns;
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
	ky_drain_thread_release(drain);
	ky_drain_side_release(drain);
	ky_drain_sample_release(drain);
	ky_retain_release(drain);
	ky_drain_release_directory(drain);
	ky_task_table_release(&drain->tasks);
	ky_timeline_release(&drain->timeline);
	ky_trc_enc_release(&drain->enc);
	for (uint32_t i = 0; i < drain->runtime_count; i++)
		ky_free(drain->runtimes[i].name);
	ky_free(drain->runtimes);
	ky_free(drain->workers);
	ky_free(drain->chunk.touched);
	ky_free(drain->launches);
	ky_free(drain->cursors);
	ky_free(drain->listed);
	ky_free(drain->visits);
	ky_buf_release(&drain->out);
	ky_buf_release(&drain->index);
	ky_free(drain);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* now and T. The timeline's newest point, not the anchor itself: only what lies between two
 * anchors is converted. */
static void look_at_clock(struct ky_drain *drain)
{
	const struct ky_timeline *line = &drain->timeline;
	const struct ky_timeline_point *newest;
	struct ky_clock_anchor anchor;
	uint64_t slack;

	memset(&anchor, 0, sizeof(anchor));
	if (drain->options.anchor(drain->options.anchor_ctx, &anchor) == 0)
		add_anchor(drain, &anchor);
	drain->through_before = drain->through_ticks;
	if (!line->count)
		return;
	newest = &line->points[line->count - 1];
	slack = ky_timeline_length_ticks(line, KY_MERGE_SLACK_NS);
	drain->now_ns = newest->ns;
	drain->now_ticks = newest->ticks;
	drain->through_ticks = newest->ticks > slack ? newest->ticks - slack : 0;
}

static int queue_exits(struct ky_drain *drain)
{
	for (uint32_t i = 0; i < drain->thread_count; i++) {
		struct ky_dthread *thread = drain->threads[i];
		uint64_t ticks = thread->exit_ticks > thread->read_ticks ? thread->exit_ticks :
									   thread->read_ticks;

		/* Told in an earlier step: its last records were there when this step read. */
		if (!thread->exit_step || thread->is_exit_queued ||
		    (thread->exit_step == drain->step && !drain->is_final))
			continue;
		thread->is_exit_queued = true;
		if (ky_drain_queue(drain, thread, ticks, KY_REC_EXIT, 0, 0) != 0)
			return -ENOMEM;
	}
	return 0;
}

/* What the directory told since the last step, once the segment has begun. */
static void announce(struct ky_drain *drain)
{
	for (uint32_t i = 0; drain->is_segment_open && i < drain->module_count; i++) {
		if (!drain->modules[i].is_announced)
			ky_drain_write_module(drain, &drain->modules[i], drain->merged_ns);
	}
	for (uint32_t i = 0; drain->is_segment_open && i < drain->runtime_count; i++) {
		const struct ky_runtime *runtime = &drain->runtimes[i];

		if (!runtime->is_announced && runtime->is_described && !runtime->is_ended)
			ky_drain_runtime_event(drain, i, drain->merged_ns);
	}
}

/* A chunk must not wait for the next event for ever: its readers are live. */
static void flush_old(struct ky_drain *drain)
{
	if (drain->chunk.is_open && drain->now_ns > drain->chunk.first_ns &&
	    drain->now_ns - drain->chunk.first_ns >= KY_CHUNK_SPAN_MAX_NS)
		ky_drain_flush(drain);
}

int ky_drain_step(struct ky_drain *drain, uint32_t flags)
{
	uint64_t cpu_before = ky_now_ns(CLOCK_THREAD_CPUTIME_ID), through;
	int err;

	drain->step++;
	drain->is_final = flags & KY_DRAIN_FINAL;
	drain->is_out_of_memory = false;
	look_at_clock(drain);
	drain->clock_span = 0; /* the newest line may have another slope now */
	if (!drain->first_now_ns)
		drain->first_now_ns = drain->now_ns;
	ky_retain_read_settings(drain);
	/* Before the records: where memory is short, reading those merges already. */
	err = ky_drain_read_samples(drain);
	if (!err)
		err = ky_drain_read(drain);
	if (!err)
		err = ky_drain_read_directory(drain);
	if (!err)
		err = ky_drain_read_side(drain);
	if (!err && drain->is_final)
		ky_drain_close_gaps(drain);
	if (!err)
		err = queue_exits(drain);
	if (!err) {
		announce(drain);
		through = least(drain->through_ticks, drain->hold_ticks);
		through = least(through, ky_drain_settle_ticks(drain) - 1);
		err = ky_drain_merge(drain, drain->is_final ? UINT64_MAX : through);
	}
	if (drain->is_final && drain->is_segment_open && !drain->is_cut) {
		ky_drain_cut_off(drain, drain->merged_ns);
		ky_drain_header_drops(drain, drain->merged_ns);
		if (!drain->is_muted) {
			ky_drain_write_places(drain, drain->merged_ns);
			ky_drain_write_allocs(drain, drain->merged_ns);
		}
	}
	ky_retain_step(drain);
	flush_old(drain);
	ky_drain_thread_sweep(drain);
	drain->cpu_ns += ky_now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_before;
	return err;
}

void ky_drain_resume(struct ky_drain *drain)
{
	const struct ky_ring_header *header = drain->ring.header;
	uint64_t hand = atomic_load_explicit(&header->hand, memory_order_relaxed);
	struct ky_clock_anchor anchor = {0};

	if (hand >= drain->hand && hand - drain->hand < ky_ring_view_usable(&drain->ring))
		hand = drain->hand;
	if (hand != drain->hand)
		ky_task_table_forget(&drain->tasks);
	if (drain->options.anchor(drain->options.anchor_ctx, &anchor) == 0)
		drain->back_ticks = anchor.ticks_before;
	drain->back_step = drain->step + 1;
}

int ky_drain_metadata(struct ky_drain *drain, const char *key, const char *value)
{
	return ky_drain_set_pair(drain, key, strlen(key), value, strlen(value));
}

void ky_drain_watch(struct ky_drain *drain, struct ky_event_sums *out)
{
	*out = drain->sums;
	out->is_known = drain->step > 0;
	out->ready_count = drain->tasks.ready_count;
	out->alive_count = drain->tasks.count + drain->tasks.untracked_count;
	memset(&drain->sums, 0, sizeof(drain->sums));
}

void ky_drain_stats(const struct ky_drain *drain, struct ky_drain_stats *out)
{
	*out = drain->stats;
	out->threads = drain->thread_count;
	out->workers = drain->worker_count;
	out->tasks_alive = drain->tasks.count;
}
