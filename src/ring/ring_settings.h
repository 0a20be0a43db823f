/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_settings.h - what can be changed in a process that records, as KEY=VALUE: gates, thresholds,
 * throttles, mode.
 *
 *   poll wake park spawn driver blocking waker_clone mark custom
 *   span places offcpu alloc offcpu.stacks alloc.stacks           on | off
 *   poll.threshold wake.threshold blocking.threshold
 *   span.threshold                                                1ms ... | off | default
 *   poll.throttle wake.throttle park.throttle driver.throttle blocking.throttle mark.throttle
 *   custom.throttle span.throttle                                 1000/s | off | default
 *   alloc.bytes                                                    512K ... | default
 *   recording                                                      on | off: all of it at once
 *   mode                                                           stream | flight | default
 *   sampling                                                       99 | off | default
 *   resources                                                      1s ... | off | default
 *
 * Everything is checked before anything is written.     Threads: owner.
 */
#ifndef KY_RING_RING_SETTINGS_H
#define KY_RING_RING_SETTINGS_H

#include <ring/ring_finder.h>

#define KY_SETTING_SAMPLE_HZ_MAX 1000u

#define KY_SETTING_TEXT_BYTES 48u
#define KY_SETTINGS_MAX 40u

struct ky_setting; /* one of the keys */

struct ky_setting_change {
	const struct ky_setting *setting;
	uint64_t value;  /* as it shall be */
	uint64_t before; /* as it was; set by apply and read */
};

struct ky_setting_changes {
	struct ky_setting_change changes[KY_SETTINGS_MAX];
	size_t count;
	bool is_unfinished; /* read: a writer is at work, or was stopped or killed meanwhile */
};

bool ky_setting_is_gate(const struct ky_setting *setting);
const char *ky_setting_name(const struct ky_setting *setting);

/* As ky_settings_parse() takes it: "on", "1ms", "1000/s", "flight", ... Returns text
 * (KY_SETTING_TEXT_BYTES). */
const char *ky_setting_text(char *text, const struct ky_setting *setting, uint64_t value);

/* Adds one KEY=VALUE. Returns 0; -EINVAL with a sentence in why (KY_FOUND_WHY_BYTES). */
int ky_settings_parse(struct ky_setting_changes *out, const char *text, char *why);

/* Writes them all; before = what stood there. The ring is open for writing; inside
 * ky_ring_guarded(). The process that drains by itself is woken. Returns 0. */
int ky_settings_apply(struct ky_open_ring *ring, struct ky_setting_changes *changes);

/* All keys with their value in `before`. Inside ky_ring_guarded() where it is a ring's own page. */
void ky_settings_read(const struct ky_ring_control *control, struct ky_setting_changes *out);

/* "99", "off" (0). Returns false for anything else, and beyond 1,000. */
bool ky_setting_rate(const char *text, uint32_t *out);
/* "512K", "off" (0). Returns false for anything else, and beyond what there can be. */
bool ky_setting_alloc(const char *text, uint64_t *out);
/* "1s" to "1h" as milliseconds, "off" (0). Returns false for anything else. */
bool ky_setting_interval(const char *text, uint32_t *out_ms);

#endif
