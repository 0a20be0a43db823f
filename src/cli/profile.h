/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* profile.h - what shall be recorded, as a TOML file: kymo-profile(5). Three come with the program:
 * default, profile, everything.
 *
 * Errors:   name file, line, key and what is allowed; nothing of a wrong file counts.
 * Threads:  owner.
 */
#ifndef KY_CLI_PROFILE_H
#define KY_CLI_PROFILE_H

#include <drain/drain.h>
#include <watch/rule.h>
#include <stddef.h>
#include <stdint.h>

#define KY_PROFILE_SETTINGS_MAX 32u
#define KY_PROFILE_SETTING_BYTES 64u
#define KY_PROFILE_WHY_BYTES 512u

struct ky_profile {
	char name[256];                  /* of the profile, or its file */
	struct ky_retain_policy retain;  /* thresholds, throttles */
	uint32_t gates_set, gates_clear; /* enum kymo_gate */
	uint64_t ring_bytes;             /* 0: not said */
	uint32_t sample_hz;              /* 0: off */
	bool has_sample_hz;
	uint64_t alloc_bytes; /* one of so many allocated bytes is sampled; 0: not said, or off */
	uint32_t resource_ms; /* 0: off */
	bool has_resource_ms;
	struct ky_rule rules[KY_RULES_MAX]; /* triggers */
	size_t rule_count;
	/* The same as gates and retain, as KEY=VALUE of `kymo set`, for a process that runs. */
	char settings[KY_PROFILE_SETTINGS_MAX][KY_PROFILE_SETTING_BYTES];
	size_t setting_count;
};

/* name: one of the three, else a file (a name with a '/' or a '.' is always a file). Returns 0;
 * -EINVAL, -ENOENT or another -errno with a sentence in why (KY_PROFILE_WHY_BYTES). */
int ky_profile_load(struct ky_profile *out, const char *name, char *why);

/* The same from text; file: how sentences call it. */
int ky_profile_parse(struct ky_profile *out, const char *file, const char *text, size_t text_bytes,
		     char *why);

/* The profiles that come with the program (builtin_profiles.c, made from share/kymo/profiles). */
struct ky_builtin_profile {
	const char *name, *text;
};
extern const struct ky_builtin_profile ky_builtin_profiles[];
extern const size_t ky_builtin_profile_count;

#endif
