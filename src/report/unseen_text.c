/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/unseen_text.h>

#include <base/out_text.h>
#include <stdio.h>
#include <string.h>

void ky_unseen_text(struct ky_buf *out, const struct ky_stack_profile *profile,
		    enum ky_stack_kind kind)
{
	for (uint32_t i = 0; i < profile->unseen_count; i++) {
		const struct ky_unseen *unseen = &profile->unseen[i];

		if (unseen->kind != (uint32_t)kind && kind != KY_STACK_KINDS)
			continue;
		ky_out_format(out, "  not seen: %s (", unseen->what);
		ky_out_safe(out, unseen->why, strlen(unseen->why));
		ky_out_format(out, "%s%s\n", unseen->command ? "); this changes it: " : ")",
			      unseen->command ? unseen->command : "");
	}
}

const char *ky_unseen_interval(char *cell, const struct ky_stack_profile *profile)
{
	char low[KY_OUT_CELL_BYTES], high[KY_OUT_CELL_BYTES];
	double from, to;

	cell[0] = '\0';
	ky_stack_profile_off_cpu_interval(profile, &from, &to);
	if (to > from)
		(void)snprintf(cell, KY_UNSEEN_INTERVAL_BYTES, " (95 %%: %s to %s)",
			       ky_out_duration(low, ky_whole(from)),
			       ky_out_duration(high, ky_whole(to)));
	return cell;
}
