/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <send/sender.h>

#include <base/alloc.h>
#include <base/now.h>
#include <base/testpoint.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/base.h>
#include <send/segment_facts.h>
#include <send/segment_walk.h>
#include <ship/sent_list.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define POLL_MS 100u
#define SAY_AGAIN_NS UINT64_C(60000000000)
#define OPEN_AGAIN_NS UINT64_C(30000000000)
#define PREPARE_AGAIN_NS UINT64_C(10000000000)
#define NAME_BYTES 128 /* of struct ky_segment_facts */
#define PATH_BYTES 1152

struct destination {
	struct kymo_segment_stage stage;
	uint32_t is_open;     /* atomic: finish may be called */
	bool was_closed_down; /* trouble has been said, and not its end */
	uint64_t due_ns, said_ns;
	struct ky_segment_copy copy;    /* of the segment that was offered last */
	struct ky_sent_list refused;    /* paths, in memory alone: not again by this process */
	struct ky_sender_totals totals; /* lost: with what was before us */
	uint64_t old_lost_count, old_lost_bytes;
	bool has_old;
};

struct ky_sender {
	struct ky_sender_options options;
	struct destination destinations[KY_SENDER_STAGES_MAX];
	struct destination *now;       /* of the pass that runs */
	struct ky_segment_facts facts; /* of the segment that is offered */
	uint64_t deadline_ns;          /* atomic; UINT64_MAX: none */
};

static bool is_over(const struct ky_sender *sender)
{
	return ky_now_ns(CLOCK_MONOTONIC) >=
	       __atomic_load_n(&sender->deadline_ns, __ATOMIC_RELAXED);
}

static bool is_finishing(const struct ky_sender *sender)
{
	return __atomic_load_n(&sender->deadline_ns, __ATOMIC_RELAXED) != UINT64_MAX;
}

static void say(const struct ky_sender *sender, const char *subject, const char *text)
{
	char line[PATH_BYTES + 640];

	snprintf(line, sizeof(line), "%s: %s", subject, text);
	sender->options.say(sender->options.say_ctx, line);
}

/* ---- one segment ---- */

/* Of the segment that is offered. */
struct part_list {
	struct ky_sent_list *list;
	const char *segment;
};

static int has_part(void *ctx, const char *part)
{
	const struct part_list *parts = ctx;

	return ky_sent_list_has_part(parts->list, parts->segment, part);
}

static int note_part(void *ctx, const char *part)
{
	const struct part_list *parts = ctx;

	return ky_sent_list_add_part(parts->list, parts->segment, part);
}

static void say_trouble(struct ky_sender *sender, struct destination *to, const char *reason)
{
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);
	bool is_news = strcmp(reason, to->totals.reason) != 0;

	snprintf(to->totals.reason, sizeof(to->totals.reason), "%s", reason);
	/* A server in trouble has many reasons, one after the other. */
	if (to->was_closed_down && (!is_news || now_ns - to->said_ns < SAY_AGAIN_NS))
		return;
	to->was_closed_down = true;
	to->said_ns = now_ns;
	say(sender, to->stage.name, reason);
}

static void say_recovery(struct ky_sender *sender, struct destination *to)
{
	if (to->was_closed_down)
		say(sender, to->stage.name, "takes segments again");
	to->was_closed_down = false;
	to->totals.reason[0] = '\0';
}

static void offer(const struct destination *to, const struct kymo_segment *segment,
		  struct kymo_stage_result *result)
{
	*result = (struct kymo_stage_result){.size = sizeof(*result), .answer = KYMO_STAGE_REFUSED};
	to->stage.take(to->stage.ctx, segment, result);
	while (result->answer == KYMO_STAGE_PENDING && to->stage.poll)
		to->stage.poll(to->stage.ctx, POLL_MS, result);
}

/* Its copy, where the program wants one. */
static void prepare_and_offer(struct ky_sender *sender, struct kymo_stage_result *result)
{
	struct destination *to = sender->now;
	char why[KYMO_STAGE_REASON_BYTES] = "it cannot be prepared";
	int err = ky_segment_copy_use(&to->copy, &sender->options.filter, &sender->facts.segment,
				      why);

	if (!err) {
		offer(to, &sender->facts.segment, result);
		return;
	}
	*result = (struct kymo_stage_result){.size = sizeof(*result),
					     .answer = err <= KYMO_E_CORRUPT ? KYMO_STAGE_REFUSED :
									       KYMO_STAGE_AGAIN,
					     .again_ns = PREPARE_AGAIN_NS};
	memcpy(result->reason, why, sizeof(why));
}

/* A segment as lists name it, where blanks end a word: no name has a tab in it (segment_walk.h). */
static void name_in_list(char out[NAME_BYTES], const char *name)
{
	snprintf(out, NAME_BYTES, "%s", name);
	for (char *at = out; (at = strchr(at, ' ')) != NULL;)
		*at = '\t';
}

/* Returns false: no other segment of this destination now. */
static bool send_one(struct ky_sender *sender, const struct ky_walk_run *run,
		     const struct ky_walk_segment *segment, const char *listed,
		     struct ky_sent_list *list)
{
	struct destination *to = sender->now;
	struct part_list parts = {list, listed};
	struct kymo_stage_result result;
	char path[PATH_BYTES];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", run->path, segment->name);
	fd = openat(run->fd, segment->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return true; /* the bound on disk took it meanwhile */
	if (ky_segment_facts_read(&sender->facts, path, run->service, run->run, segment->name,
				  fd)) {
		close(fd);
		return true;
	}
	sender->facts.segment.part_ctx = &parts;
	sender->facts.segment.has_part = has_part;
	sender->facts.segment.note_part = note_part;
	prepare_and_offer(sender, &result);
	close(fd);
	if (result.answer != KYMO_STAGE_AGAIN)
		ky_segment_copy_release(&to->copy);
	if (result.answer == KYMO_STAGE_TAKEN) {
		KY_TESTPOINT("sender.taken");
		to->totals.taken_count++;
		to->totals.taken_bytes += segment->bytes;
		say_recovery(sender, to);
		if (result.reason[0])
			say(sender, path, result.reason);
		(void)ky_sent_list_add(list, listed);
		return true;
	}
	if (result.answer == KYMO_STAGE_AGAIN) {
		to->due_ns = ky_now_ns(CLOCK_MONOTONIC) + result.again_ns;
		say_trouble(sender, to, result.reason);
		return false;
	}
	snprintf(to->totals.reason, sizeof(to->totals.reason), "%s", result.reason);
	say(sender, path, result.reason);
	(void)ky_sent_list_refuse(&to->refused, path);
	return true;
}

/* ---- a pass ---- */

static void count_waiting(struct destination *to, const struct ky_walk_run *run,
			  const struct ky_walk_segment *segment, bool is_refused)
{
	if (!to->totals.waiting_count++)
		snprintf(to->totals.first_waiting, sizeof(to->totals.first_waiting), "%.200s/%s",
			 run->path, segment->name);
	to->totals.waiting_bytes += segment->bytes;
	to->totals.refused_count += is_refused;
}

static bool is_refused(const struct destination *to, const struct ky_walk_run *run,
		       const struct ky_walk_segment *segment)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), "%s/%s", run->path, segment->name);
	return ky_sent_list_has(&to->refused, path);
}

static bool send_run(void *ctx, const struct ky_walk_run *run)
{
	struct ky_sender *sender = ctx;
	struct destination *to = sender->now;
	struct ky_sent_list list;
	int err;

	if (sender->options.owner_pid && run->owner_pid &&
	    run->owner_pid != sender->options.owner_pid)
		return true;
	err = ky_sent_list_open(&list, run->fd, to->stage.name);
	if (err == -EBUSY) { /* as its recorder does for a moment each second */
		to->totals.elsewhere_count += run->segment_count != 0;
		return true;
	}
	if (err) {
		say_trouble(sender, to, "the list of what was sent cannot be written");
		to->due_ns = ky_now_ns(CLOCK_MONOTONIC) + OPEN_AGAIN_NS;
	}
	if (!err) {
		to->totals.lost_count += list.lost_count;
		to->totals.lost_bytes += list.lost_bytes;
	}
	for (uint32_t i = 0; !err && i < run->segment_count; i++) {
		const struct ky_walk_segment *segment = &run->segments[i];
		char listed[NAME_BYTES];

		name_in_list(listed, segment->name);
		if (ky_sent_list_has(&list, listed))
			continue;
		if (to->is_open && !is_refused(to, run, segment) && !is_over(sender) &&
		    ky_now_ns(CLOCK_MONOTONIC) >= to->due_ns)
			(void)send_one(sender, run, segment, listed, &list);
		if (!ky_sent_list_has(&list, listed))
			count_waiting(to, run, segment, is_refused(to, run, segment));
	}
	ky_sent_list_close(&list);
	return true;
}

static bool open_destination(struct ky_sender *sender, struct destination *to)
{
	char why[KYMO_STAGE_REASON_BYTES] = "it cannot be opened";
	int err = 0;

	if (to->is_open)
		return true;
	if (to->stage.open)
		err = to->stage.open(to->stage.ctx, why, sizeof(why));
	if (err) {
		to->due_ns = ky_now_ns(CLOCK_MONOTONIC) + OPEN_AGAIN_NS;
		say_trouble(sender, to, why);
		return false;
	}
	__atomic_store_n(&to->is_open, 1, __ATOMIC_SEQ_CST); /* pairs with finish_at */
	if (is_finishing(sender) && to->stage.finish)
		to->stage.finish(to->stage.ctx,
				 __atomic_load_n(&sender->deadline_ns, __ATOMIC_SEQ_CST));
	return true;
}

/* Dumps first: somebody asked for them, and they are few. */
static int walk_all(struct ky_sender *sender)
{
	const char *directory = sender->options.directory, *place = sender->options.dumps;
	int dumps = place ? ky_dump_walk(place, send_run, sender) : -ENOENT, err = -ENOENT;

	if (directory)
		err = ky_segment_walk(directory, send_run, sender);
	if (err == -ENOENT && dumps == -ENOENT && directory) /* one of dumps alone? */
		return ky_dump_walk(directory, send_run, sender);
	return err == -ENOENT ? dumps : err ? err : dumps == -ENOENT ? 0 : dumps;
}

int ky_sender_pass(struct ky_sender *sender)
{
	int err = 0;

	for (uint32_t i = 0; i < sender->options.stage_count; i++) {
		struct destination *to = &sender->destinations[i];
		uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);

		/* What waits is counted all the same. */
		if (!is_over(sender)) {
			if (now_ns < to->due_ns)
				continue;
			(void)open_destination(sender, to);
		}
		to->totals.waiting_count = to->totals.waiting_bytes = 0;
		to->totals.refused_count = to->totals.elsewhere_count = 0;
		to->totals.lost_count = to->totals.lost_bytes = 0;
		to->totals.first_waiting[0] = '\0';
		sender->now = to;
		err = walk_all(sender);
		if (!to->has_old) {
			to->old_lost_count = to->totals.lost_count;
			to->old_lost_bytes = to->totals.lost_bytes;
		}
		to->has_old = true;
	}
	return err;
}

uint64_t ky_sender_due_ns(const struct ky_sender *sender)
{
	uint64_t due_ns = UINT64_MAX;

	for (uint32_t i = 0; i < sender->options.stage_count; i++) {
		const struct destination *to = &sender->destinations[i];

		if ((!to->is_open || to->totals.waiting_count > to->totals.refused_count) &&
		    to->due_ns < due_ns)
			due_ns = to->due_ns;
	}
	return due_ns;
}

void ky_sender_hurry(struct ky_sender *sender)
{
	for (uint32_t i = 0; i < sender->options.stage_count; i++)
		sender->destinations[i].due_ns = 0;
}

void ky_sender_totals(const struct ky_sender *sender, uint32_t stage, struct ky_sender_totals *out)
{
	const struct destination *from = &sender->destinations[stage];

	*out = from->totals;
	out->name = from->stage.name;
	out->lost_count -= out->lost_count < from->old_lost_count ? out->lost_count :
								    from->old_lost_count;
	out->lost_bytes -= out->lost_bytes < from->old_lost_bytes ? out->lost_bytes :
								    from->old_lost_bytes;
}

void ky_sender_finish_at(struct ky_sender *sender, uint64_t deadline_ns)
{
	__atomic_store_n(&sender->deadline_ns, deadline_ns, __ATOMIC_SEQ_CST);
	for (uint32_t i = 0; i < sender->options.stage_count; i++) {
		struct destination *to = &sender->destinations[i];

		/* One that opens meanwhile takes the deadline itself. */
		if (__atomic_load_n(&to->is_open, __ATOMIC_SEQ_CST) && to->stage.finish)
			to->stage.finish(to->stage.ctx, deadline_ns);
	}
}

int ky_sender_open(struct ky_sender **out, const struct ky_sender_options *options)
{
	struct ky_sender *sender = ky_alloc(sizeof(*sender));

	*out = NULL;
	if (!sender)
		return -ENOMEM;
	sender->options = *options;
	sender->deadline_ns = UINT64_MAX;
	for (uint32_t i = 0; i < options->stage_count; i++) {
		sender->destinations[i].stage = options->stages[i];
		sender->destinations[i].refused.fd = -1;
	}
	*out = sender;
	return 0;
}

void ky_sender_close(struct ky_sender *sender)
{
	if (!sender)
		return;
	for (uint32_t i = 0; i < sender->options.stage_count; i++) {
		struct destination *to = &sender->destinations[i];

		if (to->stage.close)
			to->stage.close(to->stage.ctx);
		ky_sent_list_close(&to->refused);
		ky_segment_copy_release(&to->copy);
	}
	ky_free(sender);
}
