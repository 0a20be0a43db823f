/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What reaches the trace without a sub-buffer: marks, counters and the crash record of the side
 * area, and what a watchdog hands in. Each waits as a note in a queue of its own, which the merge
 * treats like a thread's. */
#include <drain/drain_state.h>

#include <base/alloc.h>
#include <errno.h>
#include <kymo/base.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNTERS_PACE_NS UINT64_C(1000000000)
#define MARK_PATIENCE_NS UINT64_C(1000000000) /* a mark half written for so long has no writer */
#define SYSCALL_NONE (-1)
#define SYSCALL_UNKNOWN (-2)

int ky_drain_side_open(struct ky_drain *drain)
{
	struct ky_dthread *outside = ky_alloc(sizeof(*outside));

	drain->outside = outside;
	drain->heap = ky_alloc(2 * sizeof(*drain->heap)); /* and that of the samples */
	if (!outside || !drain->heap)
		return -ENOMEM;
	outside->worker = KY_NONE32;
	outside->is_announced = true;
	return 0;
}

void ky_drain_side_release(struct ky_drain *drain)
{
	for (uint32_t i = 0; i < drain->note_count; i++)
		ky_free(drain->notes[i].body);
	ky_free(drain->notes);
	if (drain->outside)
		ky_free(drain->outside->recs);
	ky_free(drain->outside);
}

/* ---- the queue ---- */

static int find_room(struct ky_drain *drain, uint32_t *at)
{
	uint32_t count = drain->note_count ? drain->note_count * 2 : 16;
	struct ky_note *notes;

	for (*at = 0; *at < drain->note_count; (*at)++) {
		if (drain->notes[*at].kind == KY_NOTE_FREE)
			return 0;
	}
	if (count > KY_NOTES_MAX)
		return KYMO_E_LIMIT;
	notes = ky_realloc(drain->notes, count * sizeof(*notes));
	if (!notes)
		return -ENOMEM;
	memset(notes + drain->note_count, 0, (count - drain->note_count) * sizeof(*notes));
	drain->notes = notes;
	drain->note_count = count;
	return 0;
}

/* Into its place in the order of time. Takes the body over, also when it fails. */
static int add_note(struct ky_drain *drain, const struct ky_note *note, uint64_t ns)
{
	struct ky_dthread *outside = drain->outside;
	uint64_t ticks = ky_timeline_ticks(&drain->timeline, ns);
	uint32_t at, to;
	int err = find_room(drain, &at);

	if (!err)
		err = ky_drain_queue(drain, outside, ticks, KY_REC_NOTE, 0, at);
	if (err) {
		ky_free(note->body);
		return err;
	}
	drain->notes[at] = *note;
	for (to = outside->tail - 1; to > outside->head && outside->recs[to - 1].ticks > ticks;
	     to--)
		outside->recs[to] = outside->recs[to - 1];
	outside->recs[to] = (struct ky_rec){ticks, at, KY_REC_NOTE, 0};
	return 0;
}

static void *copy_body(const void *bytes, size_t count)
{
	void *body = ky_alloc(count ? count : 1);

	if (body && count)
		memcpy(body, bytes, count);
	return body;
}

/* A time somebody else wrote: never in the future, and not before there was a ring. */
static uint64_t sane_ns(const struct ky_drain *drain, uint64_t ns)
{
	uint64_t first = drain->timeline.count ? drain->timeline.points[0].ns : 0;

	if (!drain->is_dead && drain->now_ns && ns > drain->now_ns)
		ns = drain->now_ns;
	if (drain->is_dead && drain->now_ns && ns > drain->now_ns + drain->timeline.ahead_max_ns)
		ns = drain->now_ns;
	return ns > first ? ns : first;
}

int ky_drain_stuck(struct ky_drain *drain, const struct ky_stuck_note *stuck)
{
	struct ky_note note = {.kind = KY_NOTE_STUCK, .body = copy_body(stuck, sizeof(*stuck))};

	return note.body ? add_note(drain, &note, sane_ns(drain, stuck->monotonic_ns)) : -ENOMEM;
}

int ky_drain_trigger(struct ky_drain *drain, const struct ky_trigger_note *trigger)
{
	struct ky_note note = {.kind = KY_NOTE_TRIGGER,
			       .body = copy_body(trigger, sizeof(*trigger))};

	return note.body ? add_note(drain, &note, sane_ns(drain, trigger->monotonic_ns)) : -ENOMEM;
}

int ky_drain_thread_cpu(struct ky_drain *drain, const struct ky_thread_cpu *cpu)
{
	struct ky_note note = {.kind = KY_NOTE_THREAD_CPU, .body = copy_body(cpu, sizeof(*cpu))};

	return note.body ? add_note(drain, &note, sane_ns(drain, cpu->monotonic_ns)) : -ENOMEM;
}

int ky_drain_note_resource(struct ky_drain *drain, const struct ky_resource_row *row)
{
	struct ky_note note = {.kind = KY_NOTE_RESOURCE, .body = copy_body(row, sizeof(*row))};

	return note.body ? add_note(drain, &note, sane_ns(drain, row->monotonic_ns)) : -ENOMEM;
}

/* ---- marks ---- */

enum mark_look {
	MARK_WHOLE,
	MARK_UNFINISHED,
	MARK_GONE
};

static enum mark_look copy_mark(const struct ky_ring_mark *mark, uint64_t number,
				struct ky_ring_mark *out)
{
	uint64_t serial = atomic_load_explicit(&mark->serial, memory_order_acquire);

	if (serial > number + 1)
		return MARK_GONE;
	if (serial != number + 1)
		return MARK_UNFINISHED;
	memcpy(out, mark, sizeof(*out));
	/* What was read before must not move behind the second look. */
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&mark->serial, memory_order_relaxed) != serial)
		return MARK_GONE;
	return MARK_WHOLE;
}

static int tell_lost_marks(struct ky_drain *drain, uint64_t count)
{
	struct ky_note note = {.kind = KY_NOTE_MARKS_LOST, .value = count};

	drain->stats.records_lost += count;
	return add_note(drain, &note, drain->now_ns);
}

static int take_mark(struct ky_drain *drain, const struct ky_ring_mark *mark)
{
	size_t bytes = mark->text_bytes < KY_MARK_TEXT_BYTES ? mark->text_bytes :
							       KY_MARK_TEXT_BYTES;
	struct ky_note note = {.kind = KY_NOTE_MARK,
			       .body = copy_body(mark->text, bytes),
			       .body_bytes = (uint32_t)bytes};

	return note.body ? add_note(drain, &note, sane_ns(drain, mark->monotonic_ns)) : -ENOMEM;
}

/* True: wait for it, its writer may be in the middle of it. */
static bool is_worth_waiting(struct ky_drain *drain)
{
	struct ky_side_state *side = &drain->side;

	if (drain->is_final)
		return false;
	if (!side->mark_since_ns)
		side->mark_since_ns = drain->now_ns ? drain->now_ns : 1;
	return drain->now_ns - side->mark_since_ns < MARK_PATIENCE_NS;
}

static int read_marks(struct ky_drain *drain, const struct ky_ring_side *area)
{
	struct ky_side_state *side = &drain->side;
	uint64_t hand = atomic_load_explicit(&area->mark_hand, memory_order_acquire), lost = 0;
	int err = 0;

	if (hand < side->mark_next) /* nobody takes marks back */
		return 0;
	if (hand - side->mark_next > KY_MARKS) {
		/* A cut tells what is there: the older ones were never promised. */
		lost = drain->is_cut ? 0 : hand - KY_MARKS - side->mark_next;
		side->mark_next = hand - KY_MARKS;
	}
	for (; side->mark_next < hand && !err; side->mark_next++) {
		struct ky_ring_mark mark;
		enum mark_look saw = copy_mark(&area->marks[side->mark_next % KY_MARKS],
					       side->mark_next, &mark);

		if (saw == MARK_UNFINISHED && is_worth_waiting(drain))
			break;
		side->mark_since_ns = 0;
		if (saw == MARK_WHOLE)
			err = take_mark(drain, &mark);
		else
			lost++;
	}
	if (!err && lost)
		err = tell_lost_marks(drain, lost);
	return err == -ENOMEM ? err : 0;
}

/* ---- counters ---- */

static uint32_t counter_count(const struct ky_ring_side *area)
{
	uint32_t count = atomic_load_explicit(&area->counter_count, memory_order_acquire);

	return count < KY_COUNTERS ? count : KY_COUNTERS;
}

static uint64_t counter_value(const struct ky_ring_side *area, uint32_t index)
{
	return atomic_load_explicit(&area->counters[index].value, memory_order_relaxed);
}

/* The value changed, or the open segment has none; then it counts as told. */
static bool is_news(struct ky_drain *drain, uint32_t index, uint64_t value)
{
	struct ky_side_state *side = &drain->side;
	uint64_t bit = UINT64_C(1) << index;

	if ((side->counters_told & bit) && side->counter_values[index] == value)
		return false;
	side->counters_told |= bit;
	side->counter_values[index] = value;
	return true;
}

static int read_counters(struct ky_drain *drain, const struct ky_ring_side *area)
{
	struct ky_side_state *side = &drain->side;
	uint32_t count = counter_count(area);
	int err = 0;

	if (drain->now_ns - side->counters_ns < COUNTERS_PACE_NS && side->counters_ns)
		return 0;
	side->counters_ns = drain->now_ns;
	for (uint32_t i = 0; i < count && !err; i++) {
		struct ky_note note = {KY_NOTE_COUNTER, i, counter_value(area, i), NULL, 0};

		if (is_news(drain, i, note.value))
			err = add_note(drain, &note, drain->now_ns);
	}
	return err == -ENOMEM ? err : 0;
}

/* What the counters were before now: a cut has not looked meanwhile. */
static int read_samples(struct ky_drain *drain, const struct ky_ring_side *area)
{
	int err = 0;

	for (uint32_t i = 0; i < KY_COUNTER_SAMPLES && err != -ENOMEM; i++) {
		const struct ky_ring_counter_sample *sample = &area->counter_samples[i];
		uint64_t serial = atomic_load_explicit(&sample->serial, memory_order_acquire);
		uint32_t index = (uint32_t)serial & (KY_COUNTERS - 1);
		struct ky_note note = {.kind = KY_NOTE_COUNTER, .index = index};
		uint64_t ticks = atomic_load_explicit(&sample->ticks, memory_order_relaxed);

		note.value = atomic_load_explicit(&sample->value, memory_order_relaxed);
		if (serial && index < counter_count(area))
			err = add_note(drain, &note,
				       sane_ns(drain, ky_timeline_ns(&drain->timeline, ticks)));
	}
	return err == -ENOMEM ? err : 0;
}

static void write_counter(struct ky_drain *drain, uint32_t index, uint64_t value, uint64_t ns)
{
	const char *name = drain->ring.side->counters[index].name;
	char text[KY_COUNTER_NAME_BYTES];
	uint32_t pool;

	memcpy(text, name, sizeof(text));
	ky_drain_ready(drain, ns);
	pool = ky_trc_enc_string(&drain->enc, 0, text, strnlen(text, sizeof(text)));
	ky_trc_enc_event(&drain->enc, KY_EV_COUNTER, ns);
	ky_trc_enc_u32(&drain->enc, pool);
	ky_trc_enc_i64(&drain->enc, (int64_t)value);
}

void ky_drain_write_counters(struct ky_drain *drain, uint64_t ns)
{
	const struct ky_ring_side *area = drain->ring.side;
	uint32_t count = area ? counter_count(area) : 0;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t value = counter_value(area, i);

		if (is_news(drain, i, value))
			write_counter(drain, i, value, ns);
	}
}

/* ---- crash ---- */

static int read_crash(struct ky_drain *drain, const struct ky_ring_side *area)
{
	struct ky_note note = {.kind = KY_NOTE_CRASH};
	struct ky_ring_crash *crash;

	/* Pairs with the release store behind a whole record. */
	if (drain->side.has_crash ||
	    atomic_load_explicit(&area->crash.state, memory_order_acquire) != 2)
		return 0;
	note.body = crash = copy_body(&area->crash, sizeof(area->crash));
	if (!crash)
		return -ENOMEM;
	drain->side.has_crash = true;
	return add_note(drain, &note, sane_ns(drain, crash->monotonic_ns)) == -ENOMEM ? -ENOMEM : 0;
}

int ky_drain_read_side(struct ky_drain *drain)
{
	const struct ky_ring_side *area = drain->ring.side;
	int err = ky_drain_count_threads(drain);

	/* Whoever only observes has no use for them. */
	if (err || (drain->is_muted && !drain->is_cut))
		return err;
	err = ky_drain_read_resources(drain);
	if (err || !area)
		return err;
	err = read_marks(drain, area);
	if (!err)
		err = read_crash(drain, area);
	/* The last values of a cut are written at its end. */
	if (!err)
		err = drain->is_cut ? read_samples(drain, area) : read_counters(drain, area);
	return err;
}

/* ---- writing ---- */

static void write_mark(struct ky_drain *drain, const struct ky_note *note, uint64_t ns)
{
	uint32_t pool = ky_trc_enc_string(&drain->enc, 0, note->body, note->body_bytes);

	ky_trc_enc_event(&drain->enc, KY_EV_ANNOTATION, ns);
	ky_trc_enc_u32(&drain->enc, 0);
	ky_trc_enc_u32(&drain->enc, pool);
}

static void write_crash(struct ky_drain *drain, const struct ky_ring_crash *crash, uint64_t ns)
{
	struct ky_trc_enc *enc = &drain->enc;
	uint32_t registers = crash->register_count, stack = crash->stack_bytes;

	ky_trc_enc_event(enc, KY_EV_CRASH, ns);
	ky_trc_enc_u32(enc, crash->signal);
	ky_trc_enc_i64(enc, crash->code);
	ky_trc_enc_varint(enc, crash->address);
	ky_trc_enc_u32(enc, crash->tid);
	ky_trc_enc_varint(enc, ky_worker_id(ky_drain_worker_of(drain, crash->tid)));
	ky_trc_enc_varint(enc, crash->pc);
	ky_trc_enc_varint(enc, crash->sp);
	ky_trc_enc_varint(enc, crash->fp);
	ky_trc_enc_frames(enc, crash->registers,
			  registers < KY_CRASH_REGISTERS ? registers : KY_CRASH_REGISTERS);
	ky_trc_enc_bytes(enc, crash->stack,
			 stack < KY_CRASH_STACK_BYTES ? stack : KY_CRASH_STACK_BYTES);
}

static void write_stuck(struct ky_drain *drain, const struct ky_stuck_note *stuck, uint64_t ns)
{
	struct ky_trc_enc *enc = &drain->enc;
	uint32_t wchan = ky_trc_enc_string(enc, 0, stuck->wchan,
					   strnlen(stuck->wchan, sizeof(stuck->wchan)));

	ky_trc_enc_event(enc, KY_EV_STUCK_THREAD, ns);
	ky_trc_enc_u32(enc, stuck->tid);
	ky_trc_enc_varint(enc, ky_worker_id(ky_drain_worker_of(drain, stuck->tid)));
	ky_trc_enc_varint(enc, stuck->task);
	ky_trc_enc_varint(enc, stuck->begin_ns);
	ky_trc_enc_u8(enc, (uint8_t)stuck->state);
	ky_trc_enc_opt_varint(enc, stuck->syscall >= 0, (uint64_t)stuck->syscall);
	ky_trc_enc_u8(enc, stuck->syscall == SYSCALL_NONE);
	ky_trc_enc_varint(enc, stuck->pc);
	ky_trc_enc_varint(enc, stuck->sp);
	ky_trc_enc_u32(enc, wchan);
	ky_trc_enc_frames(enc, stuck->frames,
			  stuck->frame_count < KY_STUCK_FRAMES_MAX ? stuck->frame_count :
								     KY_STUCK_FRAMES_MAX);
	ky_trc_enc_u8(enc, stuck->is_truncated);
	ky_trc_enc_varint(enc, stuck->guessed_count);
	ky_trc_enc_opt_varint(enc, stuck->has_counts, stuck->cpu_ns);
	ky_trc_enc_opt_varint(enc, stuck->has_counts, stuck->run_delay_ns);
}

static void write_trigger(struct ky_drain *drain, const struct ky_trigger_note *trigger,
			  uint64_t ns)
{
	struct ky_trc_enc *enc = &drain->enc;
	uint32_t rule = ky_trc_enc_string(enc, 0, trigger->rule,
					  strnlen(trigger->rule, sizeof(trigger->rule)));
	uint32_t unit = ky_trc_enc_string(enc, 0, trigger->unit,
					  strnlen(trigger->unit, sizeof(trigger->unit)));

	ky_trc_enc_event(enc, KY_EV_TRIGGER, ns);
	ky_trc_enc_u32(enc, rule);
	ky_trc_enc_varint(enc, trigger->value);
	ky_trc_enc_varint(enc, trigger->threshold);
	ky_trc_enc_u32(enc, unit);
	ky_trc_enc_u32(enc, trigger->tid);
	ky_trc_enc_varint(enc, trigger->task);
	ky_trc_enc_varint(enc, trigger->suppressed_count);
	ky_trc_enc_varint(enc, trigger->late_count);
}

static void write_thread_cpu(struct ky_drain *drain, const struct ky_thread_cpu *cpu, uint64_t ns)
{
	struct ky_trc_enc *enc = &drain->enc;

	ky_trc_enc_event(enc, KY_EV_THREAD_CPU, ns);
	ky_trc_enc_u32(enc, cpu->tid);
	ky_trc_enc_varint(enc, ky_worker_id(ky_drain_worker_of(drain, cpu->tid)));
	ky_trc_enc_varint(enc, cpu->cpu_ns);
	ky_trc_enc_varint(enc, cpu->run_delay_ns);
	ky_trc_enc_opt_varint(enc, cpu->has_switches, cpu->voluntary);
	ky_trc_enc_opt_varint(enc, cpu->has_switches, cpu->involuntary);
}

void ky_drain_write_note(struct ky_drain *drain, uint64_t index, uint64_t ns)
{
	struct ky_note *note = &drain->notes[index];

	switch (note->kind) {
	case KY_NOTE_MARK:
		write_mark(drain, note, ns);
		break;
	case KY_NOTE_MARKS_LOST:
		ky_drain_loss(drain, 0, note->value, true, ns, ns, KY_LOSS_OVERWRITTEN, ns);
		break;
	case KY_NOTE_COUNTER:
		/* Of a stream it was news when it was read. */
		if (!drain->is_cut ||
		    (!drain->is_muted && is_news(drain, note->index, note->value)))
			write_counter(drain, note->index, note->value, ns);
		break;
	case KY_NOTE_CRASH:
		write_crash(drain, note->body, ns);
		break;
	case KY_NOTE_STUCK:
		write_stuck(drain, note->body, ns);
		break;
	case KY_NOTE_TRIGGER:
		write_trigger(drain, note->body, ns);
		break;
	case KY_NOTE_THREAD_CPU:
		write_thread_cpu(drain, note->body, ns);
		break;
	case KY_NOTE_RESOURCE:
		ky_drain_write_resource(drain, note->body, ns);
		break;
	default:
		break;
	}
	ky_free(note->body);
	memset(note, 0, sizeof(*note));
}

/* ---- how it ended ---- */

/* The numbers are those of every architecture we record on. */
static const char *signal_name(uint32_t signal)
{
	static const char *const names[] = {
		[1] = "SIGHUP",   [2] = "SIGINT",   [3] = "SIGQUIT",    [4] = "SIGILL",
		[5] = "SIGTRAP",  [6] = "SIGABRT",  [7] = "SIGBUS",     [8] = "SIGFPE",
		[9] = "SIGKILL",  [10] = "SIGUSR1", [11] = "SIGSEGV",   [12] = "SIGUSR2",
		[13] = "SIGPIPE", [14] = "SIGALRM", [15] = "SIGTERM",   [16] = "SIGSTKFLT",
		[24] = "SIGXCPU", [25] = "SIGXFSZ", [26] = "SIGVTALRM", [27] = "SIGPROF",
		[29] = "SIGIO",   [30] = "SIGPWR",  [31] = "SIGSYS"};

	return signal < sizeof(names) / sizeof(names[0]) && names[signal] ? names[signal] : NULL;
}

static void put_signal(char *out, size_t capacity, uint32_t signal, const char *more)
{
	const char *name = signal_name(signal);

	if (name)
		snprintf(out, capacity, "signal %u (%s)%s", signal, name, more);
	else
		snprintf(out, capacity, "signal %u%s", signal, more);
}

void ky_drain_process_end(const struct ky_drain *drain, char *out, size_t capacity)
{
	const struct ky_ring_side *area = drain->ring.side;
	uint32_t kind = area ? atomic_load_explicit(&area->end.kind, memory_order_acquire) : 0;

	if (kind == KY_END_EXIT)
		snprintf(out, capacity, "exit status %u", area->end.code);
	else if (kind == KY_END_SIGNAL)
		put_signal(out, capacity, area->end.code,
			   area->end.oom == KY_OOM_NAMED   ? ", out of memory" :
			   area->end.oom == KY_OOM_COUNTED ? ", probably out of memory" :
			   area->end.has_core == 1         ? ", core dumped" :
							     "");
	else if (area && atomic_load_explicit(&area->crash.state, memory_order_acquire) == 2)
		put_signal(out, capacity, area->crash.signal, "");
	else
		snprintf(out, capacity, "unknown");
}
