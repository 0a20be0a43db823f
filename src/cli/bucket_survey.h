/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* bucket_survey.h - what `kymo info` says of a bucket: its processes, from names and indexes alone.
 *
 * A row is a run of one process. Of each segment its last bytes are read; what has no index there
 * (dial9's gzip, a raw or torn file) has size and time of its name alone, and counts as such.
 * Threads: owner.
 */
#ifndef KY_CLI_BUCKET_SURVEY_H
#define KY_CLI_BUCKET_SURVEY_H

#include <cli/bucket_input.h>

/* Returns an exit code; trouble has been said. */
int ky_bucket_survey(const struct ky_input *input, const struct ky_time_range *range, bool is_json);

#endif
