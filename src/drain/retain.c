/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The policy and what is counted under it; retain_event.c writes it down. */
#include <drain/convert_stage.h>

#include <base/alloc.h>
#include <drain/task_ready.h>
#include <errno.h>
#include <kymo/emit.h>
#include <string.h>

#define SECOND_NS UINT64_C(1000000000)
#define READ_AHEAD_MAX 65536u /* records */
#define ORIGIN_DERIVED 128u
#define SETTING_ALL_NS 1u /* threshold that lets everything through, whatever the start said */

/* ---- policy ---- */

static bool is_held_back(const struct ky_retain_policy *policy, enum ky_retain_kind kind)
{
	return policy->rules[kind].threshold_ns || policy->rules[kind].throttle;
}

static void let_go_of_wakes(struct ky_convert *convert);

static void set_policy(struct ky_convert *convert, const struct ky_retain_policy *policy)
{
	struct ky_retain *retain = &convert->retain;

	/* What began before has its begin written, and gets its end. */
	if (!retain->holds_spans && is_held_back(policy, KY_RETAIN_SPAN))
		retain->spans_from_ticks = convert->common->now_ticks;
	retain->policy = *policy;
	retain->is_on = false;
	for (int kind = 0; kind < KY_RETAIN_COUNT; kind++)
		retain->is_on |= is_held_back(policy, (enum ky_retain_kind)kind);
	retain->holds_polls = is_held_back(policy, KY_RETAIN_POLL);
	retain->holds_spans = is_held_back(policy, KY_RETAIN_SPAN);
	retain->holds_wakes = policy->rules[KY_RETAIN_WAKE].threshold_ns != 0;
	if (!retain->holds_wakes)
		let_go_of_wakes(convert);
}

int ky_retain_init(struct ky_convert *convert, const struct ky_retain_policy *opened)
{
	struct ky_retain *retain = &convert->retain;
	struct ky_retain_policy before;

	ky_buf_init(&retain->scratch, 0);
	retain->worker_capacity = 1;
	retain->workers = ky_alloc(sizeof(*retain->workers));
	if (!retain->workers)
		return -ENOMEM;
	if (!opened)
		return 0;
	retain->is_given = true;
	retain->opened = *opened;
	set_policy(convert, opened);
	ky_retain_read_settings(convert, &before);
	return 0;
}

static void release_table(struct ky_counted_table *table)
{
	for (uint32_t i = 0; i < table->capacity; i++) {
		struct ky_counted *counted = table->by_name[i];

		for (uint32_t row = 0; counted && row < KY_BUCKET_ROWS; row++)
			ky_free(counted->rows[row]);
		ky_free(counted);
	}
	ky_free(table->by_name);
}

void ky_retain_release(struct ky_convert *convert)
{
	struct ky_retain *retain = &convert->retain;

	for (uint32_t i = 0; i < KY_RETAIN_TABLES; i++)
		release_table(&retain->tables[i]);
	ky_free(retain->workers);
	ky_free(retain->held);
	ky_free(retain->parents);
	ky_buf_release(&retain->scratch);
	memset(retain, 0, sizeof(*retain));
}

static void set_threshold(struct ky_retain_rule *rule, const _Atomic uint64_t *setting)
{
	uint64_t threshold_ns = atomic_load_explicit(setting, memory_order_relaxed);

	if (threshold_ns)
		rule->threshold_ns = threshold_ns == SETTING_ALL_NS ? 0 : threshold_ns;
}

/* False: another process is writing them. */
static bool copy_settings(const struct ky_ring_settings *settings, uint32_t generation,
			  struct ky_retain_policy *policy)
{
	set_threshold(&policy->rules[KY_RETAIN_POLL], &settings->poll_threshold_ns);
	set_threshold(&policy->rules[KY_RETAIN_WAKE], &settings->wake_threshold_ns);
	set_threshold(&policy->rules[KY_RETAIN_BLOCKING], &settings->blocking_threshold_ns);
	set_threshold(&policy->rules[KY_RETAIN_SPAN], &settings->span_threshold_ns);
	for (int kind = 0; kind < KY_RETAIN_COUNT; kind++) {
		uint32_t throttle = atomic_load_explicit(&settings->throttle[kind],
							 memory_order_relaxed);

		if (throttle)
			policy->rules[kind].throttle = throttle == UINT32_MAX ? 0 : throttle;
	}
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&settings->generation, memory_order_relaxed) == generation;
}

static bool is_same(const struct ky_retain_policy *a, const struct ky_retain_policy *b)
{
	for (int kind = 0; kind < KY_RETAIN_COUNT; kind++) {
		const struct ky_retain_rule *left = &a->rules[kind], *right = &b->rules[kind];

		if (left->threshold_ns != right->threshold_ns || left->throttle != right->throttle)
			return false;
	}
	return true;
}

bool ky_retain_read_settings(struct ky_convert *convert, struct ky_retain_policy *before)
{
	struct ky_retain *retain = &convert->retain;
	struct ky_retain_policy policy = retain->opened;
	const struct ky_ring_settings *settings;
	uint32_t generation;

	*before = retain->policy;
	if (!retain->is_given || !convert->common->ring.control)
		return false;
	settings = &convert->common->ring.control->settings;
	generation = atomic_load_explicit(&settings->generation, memory_order_acquire);
	if ((generation & 1) || (retain->was_read && generation == retain->generation) ||
	    !copy_settings(settings, generation, &policy))
		return false;
	retain->was_read = true;
	retain->generation = generation;
	if (is_same(&policy, before))
		return false;
	set_policy(convert, &policy);
	return true;
}

/* At most so many a second: true while there is room for one more. */
static bool has_room(struct ky_retain *retain, enum ky_retain_kind kind, uint64_t ns)
{
	struct ky_throttle_budget *budget = &retain->budgets[kind];
	uint32_t throttle = retain->policy.rules[kind].throttle;

	if (!throttle)
		return true;
	if (ns >= budget->from_ns + SECOND_NS) {
		budget->from_ns = ns - ns % SECOND_NS;
		budget->used = 0;
	}
	if (budget->used >= throttle)
		return false;
	budget->used++;
	return true;
}

/* ---- counting ---- */

/* The chunk that reports the counts stands for this record, not the one that is open now. */
static void put_off(struct ky_convert *convert)
{
	convert->chunk.records_reported--; /* the caller counts it, as all */
	convert->retain.records_pending++;
	convert->retain.has_counts = true;
}

static struct ky_counted *find_counted(struct ky_convert *convert, struct ky_counted_table *table,
				       uint32_t name)
{
	if (name >= KY_RETAIN_NAMES_MAX || name >= convert->common->names.count)
		name = 0;
	if (ky_grow(&table->by_name, &table->capacity, name + 1, sizeof(struct ky_counted *)))
		return NULL;
	if (!table->by_name[name])
		table->by_name[name] = ky_alloc(sizeof(struct ky_counted));
	return table->by_name[name];
}

static uint64_t *new_row(struct ky_retain *retain)
{
	if (retain->row_count >= KY_RETAIN_ROWS_MAX)
		return NULL;
	retain->row_count++;
	return ky_alloc(KY_BUCKETS_PER_ROW * sizeof(uint64_t));
}

static void count_length(struct ky_convert *convert, enum ky_retain_table_kind kind, uint32_t name,
			 uint64_t length_ns)
{
	struct ky_retain *retain = &convert->retain;
	struct ky_counted_table *table = &retain->tables[kind];
	struct ky_counted *counted = name < table->capacity ? table->by_name[name] : NULL;
	uint32_t bucket = ky_bucket_of(length_ns), row = bucket >> KY_BUCKET_SUB_BITS;

	if (__builtin_expect(!counted, 0)) {
		counted = find_counted(convert, table, name);
		if (!counted) {
			convert->is_out_of_memory = true;
			return;
		}
	}
	if (!counted->count || length_ns < counted->min)
		counted->min = length_ns;
	if (length_ns > counted->max)
		counted->max = length_ns;
	counted->count++;
	counted->sum += length_ns;
	if (__builtin_expect(!counted->rows[row], 0))
		counted->rows[row] = new_row(retain);
	if (__builtin_expect(counted->rows[row] != NULL, 1))
		counted->rows[row][bucket & (KY_BUCKETS_PER_ROW - 1)]++;
	retain->has_counts = true;
}

static uint32_t worker_index(const struct ky_convert *convert, uint32_t worker)
{
	return worker < convert->workers.count ? worker + 1 : 0;
}

static struct ky_worker_sums *sums_of(struct ky_convert *convert, uint32_t index)
{
	struct ky_retain *retain = &convert->retain;

	if (ky_grow(&retain->workers, &retain->worker_capacity, index + 1,
		    sizeof(*retain->workers))) {
		convert->is_out_of_memory = true;
		index = 0;
	}
	return &retain->workers[index];
}

static void widen(struct ky_worker_sums *sums, uint64_t from_ns, uint64_t to_ns)
{
	if (!sums->first_ns || from_ns < sums->first_ns)
		sums->first_ns = from_ns;
	if (to_ns > sums->last_ns)
		sums->last_ns = to_ns;
}

/* ---- wakes ---- */

static void free_held(struct ky_retain *retain, uint32_t place)
{
	retain->held[place].is_used = false;
	retain->held[place].next_free = retain->held_free;
	retain->held_free = place;
}

/* 0: no room. */
static uint32_t take_held(struct ky_convert *convert)
{
	struct ky_retain *retain = &convert->retain;
	uint32_t place = retain->held_free;

	if (place) {
		retain->held_free = retain->held[place].next_free;
		return place;
	}
	if (retain->held_used + 1 >= KY_RETAIN_HELD_MAX ||
	    ky_grow(&retain->held, &retain->held_capacity, retain->held_used + 2,
		    sizeof(*retain->held)))
		return 0;
	return ++retain->held_used;
}

static void count_wake(struct ky_convert *convert, uint32_t index, bool is_record)
{
	sums_of(convert, index)->wake_count++;
	convert->retain.records_pending += is_record;
	convert->retain.has_counts = true;
}

static void write_held(struct ky_convert *convert, uint32_t place, uint64_t ns)
{
	const struct ky_held_wake *held = &convert->retain.held[place];

	ky_retain_write_wake(convert, held, ns);
	convert->chunk.records_reported += held->is_record;
	free_held(&convert->retain, place);
}

/* The wake waits no longer: it is written where it was late, else counted. */
static void settle_wake(struct ky_convert *convert, uint32_t place, bool is_late, uint64_t ns)
{
	const struct ky_held_wake *held = &convert->retain.held[place];

	if (is_late && has_room(&convert->retain, KY_RETAIN_WAKE, ns)) {
		write_held(convert, place, ns);
		return;
	}
	count_wake(convert, held->worker_index, held->is_record);
	free_held(&convert->retain, place);
}

static void let_go_of_wakes(struct ky_convert *convert)
{
	struct ky_retain *retain = &convert->retain;

	for (uint32_t place = 1; place <= retain->held_used; place++) {
		struct ky_drain_task *task;

		if (!retain->held[place].is_used)
			continue;
		task = ky_task_table_find(&convert->tasks, retain->held[place].woken);
		if (task)
			task->held = 0;
		settle_wake(convert, place, false, 0);
	}
}

bool ky_retain_next_wake(struct ky_convert *convert, struct ky_list_at *at, uint64_t ns)
{
	struct ky_retain *retain = &convert->retain;
	uint64_t threshold_ns = retain->policy.rules[KY_RETAIN_WAKE].threshold_ns;

	for (at->entry++; at->entry <= retain->held_used; at->entry++) {
		const struct ky_held_wake *held = &retain->held[at->entry];
		bool is_late = ns > held->woken_ns && ns - held->woken_ns >= threshold_ns;

		if (!held->is_used)
			continue;
		if (is_late && has_room(retain, KY_RETAIN_WAKE, ns))
			return true;
		count_wake(convert, held->worker_index, held->is_record);
		free_held(retain, at->entry);
	}
	return false;
}

void ky_retain_wake(struct ky_convert *convert, struct ky_list_at *at, uint64_t ns)
{
	write_held(convert, at->entry, ns);
}

bool ky_retain_writes_wake(struct ky_convert *convert, const struct ky_dthread *thread,
			   uint64_t waker, uint64_t woken, uint32_t origin, uint32_t stack,
			   uint64_t ns)
{
	struct ky_retain *retain = &convert->retain;
	uint32_t index = worker_index(convert, thread->worker), id = ky_worker_id(thread->worker);
	bool is_record = !(origin & ORIGIN_DERIVED);
	struct ky_drain_task *task;
	uint32_t place = 0;

	if (id > 253)
		index = 0; /* as a WakeEventEvent would say */
	if (!retain->holds_wakes) {
		if (has_room(retain, KY_RETAIN_WAKE, ns))
			return true;
		convert->chunk.records_reported -= is_record;
		count_wake(convert, index, is_record);
		return false;
	}
	convert->chunk.records_reported -= is_record;
	task = ky_task_table_find(&convert->tasks, woken);
	/* Only the wake that made it ready says something about the wait. */
	if (task && !task->held && (!task->ready_ns || task->ready_ns == ns))
		place = take_held(convert);
	if (!place) {
		count_wake(convert, index, is_record);
		return false;
	}
	retain->held[place] = (struct ky_held_wake){.woken_ns = ns,
						    .waker = waker,
						    .woken = woken,
						    .worker_index = index,
						    .stack = stack,
						    .tid = ky_wake_tid(thread),
						    .worker_id = (uint8_t)(id > 253 ? 255 : id),
						    .origin = (uint8_t)origin,
						    .is_record = is_record,
						    .is_used = true};
	task->held = place;
	return false;
}

void ky_retain_task_end(struct ky_convert *convert, uint64_t task, uint64_t ns)
{
	uint64_t threshold_ns = convert->retain.policy.rules[KY_RETAIN_WAKE].threshold_ns;
	struct ky_drain_task *found = ky_task_table_find(&convert->tasks, task);
	uint32_t place = found ? found->held : 0;
	uint64_t woken_ns;

	if (!place)
		return;
	woken_ns = convert->retain.held[place].woken_ns;
	found->held = 0;
	settle_wake(convert, place, ns > woken_ns && ns - woken_ns >= threshold_ns, ns);
}

/* ---- polls ---- */

/* Its end, when it is queued and its time is settled; NULL: not, or it is long. */
static const struct ky_rec *find_end(const struct ky_convert *convert,
				     const struct ky_dthread *thread, const struct ky_rec *rec,
				     uint64_t length_max_ns)
{
	const struct ky_rec *end = thread->queue.recs + thread->queue.tail, *at = rec + 1;
	bool is_run = rec->type == KYMO_RECORD_BLOCKING_BEGIN;
	uint64_t limit = convert->common->now_ticks;
	uint32_t depth = 1;

	if (length_max_ns) {
		uint64_t longest = ky_timeline_length_ticks(&convert->common->timeline,
							    2 * length_max_ns);

		if (limit > rec->ticks && limit - rec->ticks > longest)
			limit = rec->ticks + longest;
	}
	if (end - at > (ptrdiff_t)READ_AHEAD_MAX)
		end = at + READ_AHEAD_MAX;
	for (; at < end; at++) {
		if (at->type == KY_REC_MORE)
			continue; /* of the record before; its ticks are none */
		if (at->ticks > limit || at->type == KY_REC_GAP || at->type == KY_REC_CARRIED ||
		    at->type == KY_REC_EXIT)
			return NULL;
		if (is_run) {
			if (at->type == KYMO_RECORD_BLOCKING_END)
				return at;
			if (at->type == KYMO_RECORD_BLOCKING_BEGIN)
				return NULL;
		} else if (at->type == KYMO_RECORD_POLL_BEGIN) {
			depth++;
		} else if (at->type == KYMO_RECORD_POLL_END && --depth == 0) {
			return at;
		}
	}
	return NULL;
}

/* Does the rule hold back what begins here? What has no known end is written. */
static bool holds(struct ky_convert *convert, const struct ky_dthread *thread,
		  enum ky_retain_kind kind, const struct ky_rec *rec, bool is_late, uint64_t ns)
{
	const struct ky_retain_rule *rule = &convert->retain.policy.rules[kind];
	const struct ky_rec *end;
	uint64_t end_ns;

	if (!rule->threshold_ns && !rule->throttle)
		return false;
	end = find_end(convert, thread, rec, rule->throttle ? 0 : rule->threshold_ns);
	if (end) {
		end_ns = ky_timeline_ns(&convert->common->timeline, end->ticks);
		if (!is_late && end_ns - ns < rule->threshold_ns)
			return true;
	}
	return !has_room(&convert->retain, kind, ns) && end;
}

void ky_retain_choose(struct ky_convert *convert, const struct ky_dthread *thread,
		      const struct ky_rec *rec, uint64_t task, uint64_t ns,
		      struct ky_retain_choice *out)
{
	const struct ky_retain_policy *policy = &convert->retain.policy;
	uint64_t threshold_ns = policy->rules[KY_RETAIN_WAKE].threshold_ns;
	struct ky_drain_task *found = NULL;
	bool is_late = false;

	memset(out, 0, sizeof(*out));
	if (convert->retain.holds_polls || is_held_back(policy, KY_RETAIN_WAKE))
		found = ky_task_table_find(&convert->tasks, task);
	if (found) {
		out->held = found->held;
		found->held = 0;
	}
	if (found && found->ready_ns) {
		/* A wake during its own poll counts from that poll's end. */
		out->ready_ns = found->ready_ns > found->last_poll_ns ? found->ready_ns :
									found->last_poll_ns;
		if (out->ready_ns > ns)
			out->ready_ns = ns;
		is_late = threshold_ns && ns - out->ready_ns >= threshold_ns;
	}
	out->is_kept = !holds(convert, thread, KY_RETAIN_POLL, rec, is_late, ns);
}

void ky_retain_delay(struct ky_convert *convert, const struct ky_retain_choice *choice,
		     uint32_t name, uint32_t poll_worker, uint32_t nested_tid, uint64_t ns)
{
	uint64_t threshold_ns = convert->retain.policy.rules[KY_RETAIN_WAKE].threshold_ns;
	uint64_t delay_ns = ns - choice->ready_ns;
	bool is_reported = choice->is_kept && choice->ready_ns && delay_ns >= threshold_ns;

	if (is_reported)
		ky_retain_write_delay(convert, poll_worker, nested_tid, choice->ready_ns, ns);
	else if (choice->ready_ns)
		count_length(convert, KY_RETAIN_DELAYS, name, delay_ns);
	if (choice->held)
		settle_wake(convert, choice->held, is_reported, ns);
}

void ky_retain_poll_begin(struct ky_convert *convert, struct ky_drain_poll *poll)
{
	poll->kind = poll->kind == KY_POLL_OUTER ? KY_POLL_COUNTED : KY_POLL_COUNTED_NESTED;
	put_off(convert);
}

static void count_poll(struct ky_convert *convert, const struct ky_drain_poll *poll, uint64_t ns)
{
	struct ky_worker_sums *sums = sums_of(convert, worker_index(convert, poll->worker));
	uint64_t length_ns = ns > poll->start_ns ? ns - poll->start_ns : 0;

	count_length(convert, KY_RETAIN_POLLS, poll->name, length_ns);
	if (poll->kind == KY_POLL_COUNTED_NESTED) {
		sums->nested_count++;
		return;
	}
	sums->poll_count++;
	sums->busy_ns += length_ns;
	if (length_ns > sums->poll_max_ns)
		sums->poll_max_ns = length_ns;
	widen(sums, poll->start_ns, ns);
	ky_worker_book(&convert->workers, poll->worker, ky_convert_mark(convert), poll->start_ns,
		       ns, poll->task);
	convert->workers.list[poll->worker].is_open = false;
}

void ky_retain_poll_moved(struct ky_convert *convert, struct ky_drain_poll *poll, uint64_t ns)
{
	count_poll(convert, poll, ns);
	poll->kind = KY_POLL_COUNTED_NESTED;
	poll->start_ns = ns;
}

void ky_retain_poll_end(struct ky_convert *convert, const struct ky_drain_poll *poll, uint64_t ns)
{
	count_poll(convert, poll, ns);
	put_off(convert);
}

/* ---- the others ---- */

bool ky_retain_writes_run(struct ky_convert *convert, const struct ky_dthread *thread,
			  const struct ky_rec *rec, uint64_t ns)
{
	if (!holds(convert, thread, KY_RETAIN_BLOCKING, rec, false, ns))
		return true;
	put_off(convert);
	return false;
}

void ky_retain_run_end(struct ky_convert *convert, uint32_t name, uint64_t length_ns)
{
	count_length(convert, KY_RETAIN_RUNS, name, length_ns);
	put_off(convert);
}

bool ky_retain_writes_park(struct ky_convert *convert, uint32_t worker, bool is_park, uint64_t ns)
{
	struct ky_worker_sums *sums = sums_of(convert, worker_index(convert, worker));
	uint64_t since_ns = sums->parked_since_ns, length_ns;

	if (is_park) {
		sums->parked_since_ns = 0;
		if (has_room(&convert->retain, KY_RETAIN_PARK, ns))
			return true;
		sums->parked_since_ns = ns ? ns : 1;
		put_off(convert);
		return false;
	}
	if (!since_ns)
		return true;
	length_ns = ns > since_ns ? ns - since_ns : 0;
	sums->parked_since_ns = 0;
	sums->park_count++;
	sums->parked_ns += length_ns;
	widen(sums, since_ns, ns);
	count_length(convert, KY_RETAIN_PARKS, 0, length_ns);
	put_off(convert);
	return false;
}

bool ky_retain_writes(struct ky_convert *convert, enum ky_retain_kind kind, uint64_t length_ns,
		      uint64_t ns)
{
	if (has_room(&convert->retain, kind, ns))
		return true;
	count_length(convert, kind == KY_RETAIN_DRIVER ? KY_RETAIN_TURNS : KY_RETAIN_MARKS, 0,
		     length_ns);
	put_off(convert);
	return false;
}

/* ---- spans ---- */

bool ky_retain_writes_span_begin(struct ky_convert *convert, uint64_t id, uint64_t parent)
{
	struct ky_retain *retain = &convert->retain;
	struct ky_span_parent *place;

	if (!retain->holds_spans)
		return true;
	if (parent && !retain->parents)
		retain->parents = ky_alloc(KY_RETAIN_PARENTS * sizeof(*retain->parents));
	/* Without memory, or with too many open, an end lacks its parent: nothing hangs on it. */
	if (parent && retain->parents) {
		place = &retain->parents[id % KY_RETAIN_PARENTS];
		*place = (struct ky_span_parent){id, parent};
	}
	put_off(convert);
	return false;
}

bool ky_retain_writes_span_run(struct ky_convert *convert)
{
	if (!convert->retain.holds_spans)
		return true;
	put_off(convert);
	return false;
}

bool ky_retain_writes_span(struct ky_convert *convert, uint64_t word, uint64_t begin_ticks,
			   uint64_t length_ns, uint64_t ns, uint64_t *parent)
{
	struct ky_retain *retain = &convert->retain;
	const struct ky_span_parent *place;
	uint64_t id = word >> KYMO_NAME_BITS;

	*parent = 0;
	if (retain->parents) {
		place = &retain->parents[id % KY_RETAIN_PARENTS];
		if (place->id == id)
			*parent = place->parent;
	}
	if (!retain->holds_spans || begin_ticks <= retain->spans_from_ticks)
		return true;
	if (length_ns >= retain->policy.rules[KY_RETAIN_SPAN].threshold_ns &&
	    has_room(retain, KY_RETAIN_SPAN, ns))
		return true;
	count_length(convert, KY_RETAIN_SPANS, (uint32_t)(word & ((1u << KYMO_NAME_BITS) - 1)),
		     length_ns);
	put_off(convert);
	return false;
}
