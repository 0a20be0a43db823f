/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/queue_replay.h>

#include <analyze/queue_plays.h>
#include <base/alloc.h>
#include <base/earlier.h>
#include <errno.h>

#define NEVER UINT64_MAX
#define AHEAD 8u /* fetched so many before they are needed */

struct queue_item {
	uint64_t key;
	uint32_t poll;
};

/* A heap: least key first, then least number. */
struct queue {
	struct queue_item *items;
	uint32_t count, capacity;
};

enum player_state {
	PLAYER_IDLE,
	PLAYER_STARTING,
	PLAYER_BUSY
};

struct player {
	struct queue coming;   /* by when they are ready */
	struct queue standing; /* ready, by their begin in the trace: see order_of() */
	uint64_t next_ns;      /* when something is next; NEVER */
	uint64_t begin_ns;     /* of its next poll, while IDLE or STARTING; NEVER */
	uint64_t free_ns;      /* end of its last poll */
	uint32_t last_poll;
	uint32_t place; /* in the heap of players */
	uint8_t state;
	bool is_ahead; /* its last poll ended earlier than in the trace */
};

struct replay {
	const struct ky_trace *trace;
	const uint64_t *cap_ns;
	uint64_t least_cap_ns;
	struct ky_queue_replay *out;
	ky_replayed_fn each;
	void *ctx;
	struct ky_queue_plays made;
	struct ky_play *plays;
	struct player *players;
	uint32_t *order; /* players: a heap by next_ns */
	uint32_t player_count;
	bool failed;
};

/* NEVER is later than any sum: a damaged trace may hold any numbers. */
static uint64_t plus(uint64_t ns, uint64_t length_ns)
{
	return length_ns < NEVER - 1 - ky_earlier(ns, NEVER - 1) ? ns + length_ns : NEVER - 1;
}

bool ky_queue_replay_takes(const struct ky_trace *trace, const struct ky_poll *poll)
{
	return ky_queue_plays_has(trace, poll->worker) &&
	       !(poll->flags & (KY_POLL_END_UNPROVEN | KY_POLL_GAP | KY_POLL_NESTED));
}

static uint64_t new_length(const struct replay *replay, const struct ky_poll *poll)
{
	uint32_t name;

	if (poll->duration_ns <= replay->least_cap_ns)
		return poll->duration_ns; /* nearly all */
	name = replay->trace->tasks[poll->task].name;
	if (name == KY_NONE || !ky_queue_replay_takes(replay->trace, poll))
		return poll->duration_ns;
	return ky_earlier(poll->duration_ns, replay->cap_ns[name]);
}

/* ---- heaps ---- */

static bool is_item_before(const struct queue_item *a, const struct queue_item *b)
{
	return a->key != b->key ? a->key < b->key : a->poll < b->poll;
}

static void push(struct replay *replay, struct queue *queue, uint64_t key, uint32_t poll)
{
	struct queue_item item = {key, poll};
	uint32_t at = queue->count;

	if (ky_grow(&queue->items, &queue->capacity, at + 1, sizeof(item))) {
		replay->failed = true;
		return;
	}
	queue->count++;
	while (at && is_item_before(&item, &queue->items[(at - 1) / 2])) {
		queue->items[at] = queue->items[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	queue->items[at] = item;
}

static uint32_t pop(struct queue *queue)
{
	uint32_t poll = queue->items[0].poll, at = 0, child;
	struct queue_item item = queue->items[--queue->count];

	while ((child = 2 * at + 1) < queue->count) {
		child += child + 1 < queue->count &&
			 is_item_before(&queue->items[child + 1], &queue->items[child]);
		if (!is_item_before(&queue->items[child], &item))
			break;
		queue->items[at] = queue->items[child];
		at = child;
	}
	queue->items[at] = item;
	return poll;
}

static bool is_player_before(const struct replay *replay, uint32_t a, uint32_t b)
{
	uint64_t one = replay->players[a].next_ns, other = replay->players[b].next_ns;

	return one != other ? one < other : a < b;
}

static void place_player(struct replay *replay, uint32_t at, uint32_t worker)
{
	replay->order[at] = worker;
	replay->players[worker].place = at;
}

/* Its next_ns has changed. */
static void move_player(struct replay *replay, uint32_t worker)
{
	uint32_t at = replay->players[worker].place, child;

	while (at && is_player_before(replay, worker, replay->order[(at - 1) / 2])) {
		place_player(replay, at, replay->order[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	while ((child = 2 * at + 1) < replay->player_count) {
		child += child + 1 < replay->player_count &&
			 is_player_before(replay, replay->order[child + 1], replay->order[child]);
		if (!is_player_before(replay, replay->order[child], worker))
			break;
		place_player(replay, at, replay->order[child]);
		at = child;
	}
	place_player(replay, at, worker);
}

/* ---- played again ---- */

static void say_next(struct replay *replay, uint32_t worker)
{
	struct player *player = &replay->players[worker];

	player->next_ns = player->state == PLAYER_BUSY ? player->free_ns : player->begin_ns;
	if (player->state == PLAYER_IDLE && player->coming.count)
		player->next_ns = ky_earlier(player->next_ns, player->coming.items[0].key);
	move_player(replay, worker);
}

static void come(struct replay *replay, uint32_t worker, uint32_t number, uint64_t at_ns)
{
	push(replay, &replay->players[worker].coming, ky_earlier(at_ns, NEVER - 1), number);
	if (replay->players[worker].state == PLAYER_IDLE)
		say_next(replay, worker);
}

/* One of what a poll waits for has happened. */
static void release(struct replay *replay, uint32_t number, uint64_t ready_ns)
{
	struct ky_play *play = &replay->plays[number];
	uint32_t worker;

	play->ready_ns = ky_later(play->ready_ns, ready_ns);
	if (play->wait_count && --play->wait_count)
		return;
	worker = ky_queue_plays_worker(&replay->made, number);
	ready_ns = play->ready_ns;
	if (play->home != KY_PLAY_NO_HOME &&
	    replay->trace->workers[play->home].runtime == replay->trace->workers[worker].runtime)
		come(replay, play->home, number, ready_ns);
	if (play->is_held) {
		struct ky_poll poll;

		ky_queue_plays_poll(&replay->made, number, &poll);
		ready_ns = ky_later(ready_ns, poll.start_ns);
	}
	come(replay, worker, number, ready_ns);
}

/* When its worker, idle, begins it. */
static uint64_t begin_of(const struct replay *replay, const struct player *player,
			 const struct ky_play *play, uint64_t at_ns, bool is_own)
{
	const struct ky_queue_plays *made = &replay->made;

	if (is_own && play->is_held)
		return ky_later(player->free_ns, at_ns);
	if (is_own && play->reaction_ns != KY_PLAY_NOT_IDLE)
		return ky_later(player->free_ns, plus(at_ns, play->reaction_ns));
	/* Before it parks it looks for more. */
	if (at_ns <= plus(player->free_ns, made->search_ns))
		return ky_later(plus(player->free_ns, made->gap_ns), at_ns);
	return plus(at_ns, made->reaction_ns);
}

/* Polls of a worker have their numbers in the order of their begin; one of another worker comes
 * before the first one that began no earlier. */
static uint64_t order_of(const struct replay *replay, uint32_t worker, uint32_t number, bool is_own)
{
	struct ky_poll poll;

	if (is_own)
		return 2 * (uint64_t)number + 1;
	ky_queue_plays_poll(&replay->made, number, &poll);
	return 2 * (replay->made.first_polls[worker] +
		    ky_column_find(&replay->trace->workers[worker].polls, poll.start_ns));
}

/* What is ready by now goes into the queue of the worker. */
static void stand(struct replay *replay, uint32_t worker, uint64_t now_ns)
{
	struct player *player = &replay->players[worker];

	while (player->coming.count && player->coming.items[0].key <= now_ns) {
		const struct queue_item item = player->coming.items[0];
		const struct ky_play *play = &replay->plays[item.poll];
		bool is_own = play->home != worker;

		(void)pop(&player->coming);
		if (play->is_done || (!is_own && !player->is_ahead))
			continue;
		push(replay, &player->standing, order_of(replay, worker, item.poll, is_own),
		     item.poll);
		if (player->state == PLAYER_IDLE)
			player->begin_ns = ky_earlier(
				player->begin_ns, begin_of(replay, player, play, item.key, is_own));
	}
	while (player->standing.count && replay->plays[player->standing.items[0].poll].is_done)
		(void)pop(&player->standing);
}

static void begin_poll(struct replay *replay, uint32_t worker, uint64_t now_ns)
{
	struct player *player = &replay->players[worker];
	uint32_t number = pop(&player->standing);
	struct ky_play *play = &replay->plays[number];
	uint64_t length_ns, early_ns;
	struct ky_poll poll;

	if (play->after != KY_PLAY_NONE)
		__builtin_prefetch(&replay->plays[play->after], 1);
	ky_queue_plays_poll(&replay->made, number, &poll);
	length_ns = new_length(replay, &poll);
	replay->out->kept_home_count += poll.worker != worker;
	player->is_ahead = plus(now_ns, length_ns + KY_PLAY_NEAR_NS) <
			   plus(poll.start_ns, poll.duration_ns);
	play->is_done = true;
	player->state = PLAYER_BUSY;
	player->free_ns = plus(now_ns, length_ns);
	player->last_poll = number;
	say_next(replay, worker);
	replay->each(&poll, now_ns - ky_earlier(play->ready_ns, now_ns), replay->ctx);
	for (uint32_t at = play->woken, next; at != KY_PLAY_NONE; at = next) {
		uint64_t into_ns = replay->plays[at].into_ns;

		next = replay->plays[at].next;
		if (length_ns != poll.duration_ns)
			into_ns = (uint64_t)((double)into_ns * (double)length_ns /
					     (double)poll.duration_ns);
		release(replay, at, plus(now_ns, into_ns));
	}
	if (play->after == KY_PLAY_NONE)
		return;
	/* Of two stamps of one moment, the end and the wake, the earlier one stays so. */
	early_ns = replay->plays[play->after].early_ns;
	release(replay, play->after,
		early_ns == KY_PLAY_OWN_WAY ? 0 :
					      player->free_ns - ky_earlier(early_ns, length_ns));
}

static void act(struct replay *replay, uint32_t worker, uint64_t now_ns)
{
	struct player *player = &replay->players[worker];

	if (player->state == PLAYER_BUSY) {
		player->begin_ns = NEVER;
		stand(replay, worker, now_ns);
		player->state = player->standing.count ? PLAYER_STARTING : PLAYER_IDLE;
		if (player->standing.count)
			player->begin_ns = plus(now_ns, replay->plays[player->last_poll].gap_ns);
		say_next(replay, worker);
		return;
	}
	stand(replay, worker, now_ns);
	if (now_ns < player->begin_ns) {
		say_next(replay, worker);
	} else if (player->standing.count) {
		begin_poll(replay, worker, now_ns);
	} else { /* another worker was faster */
		player->state = PLAYER_IDLE;
		player->begin_ns = NEVER;
		say_next(replay, worker);
	}
}

/* Lets in what is woken from outside by then. */
static void let_in(struct replay *replay, struct ky_timed_plays *list, uint64_t by_ns)
{
	for (; list->at < list->count && list->items[list->at].at_ns <= by_ns; list->at++) {
		uint64_t ahead = list->at + AHEAD;

		if (ahead < list->count && list->items[ahead].number != KY_PLAY_NONE)
			__builtin_prefetch(&replay->plays[list->items[ahead].number], 1);
		if (list->items[list->at].number != KY_PLAY_NONE)
			release(replay, list->items[list->at].number, 0);
	}
}

static uint64_t next_in(const struct ky_timed_plays *list)
{
	return list->at < list->count ? list->items[list->at].at_ns : NEVER;
}

static void play_again(struct replay *replay)
{
	while (!replay->failed) {
		uint32_t worker = replay->order[0];
		uint64_t now_ns = replay->players[worker].next_ns;
		uint64_t in_ns = ky_earlier(next_in(&replay->made.outside),
					    next_in(&replay->made.kept));

		/* A poll may be ready a little before the stamp of its wake. */
		if (in_ns != NEVER && (now_ns == NEVER || in_ns <= plus(now_ns, KY_PLAY_NEAR_NS))) {
			let_in(replay, &replay->made.outside, in_ns);
			let_in(replay, &replay->made.kept, in_ns);
		} else if (now_ns == NEVER) {
			return;
		} else {
			act(replay, worker, now_ns);
		}
	}
}

/* ---- all of it ---- */

static bool make_room(struct replay *replay)
{
	size_t workers = (size_t)replay->trace->worker_count + 1;

	replay->player_count = replay->trace->worker_count;
	replay->players = ky_alloc(workers * sizeof(*replay->players));
	replay->order = ky_alloc(workers * sizeof(*replay->order));
	if (!replay->players || !replay->order || ky_queue_plays_make(&replay->made, replay->trace))
		return false;
	replay->plays = replay->made.plays;
	for (uint32_t worker = 0; worker < replay->player_count; worker++) {
		replay->players[worker].next_ns = replay->players[worker].begin_ns = NEVER;
		place_player(replay, worker, worker);
	}
	return true;
}

static void release_room(struct replay *replay)
{
	for (uint32_t worker = 0; replay->players && worker < replay->player_count; worker++) {
		ky_free(replay->players[worker].coming.items);
		ky_free(replay->players[worker].standing.items);
	}
	ky_free(replay->players);
	ky_free(replay->order);
	ky_queue_plays_release(&replay->made);
}

/* Polls of threads that are no workers. */
static void pass_others(const struct replay *replay)
{
	const struct ky_trace *trace = replay->trace;
	struct ky_poll poll;

	for (uint32_t worker = 0; worker < trace->worker_count; worker++) {
		if (ky_queue_plays_has(trace, worker))
			continue;
		for (uint64_t row = 0; row < trace->workers[worker].polls.row_count; row++) {
			ky_trace_poll(trace, worker, row, &poll);
			replay->each(&poll, poll.delay_ns, replay->ctx);
		}
	}
}

int ky_queue_replay(struct ky_queue_replay *out, const struct ky_trace *trace,
		    const uint64_t *cap_ns, ky_replayed_fn each, void *ctx)
{
	struct replay replay = {.trace = trace,
				.cap_ns = cap_ns,
				.least_cap_ns = NEVER,
				.out = out,
				.each = each,
				.ctx = ctx};
	bool is_made;

	*out = (struct ky_queue_replay){0};
	for (uint32_t name = 0; name < ky_trace_name_count(trace); name++)
		replay.least_cap_ns = ky_earlier(replay.least_cap_ns, cap_ns[name]);
	is_made = make_room(&replay);
	if (is_made) {
		out->reaction_ns = replay.made.reaction_ns;
		out->unplaced_count = replay.made.kept.count;
		pass_others(&replay);
		for (uint32_t number = 0; number < replay.made.play_count; number++)
			if (!replay.plays[number].wait_count) /* its time has come */
				release(&replay, number, 0);
		if (replay.player_count)
			play_again(&replay);
	}
	is_made = is_made && !replay.failed;
	release_room(&replay);
	return is_made ? 0 : -ENOMEM;
}
