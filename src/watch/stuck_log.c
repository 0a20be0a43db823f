/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <watch/stuck_log.h>

#include <stdbool.h>
#include <string.h>

static uint64_t latest_ns(const struct ky_stuck_log *log)
{
	return log->count ? log->notes[log->count - 1].monotonic_ns : 0;
}

/* The poll's log, or the one that nothing was added to for the longest time. */
static struct ky_stuck_log *find(struct ky_stuck_logs *logs, uint32_t thread, uint64_t begin_ticks)
{
	struct ky_stuck_log *oldest = &logs->logs[0];

	for (uint32_t i = 0; i < KY_STUCK_LOGS; i++) {
		struct ky_stuck_log *log = &logs->logs[i];

		if (log->thread == thread && log->begin_ticks == begin_ticks)
			return log;
		if (latest_ns(log) < latest_ns(oldest))
			oldest = log;
	}
	oldest->thread = thread;
	oldest->begin_ticks = begin_ticks;
	oldest->seen = 0;
	oldest->stride = 1;
	oldest->kept = oldest->count = 0;
	return oldest;
}

void ky_stuck_logs_add(struct ky_stuck_logs *logs, uint32_t thread, uint64_t begin_ticks,
		       const struct ky_stuck_note *note)
{
	struct ky_stuck_log *log = find(logs, thread, begin_ticks);
	bool is_kept = log->seen++ % log->stride == 0;

	if (is_kept && log->kept == KY_STUCK_NOTES - 1) {
		for (uint32_t i = 0; 2 * i < log->kept; i++)
			log->notes[i] = log->notes[2 * i];
		log->kept = (log->kept + 1) / 2;
		log->stride *= 2;
		is_kept = (log->seen - 1) % log->stride == 0;
	}
	log->notes[log->kept] = *note;
	log->count = log->kept + 1;
	log->kept += is_kept;
}

/* Inserts a poll's share, spread over its time, among those of the others. */
static size_t merge(const struct ky_stuck_note *from, size_t count, size_t share,
		    struct ky_stuck_note *out, size_t used)
{
	share = count < share ? count : share;
	for (size_t i = 0; i < share; i++) {
		size_t pick = share > 1 ? i * (count - 1) / (share - 1) : count - 1;
		size_t at = used++;

		for (; at && out[at - 1].monotonic_ns > from[pick].monotonic_ns; at--)
			out[at] = out[at - 1];
		out[at] = from[pick];
	}
	return used;
}

static size_t skip_older(const struct ky_stuck_log *log, uint64_t from_ns)
{
	size_t at = 0;

	while (at < log->count && log->notes[at].monotonic_ns < from_ns)
		at++;
	return at;
}

size_t ky_stuck_logs_get(const struct ky_stuck_logs *logs, uint32_t thread, uint64_t begin_ticks,
			 uint64_t from_ns, struct ky_stuck_note *out, size_t max)
{
	size_t wanted = 0, used = 0;

	for (int pass = 0; pass < 2; pass++) {
		for (uint32_t i = 0; i < KY_STUCK_LOGS; i++) {
			const struct ky_stuck_log *log = &logs->logs[i];
			size_t at = skip_older(log, from_ns);

			if (!log->thread || at == log->count ||
			    (thread && (log->thread != thread || log->begin_ticks != begin_ticks)))
				continue;
			if (pass == 0)
				wanted++;
			else
				used = merge(log->notes + at, log->count - at, max / wanted, out,
					     used);
		}
	}
	return used;
}
