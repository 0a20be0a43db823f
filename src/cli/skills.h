/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* skills.h - texts for an assistant, each on one kind of question and how kymo answers it, made
 * from share/kymo/skills when kymo is built.
 */
#ifndef KY_CLI_SKILLS_H
#define KY_CLI_SKILLS_H

#include <stddef.h>

struct ky_skill {
	const char *name;
	const char *what; /* one sentence */
	const char *text; /* all of it, that sentence included */
};

extern const struct ky_skill ky_skills[];
extern const size_t ky_skill_count;

#endif
