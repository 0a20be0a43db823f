/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* switch_sample.h - how times off CPU that the kernel reported lie in the sample area: many
 * of one thread in one sample of kind KY_SAMPLE_SWITCHES, three frames each; one more where the
 * sample has the flag KY_SAMPLE_HAS_WAKER. With KY_SAMPLE_HAS_STACK it has one interval, and after
 * that the program's frames, which KY_SAMPLE_TRUNCATED is about.
 *
 * Sample:  tid; stamp: base of the times, ns; value: T, ns; weight: of the time that was watched;
 *          an interval of length d stands for weight * max(1, T / d) of them.
 * Window:  the same kind, tid 0, without frames: stamp: its end; value: how long was watched;
 *          more: the time that this stands for, which ends there, too; other: records of the kernel
 *          | records it had no room for << 32.
 * Name:    kind KY_SAMPLE_WAKER, what a thread that woke one of ours is called: tid; more: its
 *          process; three frames: 15 bytes of the name, six in each but the last.
 */
#ifndef KY_WIRE_SWITCH_SAMPLE_H
#define KY_WIRE_SWITCH_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>
#include <wire/sample_area.h>

#define KY_SWITCH_FRAMES 3u                          /* of an interval */
#define KY_SWITCH_FRAMES_MAX (KY_SWITCH_FRAMES + 1u) /* with its waker */
#define KY_SWITCHES_MAX (KY_SAMPLE_FRAMES_MAX / KY_SWITCH_FRAMES)
#define KY_WAKER_FRAMES 3u
#define KY_WAKER_NAME_BYTES 16u
#define KY_WAKER_ID_BITS 22u /* no kernel has larger thread ids */
#define KY_WAKER_ID_MAX ((UINT32_C(1) << KY_WAKER_ID_BITS) - 1)
/* Shorter ones are not reported. */
#define KY_SWITCH_NS_MIN UINT64_C(20000)
#define KY_SWITCH_BEGIN_MAX ((UINT64_C(1) << 47) - 1)
#define KY_SWITCH_LENGTH_MAX ((UINT64_C(1) << 42) - 1)
#define KY_SWITCH_PARTS ((UINT64_C(1) << 20) - 1) /* of a length */

enum ky_switch_flags {
	KY_SWITCH_BEGIN_UNSEEN = 1u << 0, /* it began before the window */
	KY_SWITCH_END_UNSEEN = 1u << 1    /* it continued after it */
};

/* Who ended a wait: OffCpuEvent.woken_by. */
enum ky_woken_by {
	KY_WOKEN_UNKNOWN = 0,
	KY_WOKEN_BY_THREAD = 1,
	KY_WOKEN_BY_INTERRUPT = 2
};

struct ky_switch_interval {
	uint64_t begin_ns, end_ns;
	uint8_t reason; /* enum ky_off_cpu */
	uint8_t flags;  /* enum ky_switch_flags */
	/* Of it ready to run, waiting for a CPU: at least, at most. 0 and all: unknown. */
	uint64_t runnable_min_ns, runnable_max_ns;
	/* A thread; 0: one of another pid namespace. */
	uint32_t by_pid, by_tid;
	uint8_t by; /* enum ky_woken_by */
};

/* What ky_switch_dec() makes of so many nanoseconds. Rounded outwards. */
static inline uint64_t ky_switch_parts(uint64_t ns, uint64_t length_ns, bool is_up)
{
	if (ns >= length_ns)
		return KY_SWITCH_PARTS;
	return (ns * KY_SWITCH_PARTS + (is_up ? length_ns - 1 : 0)) / length_ns;
}

/* base_ns: not after its beginning. */
static inline void ky_switch_enc(const struct ky_switch_interval *interval, uint64_t base_ns,
				 uint64_t *frames)
{
	uint64_t begin = interval->begin_ns - base_ns;
	uint64_t length = interval->end_ns - interval->begin_ns;

	frames[0] = begin < KY_SWITCH_BEGIN_MAX ? begin : KY_SWITCH_BEGIN_MAX;
	length = length < KY_SWITCH_LENGTH_MAX ? length : KY_SWITCH_LENGTH_MAX;
	frames[1] = length | (uint64_t)(interval->reason & 7u) << 42 |
		    (uint64_t)(interval->flags & 3u) << 45;
	frames[2] = ky_switch_parts(interval->runnable_min_ns, length, false) |
		    ky_switch_parts(interval->runnable_max_ns, length, true) << 20;
}

/* Whatever stands there: the words are not ours. */
static inline void ky_switch_dec(struct ky_switch_interval *out, uint64_t base_ns,
				 const uint64_t *frames)
{
	uint64_t length = frames[1] & KY_SWITCH_LENGTH_MAX;

	*out = (struct ky_switch_interval){.by = KY_WOKEN_UNKNOWN};
	out->begin_ns = base_ns + (frames[0] & KY_SWITCH_BEGIN_MAX);
	out->end_ns = out->begin_ns + length;
	out->reason = frames[1] >> 42 & 7u;
	out->flags = frames[1] >> 45 & 3u;
	if (out->reason > KY_OFF_CPU_PREEMPTED)
		out->reason = KY_OFF_CPU_UNKNOWN;
	out->runnable_min_ns = (frames[2] & KY_SWITCH_PARTS) * length / KY_SWITCH_PARTS;
	out->runnable_max_ns = (frames[2] >> 20 & KY_SWITCH_PARTS) * length / KY_SWITCH_PARTS;
	if (out->runnable_max_ns < out->runnable_min_ns)
		out->runnable_max_ns = out->runnable_min_ns;
}

/* The fourth frame. */
static inline uint64_t ky_switch_enc_waker(const struct ky_switch_interval *interval)
{
	return (uint64_t)(interval->by_tid & KY_WAKER_ID_MAX) |
	       (uint64_t)(interval->by_pid & KY_WAKER_ID_MAX) << KY_WAKER_ID_BITS |
	       (uint64_t)(interval->by & 3u) << 2 * KY_WAKER_ID_BITS |
	       (uint64_t)(interval->runnable_min_ns == interval->runnable_max_ns) << 46;
}

static inline void ky_switch_dec_waker(struct ky_switch_interval *out, uint64_t frame)
{
	/* Known, and not only by its bounds, which were rounded outwards. */
	if (frame >> 46 & 1)
		out->runnable_min_ns = out->runnable_max_ns;
	out->by = frame >> 2 * KY_WAKER_ID_BITS & 3u;
	if (out->by > KY_WOKEN_BY_INTERRUPT)
		out->by = KY_WOKEN_UNKNOWN;
	if (out->by != KY_WOKEN_BY_THREAD)
		return;
	out->by_tid = frame & KY_WAKER_ID_MAX;
	out->by_pid = frame >> KY_WAKER_ID_BITS & KY_WAKER_ID_MAX;
}

static inline void ky_waker_enc(const char *name, uint64_t *frames)
{
	for (uint32_t i = 0; i < KY_WAKER_FRAMES; i++)
		frames[i] = 0;
	for (uint32_t i = 0; i < KY_WAKER_NAME_BYTES - 1 && name[i]; i++)
		frames[i / 6] |= (uint64_t)(uint8_t)name[i] << i % 6 * 8;
}

/* name: KY_WAKER_NAME_BYTES. */
static inline void ky_waker_dec(char *name, const uint64_t *frames)
{
	for (uint32_t i = 0; i < KY_WAKER_NAME_BYTES - 1; i++)
		name[i] = (char)(frames[i / 6] >> i % 6 * 8 & 0xff);
	name[KY_WAKER_NAME_BYTES - 1] = '\0';
}

#endif
