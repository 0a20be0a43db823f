/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <send/sts_form.h>

#include <errno.h>
#include <send/answer.h>
#include <send/aws_keys.h>
#include <send/sigv4.h>
#include <stdio.h>
#include <string.h>

void ky_sts_form_add(struct ky_buf *form, const char *name, const char *value)
{
	(void)ky_buf_append(form, name, strlen(name));
	ky_sigv4_encode(form, value, false);
}

void ky_sts_form_url(char *out, size_t capacity, const char *endpoint, const char *region)
{
	if (endpoint && endpoint[0])
		(void)snprintf(out, capacity, "%s", endpoint);
	else
		(void)snprintf(out, capacity, "https://sts.%s.%s/", region, ky_aws_domain(region));
}

int ky_sts_form_judge(const struct ky_http_answer *answer, const char *action, const char *url,
		      char *why)
{
	char code[64];

	if (answer->status == 200)
		return 0;
	(void)ky_answer_xml(answer->body.bytes, answer->body.used, "Code", code, sizeof(code));
	if (answer->status && code[0])
		(void)snprintf(why, KY_HTTP_ERROR_BYTES, "no credentials: %s at %.96s: %ld %s",
			       action, url, answer->status, code);
	else if (answer->status)
		(void)snprintf(why, KY_HTTP_ERROR_BYTES, "no credentials: %s at %.96s: status %ld",
			       action, url, answer->status);
	else
		(void)snprintf(why, KY_HTTP_ERROR_BYTES,
			       "no credentials: no answer of %.64s to %s: %.100s", url, action,
			       answer->error);
	return -ENOENT;
}
