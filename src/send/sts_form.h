/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* sts_form.h - what questions to AWS's token service have in common: where it is, a form of fields,
 * and what an answer without keys says.
 *
 * Threads: any.
 */
#ifndef KY_SEND_STS_FORM_H
#define KY_SEND_STS_FORM_H

#include <send/http_client.h>

/* Appends `&NAME=` as given, and the value encoded. */
void ky_sts_form_add(struct ky_buf *form, const char *name, const char *value);

/* endpoint: NULL or "" for AWS's of the region. */
void ky_sts_form_url(char *out, size_t capacity, const char *endpoint, const char *region);

/* Returns 0 for a success; -ENOENT and why (KY_HTTP_ERROR_BYTES). */
int ky_sts_form_judge(const struct ky_http_answer *answer, const char *action, const char *url,
		      char *why);

#endif
