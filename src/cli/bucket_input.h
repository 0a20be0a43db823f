/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* bucket_input.h - the traces of a command that lie in a bucket: s3://BUCKET/PREFIX in place of a
 * file, chosen by service, host and time, brought here as files without a name.
 *
 * Returns: each function an exit code; trouble has been said.
 * Threads: owner.
 */
#ifndef KY_CLI_BUCKET_INPUT_H
#define KY_CLI_BUCKET_INPUT_H

#include <bucket/object_list.h>
#include <cli/shared_options.h>
#include <edit/input.h>

#define KY_BUCKET_FETCH_BYTES_MAX (UINT64_C(2) << 30) /* unless --max-fetch says otherwise */

bool ky_bucket_is_path(const char *path);

/* Is an argument of it in a bucket? */
bool ky_bucket_is_input(const struct ky_input *input);

/* For a command that has no use for a time but to choose of a bucket: files are read whole. */
int ky_bucket_range_check(const struct ky_input *input, const struct ky_time_range *range);

/* What the arguments choose of which bucket. range: may be NULL. */
int ky_bucket_query_make(struct ky_bucket_query *query, const struct ky_input *input,
			 const struct ky_time_range *range);
/* Its list; nothing in it is trouble. list: all zeros; release it in any case. */
int ky_bucket_query_list(struct ky_object_list *list, const struct ky_bucket_query *query,
			 const char *name);

/* Brings what is chosen here, and makes it the input's arguments. */
int ky_bucket_input_fetch(struct ky_input *input, const struct ky_time_range *range);

#endif
