/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <send/push_stage.h>

#include <base/alloc.h>
#include <base/now.h>
#include <errno.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <stdio.h>
#include <string.h>

#define LOCAL_TROUBLE_NS UINT64_C(10000000000)
#define OTLP "otlp:"
#define PPROF "pprof:"

_Static_assert(KY_PUSH_WHY_BYTES == KYMO_STAGE_REASON_BYTES, "sentences fit into reasons");

struct push_stage {
	struct ky_push_target target;
	struct ky_push *push; /* NULL: not open */
	ky_push_make_fn make;
	void *make_ctx;
	uint64_t finish_ns; /* atomic */
	/* of the segment that was offered last, unless it was taken */
	char current[192];
	struct ky_push_body bodies[KY_PUSH_SIGNALS];
};

bool ky_push_stage_is(const char *word)
{
	return strncmp(word, OTLP, sizeof(OTLP) - 1) == 0 ||
	       strncmp(word, PPROF, sizeof(PPROF) - 1) == 0;
}

static void forget(struct push_stage *stage)
{
	for (uint32_t i = 0; i < KY_PUSH_SIGNALS; i++) {
		ky_buf_release(&stage->bodies[i].bytes);
		stage->bodies[i] = (struct ky_push_body){.signal = i};
		ky_buf_init(&stage->bodies[i].bytes, 0);
	}
	stage->current[0] = '\0';
}

/* What the list of the run calls the parts of a segment. */
static const char *const part_names[KY_PUSH_SIGNALS] = {
	[KY_PUSH_TRACES] = "traces",
	[KY_PUSH_METRICS] = "metrics",
	[KY_PUSH_PROFILES] = "profiles",
	[KY_PUSH_PPROF] = "pprof",
};

/* On disk before the next body goes: points are differences, and one that comes twice counts
 * twice. */
static void note_arrival(void *ctx, uint32_t signal)
{
	const struct kymo_segment *const *segment = ctx;

	if ((*segment)->note_part)
		(void)(*segment)->note_part((*segment)->part_ctx, part_names[signal]);
}

static void leave_out_arrived(struct push_stage *stage, const struct kymo_segment *segment)
{
	for (uint32_t i = 0; segment->has_part && i < KY_PUSH_SIGNALS; i++)
		stage->bodies[i].is_sent = segment->has_part(segment->part_ctx, part_names[i]);
}

/* Makes the bodies, unless they are this segment's already. False: result says why not. */
static bool prepare(struct push_stage *stage, const struct kymo_segment *segment,
		    struct kymo_stage_result *result)
{
	char which[sizeof(stage->current)];
	int err;

	snprintf(which, sizeof(which), "%s/%s/%s", segment->service, segment->run, segment->name);
	if (strcmp(which, stage->current) == 0)
		return true;
	forget(stage);
	err = stage->make(stage->make_ctx, segment, stage->target.is_pprof, stage->bodies,
			  &stage->finish_ns, result->reason);
	if (!err) {
		memcpy(stage->current, which, sizeof(which));
		leave_out_arrived(stage, segment);
		return true;
	}
	forget(stage);
	result->answer = err == -EAGAIN ? KYMO_STAGE_AGAIN : KYMO_STAGE_REFUSED;
	result->again_ns = LOCAL_TROUBLE_NS;
	return false;
}

static void take(void *ctx, const struct kymo_segment *segment, struct kymo_stage_result *result)
{
	struct push_stage *stage = ctx;
	const struct ky_push_arrival arrival = {note_arrival, &segment};
	uint64_t due_ns = 0, rejected = 0, now_ns;
	enum ky_verdict verdict;

	/* What a dump holds is in the stream, and in the trace that ends a flight: points would
	 * be counted twice. */
	if (segment->dump_id[0]) {
		result->answer = KYMO_STAGE_TAKEN;
		return;
	}
	if (!prepare(stage, segment, result))
		return;
	verdict = ky_push_send(stage->push, stage->bodies, KY_PUSH_SIGNALS, &arrival, &due_ns,
			       &rejected, result->reason);
	if (verdict == KY_VERDICT_AGAIN) {
		now_ns = ky_now_ns(CLOCK_MONOTONIC);
		result->answer = KYMO_STAGE_AGAIN;
		result->again_ns = due_ns > now_ns ? due_ns - now_ns : 1;
		return;
	}
	forget(stage);
	result->answer = verdict == KY_VERDICT_TAKEN ? KYMO_STAGE_TAKEN : KYMO_STAGE_REFUSED;
	if (verdict == KY_VERDICT_TAKEN)
		result->reason[0] = '\0'; /* of a try before */
	if (verdict == KY_VERDICT_TAKEN && rejected)
		snprintf(result->reason, sizeof(result->reason),
			 "the receiver took it without %" PRIu64 " spans or points of it",
			 rejected);
}

static int open_stage(void *ctx, char *errbuf, size_t errbuf_bytes)
{
	struct push_stage *stage = ctx;
	char why[KY_PUSH_WHY_BYTES] = "out of memory";
	int err = ky_push_open(&stage->push, &stage->target, why);

	if (err)
		snprintf(errbuf, errbuf_bytes, "%s", why);
	return err;
}

static void finish(void *ctx, uint64_t deadline_ns)
{
	struct push_stage *stage = ctx;

	__atomic_store_n(&stage->finish_ns, deadline_ns, __ATOMIC_RELAXED);
	if (stage->push)
		ky_push_stop_at(stage->push, deadline_ns);
}

static void close_stage(void *ctx)
{
	struct push_stage *stage = ctx;

	if (!stage)
		return;
	forget(stage);
	ky_push_close(stage->push);
	ky_push_target_release(&stage->target);
	ky_free(stage);
}

int ky_push_stage_make(struct kymo_segment_stage *out, const char *word, ky_push_make_fn make,
		       void *make_ctx, char *why)
{
	struct push_stage *stage = ky_alloc(sizeof(*stage));
	bool is_pprof = strncmp(word, PPROF, sizeof(PPROF) - 1) == 0;
	int err;

	if (!stage)
		return -ENOMEM;
	stage->make = make;
	stage->make_ctx = make_ctx;
	stage->finish_ns = UINT64_MAX;
	forget(stage);
	err = ky_push_target_read(&stage->target, is_pprof, strchr(word, ':') + 1, NULL, why);
	if (err) {
		close_stage(stage);
		return err;
	}
	*out = (struct kymo_segment_stage){.size = sizeof(*out),
					   .name = stage->target.name,
					   .ctx = stage,
					   .open = open_stage,
					   .take = take,
					   .finish = finish,
					   .close = close_stage};
	return 0;
}
