/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <kymo/poll_cost.h>
#include <record/sample/poll_readings.h>

#include <base/now.h>
#include <errno.h>
#include <kymo/recorder.h>
#include <record/emit/emit_engine.h>
#include <record/sample/rseq_mark.h>
#include <record/sample/sched_file.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define NANOSECONDS UINT64_C(1000000000)
#define REST_NS_MIN 100000u /* between two readings of a thread; doubled up to the other */
#define REST_NS_MAX 1600000u
/* What our own instructions between two stamps never take: the thread was switched out. */
#define OWN_NS_MAX 20000u
#define TRIES_MAX 3u

uint64_t kymo_poll_cost_ticks_min = UINT64_MAX;
uint64_t kymo_poll_cost_marked;

static const uint64_t no_mark;
__thread struct kymo_poll_cost kymo_poll_cost_self KYMO_TLS_MODEL = {.mark = &no_mark};

struct reading {
	uint64_t ticks; /* right after it; 0: there is none */
	uint64_t cpu_ns, delay_ns;
	uint64_t minor, major, voluntary, involuntary;
	bool has_delay;
	bool is_whole; /* the thread was not switched out while it was taken */
};

static __thread struct {
	uint64_t *mark; /* NULL: the thread has none */
	struct reading base;
	uint64_t marked_ticks; /* on CPU since then while the mark stands */
	uint64_t rest_ns;
	struct ky_sched_file file;
	uint32_t recording; /* in which it began; 0: in none */
	bool was_needed;    /* the base, by a long poll */
} own KYMO_TLS_MODEL;

static uint64_t ticks_per_second; /* atomic */
static uint64_t started_ticks;    /* atomic */
static uint32_t is_described;     /* atomic */
static uint32_t recording;        /* atomic; how many there were */
/* atomic: another process says when calls are allowed; no call has been made yet */
static uint32_t is_granted_outside, is_waiting;

static uint64_t ns_of(uint64_t ticks)
{
	uint64_t hz = __atomic_load_n(&ticks_per_second, __ATOMIC_RELAXED);

	return (uint64_t)((double)ticks * (double)NANOSECONDS / (double)hz);
}

static uint64_t ticks_of(uint64_t ns)
{
	return (uint64_t)((double)ns *
			  (double)__atomic_load_n(&ticks_per_second, __ATOMIC_RELAXED) /
			  (double)NANOSECONDS);
}

/* ---- readings ---- */

static uint64_t ticks_now(void)
{
	uint32_t high;

	return kymo_arch_ticks(&high);
}

/* The CPU clock before schedstat: it brings that up to date. A thread that is taken off its CPU
 * before the stamp, as happens at the end of a system call, has that delay or that switch not in
 * its reading: it reads again. */
static bool take(struct reading *out)
{
	struct rusage usage;
	uint64_t before;
	uint32_t tries = 0;

	memset(out, 0, sizeof(*out));
	do {
		before = ticks_now();
		if (getrusage(RUSAGE_THREAD, &usage) != 0)
			return false;
		out->cpu_ns = ky_now_ns(CLOCK_THREAD_CPUTIME_ID);
		out->has_delay = ky_sched_file_read(&own.file, out->cpu_ns, &out->delay_ns);
		out->ticks = ticks_now();
		out->is_whole = out->ticks - before <= ticks_of(OWN_NS_MAX);
	} while (!out->is_whole && ++tries < TRIES_MAX);
	out->minor = (uint64_t)usage.ru_minflt;
	out->major = (uint64_t)usage.ru_majflt;
	out->voluntary = (uint64_t)usage.ru_nvcsw;
	out->involuntary = (uint64_t)usage.ru_nivcsw;
	return true;
}

static void drop_mark(void)
{
	own.mark = NULL;
	kymo_poll_cost_self.mark = &no_mark;
}

/* From here on, or from `since` on, which was just now unless the thread was switched out. Another
 * thread may have refused marks meanwhile: what then stands for them points to nothing, and the
 * kernel would end the program for it. */
static void set_mark(uint64_t since)
{
	uint64_t mark = __atomic_load_n(&kymo_poll_cost_marked, __ATOMIC_RELAXED);

	if (mark == KY_RSEQ_NO_MARK)
		drop_mark();
	if (own.mark)
		__atomic_store_n(own.mark, mark, __ATOMIC_RELAXED);
	own.marked_ticks = ticks_now();
	if (own.marked_ticks - since < ticks_of(OWN_NS_MAX))
		own.marked_ticks = since;
}

/* No thread may be killed for a call that the program's own filter forbids. */
static bool may_call(void)
{
	return !__atomic_load_n(&is_granted_outside, __ATOMIC_RELAXED) ||
	       __atomic_load_n(&kymo_control.may_call, __ATOMIC_RELAXED);
}

bool ky_poll_cost_may_ask(void)
{
	uint64_t since = ticks_now() - __atomic_load_n(&started_ticks, __ATOMIC_RELAXED);

	return may_call() || (__atomic_load_n(&is_waiting, __ATOMIC_RELAXED) &&
			      since < __atomic_load_n(&ticks_per_second, __ATOMIC_RELAXED));
}

static bool is_over(void)
{
	return __atomic_load_n(&ky_engine.is_confined, __ATOMIC_RELAXED) ||
	       !__atomic_load_n(&ky_engine.pool->is_alive, __ATOMIC_ACQUIRE);
}

static bool is_off(void)
{
	return is_over() || !may_call();
}

/* From here on nothing is read, in no thread. */
static void end_all(void)
{
	__atomic_store_n(&kymo_poll_cost_ticks_min, UINT64_MAX, __ATOMIC_RELAXED);
	__atomic_store_n(&kymo_poll_cost_marked, 0, __ATOMIC_RELAXED);
	kymo_poll_cost_self.mark = &no_mark;
}

static void describe(void)
{
	const char *text = ky_rseq_refusal();

	if (__atomic_exchange_n(&is_described, 1, __ATOMIC_RELAXED))
		return;
	(void)kymo_metadata_set("poll_cost.mark", text ? text : "rseq");
}

static void begin_thread(void)
{
	own.recording = __atomic_load_n(&recording, __ATOMIC_RELAXED);
	own.base.ticks = 0;
	own.rest_ns = REST_NS_MIN;
	own.mark = ky_rseq_mark();
	if (own.mark)
		kymo_poll_cost_self.mark = own.mark;
	ky_sched_file_close(&own.file);
	ky_sched_file_open(&own.file);
	describe();
}

/* A reading that no long poll needed makes the next one rarer. */
static void read_base(uint64_t ticks)
{
	if (own.base.ticks && ticks - own.base.ticks < ticks_of(own.rest_ns))
		return;
	if (own.was_needed)
		own.rest_ns = REST_NS_MIN;
	else if (own.rest_ns < REST_NS_MAX)
		own.rest_ns *= 2;
	own.was_needed = false;
	(void)take(&own.base);
}

void kymo_poll_cost_look(uint64_t ticks, uint32_t depth)
{
	int err = errno;

	/* Inside another poll the mark is that one's; a thread without state has no end. */
	if (depth > 1 || !ticks || !ky_thread_is_state(kymo_thread_self))
		return;
	if (!__atomic_load_n(&kymo_poll_cost_marked, __ATOMIC_RELAXED)) {
		kymo_poll_cost_self.mark = &no_mark;
		return;
	}
	if (is_over() || (!may_call() && !__atomic_load_n(&is_waiting, __ATOMIC_RELAXED))) {
		end_all();
	} else if (may_call() && __atomic_exchange_n(&is_waiting, 0, __ATOMIC_RELAXED)) {
		__atomic_store_n(&kymo_poll_cost_marked, ky_rseq_open(true), __ATOMIC_RELEASE);
	} else if (may_call()) {
		if (own.recording != __atomic_load_n(&recording, __ATOMIC_RELAXED))
			begin_thread();
		/* First: a switch from here on clears it. */
		set_mark(ticks);
		read_base(ticks);
	}
	errno = err;
}

/* ---- a long poll ---- */

/* Since when the thread is known to have been on CPU at the poll's begin; of the time since the
 * base the rest is not known. */
static uint64_t gap_ns(uint64_t begin)
{
	uint64_t known = own.mark && own.marked_ticks < begin ? own.marked_ticks : begin;

	return known > own.base.ticks ? ns_of(known - own.base.ticks) : 0;
}

static uint64_t grown(uint64_t now, uint64_t before, uint64_t most)
{
	uint64_t by = now > before ? now - before : 0;

	return by < most ? by : most;
}

static bool has_switched(const struct reading *now)
{
	return now->voluntary != own.base.voluntary || now->involuntary != own.base.involuntary;
}

/* Was it on CPU from begin to end? Where the kernel counted a switch and the mark stands, marks are
 * not to be trusted. */
static bool was_on_cpu(uint64_t begin, const struct reading *now)
{
	bool stands = own.mark && own.marked_ticks <= begin &&
		      __atomic_load_n(own.mark, __ATOMIC_RELAXED) ==
			      __atomic_load_n(&kymo_poll_cost_marked, __ATOMIC_RELAXED);

	if (stands && own.base.is_whole && own.base.ticks >= own.marked_ticks &&
	    has_switched(now)) {
		ky_rseq_refuse("rseq does not show switches here");
		__atomic_store_n(&kymo_poll_cost_marked, KY_RSEQ_NO_MARK, __ATOMIC_RELAXED);
		drop_mark();
		(void)kymo_metadata_set("poll_cost.mark", ky_rseq_refusal());
		return false;
	}
	return stands;
}

static void write_counts(uint64_t begin, const struct reading *now, uint64_t counts)
{
	const struct reading *base = &own.base;
	uint64_t by = kymo_poll_cost_self.counts - counts;
	uint64_t nested = by >> 32, wakes = by & UINT32_MAX;
	uint64_t age_us = begin > base->ticks ? ns_of(begin - base->ticks) / 1000 : 0;

	kymo_emit_ungated(KYMO_RECORD_POLL_COUNTS, nested < 0xffff ? (uint32_t)nested : 0xffff, 3,
			  grown(now->major, base->major, UINT32_MAX) << 32 |
				  grown(now->minor, base->minor, UINT32_MAX),
			  grown(now->involuntary, base->involuntary, UINT32_MAX) << 32 |
				  grown(now->voluntary, base->voluntary, UINT32_MAX),
			  (age_us < UINT32_MAX ? age_us : UINT32_MAX) << 32 | wakes);
}

/* What lies between the two readings and not in the poll, or in the poll and not between them. */
struct outside {
	uint64_t cpu_plus_ns, cpu_less_ns, delay_plus_ns, delay_less_ns;
};

/* Beside the poll the thread does not block: what took longer than our own instructions, it was
 * runnable. */
static struct outside outside_of(uint64_t begin, uint64_t end, uint64_t gap,
				 const struct reading *now)
{
	uint64_t lead_ns = own.base.ticks > begin ? ns_of(own.base.ticks - begin) : 0;
	uint64_t tail_ns = now->ticks > end ? ns_of(now->ticks - end) : 0;
	struct outside outside = {0};

	if (lead_ns > OWN_NS_MAX)
		outside.delay_plus_ns = lead_ns;
	else
		outside.cpu_plus_ns = lead_ns;
	if (tail_ns > OWN_NS_MAX)
		outside.delay_less_ns = tail_ns;
	else
		outside.cpu_less_ns = tail_ns;
	if (begin > own.base.ticks)
		outside.cpu_less_ns += ns_of(begin - own.base.ticks) - gap;
	return outside;
}

static void write_cost(uint64_t begin, uint64_t end, const struct reading *now)
{
	const struct reading *base = &own.base;
	uint64_t wall_ns = ns_of(end - begin), cpu_ns, delay_ns = 0, gap = gap_ns(begin);
	struct outside outside = outside_of(begin, end, gap, now);
	uint32_t flags = 0;

	if (was_on_cpu(begin, now)) {
		kymo_emit_ungated(KYMO_RECORD_POLL_COST, KYMO_POLL_COST_ON_CPU, 3, end - begin, 0,
				  0);
		return;
	}
	own.was_needed = true;
	cpu_ns = grown(now->cpu_ns + outside.cpu_plus_ns, base->cpu_ns + outside.cpu_less_ns,
		       wall_ns);
	if (now->voluntary == base->voluntary) {
		flags = KYMO_POLL_COST_HAS_DELAY; /* it never blocked */
		delay_ns = wall_ns - cpu_ns;
	} else if (now->has_delay && base->has_delay) {
		flags = KYMO_POLL_COST_HAS_DELAY;
		delay_ns = grown(now->delay_ns + outside.delay_plus_ns,
				 base->delay_ns + outside.delay_less_ns, wall_ns - cpu_ns);
	}
	kymo_emit_ungated(KYMO_RECORD_POLL_COST, flags, 3, cpu_ns, delay_ns, gap);
}

void kymo_poll_cost_write(uint64_t begin, uint64_t end, uint64_t counts, uint32_t depth)
{
	struct reading now;
	int err = errno;

	/* A base within the poll is of its begin. */
	if (depth > 1 || !begin || end <= begin || !own.base.ticks || own.base.ticks >= end ||
	    is_off())
		return;
	if (take(&now)) {
		write_counts(begin, &now, counts);
		write_cost(begin, end, &now);
		own.base = now;
		set_mark(now.ticks);
	}
	errno = err;
}

/* ---- its life ---- */

void ky_poll_cost_start(const struct ky_clock *clock, bool is_granted)
{
	uint64_t mark = KY_RSEQ_NO_MARK;

	__atomic_store_n(&started_ticks, ticks_now(), __ATOMIC_RELAXED);
	__atomic_store_n(&ticks_per_second, clock->ticks_per_second, __ATOMIC_RELAXED);
	__atomic_store_n(&is_granted_outside, is_granted, __ATOMIC_RELAXED);
	__atomic_store_n(&is_waiting, is_granted, __ATOMIC_RELAXED);
	if (!is_granted)
		mark = ky_rseq_open(!__atomic_load_n(&ky_engine.is_confined, __ATOMIC_RELAXED));
	if (clock->is_os || !clock->ticks_per_second ||
	    __atomic_load_n(&ky_engine.is_confined, __ATOMIC_RELAXED)) {
		ky_poll_cost_stop();
		return;
	}
	__atomic_store_n(&is_described, 0, __ATOMIC_RELAXED);
	__atomic_fetch_add(&recording, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&kymo_poll_cost_marked, mark, __ATOMIC_RELEASE);
	__atomic_store_n(&kymo_poll_cost_ticks_min, ticks_of(KYMO_POLL_COST_NS_MIN),
			 __ATOMIC_RELEASE);
}

void ky_poll_cost_stop(void)
{
	__atomic_store_n(&kymo_poll_cost_ticks_min, UINT64_MAX, __ATOMIC_RELAXED);
	__atomic_store_n(&kymo_poll_cost_marked, 0, __ATOMIC_RELAXED);
	ky_sched_file_close_all();
}

void ky_poll_cost_thread_end(void)
{
	/* What the thread does after this may begin polls. */
	kymo_poll_cost_self.mark = &no_mark;
	ky_sched_file_close(&own.file);
	memset(&own, 0, sizeof(own));
}

void ky_poll_cost_fork_child(void)
{
	ky_poll_cost_stop();
	kymo_poll_cost_self.mark = &no_mark;
	ky_sched_file_fork_child();
	memset(&own, 0, sizeof(own));
}
