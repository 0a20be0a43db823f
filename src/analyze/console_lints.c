/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/console_lints.h>

#include <errno.h>

#define OPEN KY_METRIC_OPEN
#define WHY_LOSSES "records are missing (view losses)"
#define WHY_HELD "a policy holds back wakes and short polls"
#define WHY_WAKERS                                                                                 \
	"whether a waker is left is not recorded, drops of wakers would say it: at most those "    \
	"that wait at the end of the trace; the finding lost_wake says which cannot be woken"
#define WHY_OLD "some of these polls may not be the first of their task"
#define NOTE_SELF "tokio-console's SelfWakePercent: more than 50 % of its wakes in its own polls"
#define NOTE_YIELD                                                                                 \
	"tokio-console's NeverYielded: a first poll of 1 s and more; it checks once a second, so " \
	"it may miss what ends soon after"
#define NOTE_LOST "tokio-console's LostWaker: waits, and nothing holds its waker"
#define NEED_BOXED                                                                                 \
	"the size of the future before and after Tokio boxed it: size.bytes and "                  \
	"original_size.bytes of Tokio's span runtime.spawn (tokio_unstable, feature tracing)"
#define NEED_SIZE                                                                                  \
	"the size of the future: size.bytes of Tokio's span runtime.spawn (tokio_unstable, "       \
	"feature tracing); LargeFuture asks for 1,024 bytes"

static void put(struct ky_metric_rows *rows, const struct ky_kind_sums *kind,
		struct ky_metric_row like, struct ky_metric_bound bound)
{
	like.unit = "tasks";
	like.subject = kind->name;
	like.task_count = kind->task_count;
	like.bucket_ns = OPEN;
	ky_metric_put(rows, &like, bound);
}

static void put_kind(struct ky_metric_rows *rows, const struct ky_kind_sums *kind,
		     const char *doubt)
{
	struct ky_metric_bound selfs = {kind->self_waking, kind->self_waking};
	struct ky_metric_bound nevers = {kind->never_yielded,
					 kind->never_yielded + kind->never_unknown};

	if (doubt) {
		selfs = (struct ky_metric_bound){0, kind->task_count};
		nevers.most = kind->task_count;
	}
	put(rows, kind,
	    (struct ky_metric_row){.name = "self-wakes", .why = doubt, .note = NOTE_SELF}, selfs);
	put(rows, kind,
	    (struct ky_metric_row){.name = "lost-waker", .why = WHY_WAKERS, .note = NOTE_LOST},
	    (struct ky_metric_bound){0, doubt ? kind->task_count : kind->waiting});
	put(rows, kind,
	    (struct ky_metric_row){
		    .name = "never-yielded", .why = doubt ? doubt : WHY_OLD, .note = NOTE_YIELD},
	    nevers);
	put(rows, kind,
	    (struct ky_metric_row){.name = "auto-boxed-future",
				   .why = NEED_BOXED,
				   .state = KY_METRIC_NOT_RECORDED},
	    selfs);
	put(rows, kind,
	    (struct ky_metric_row){
		    .name = "large-future", .why = NEED_SIZE, .state = KY_METRIC_NOT_RECORDED},
	    selfs);
}

int ky_console_lints(struct ky_metric_rows *out, const struct ky_tokio_sums *sums)
{
	const char *doubt = sums->has_losses ? WHY_LOSSES : sums->has_held ? WHY_HELD : NULL;

	*out = (struct ky_metric_rows){0};
	for (uint32_t i = 0; i < sums->kind_count; i++)
		put_kind(out, &sums->kinds[i], doubt);
	return out->is_full ? -ENOMEM : 0;
}
