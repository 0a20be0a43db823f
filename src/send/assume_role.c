/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <send/assume_role.h>

#include <base/alloc.h>
#include <base/now.h>
#include <errno.h>
#include <send/sigv4.h>
#include <send/sts_form.h>
#include <stdio.h>
#include <string.h>

#define TOTAL_MS 10000u
#define LINE_BYTES 4400u /* the longest is a token */
#define HEADERS 6u
#define FORM_TYPE "application/x-www-form-urlencoded"

static void make_form(struct ky_buf *form, const struct ky_assume_role *role)
{
	ky_buf_init(form, 0);
	ky_sts_form_add(form, "Action=AssumeRole&Version=2011-06-15&RoleArn=", role->role);
	ky_sts_form_add(form, "&RoleSessionName=", role->session[0] ? role->session : "kymo");
	if (role->external_id[0])
		ky_sts_form_add(form, "&ExternalId=", role->external_id);
}

/* What is signed, and the same as lines. */
struct role_request {
	char date[KY_SIGV4_DATE_BYTES], sha[KY_SHA256_HEX_BYTES], host[256];
	struct ky_sigv4_pair pairs[HEADERS];
	char lines[HEADERS][LINE_BYTES];
	const char *texts[HEADERS];
};

/* Returns how many lines there are; -ENOMEM. */
static int sign(struct role_request *request, const struct ky_assume_role *role, const char *url,
		const struct ky_buf *form)
{
	const struct ky_sigv4_key key = {role->access_key, role->secret_key, role->region, "sts"};
	const char *host = strstr(url, "://") ? strstr(url, "://") + 3 : url;
	const char *path = strchr(host, '/');
	struct ky_sigv4_request what = {.method = "POST",
					.path = path ? path : "/",
					.headers = request->pairs,
					.payload = request->sha,
					.date = request->date};
	struct ky_buf authorization;
	size_t count = 0;
	int err;

	ky_sigv4_date(request->date, ky_now_ns(CLOCK_REALTIME));
	ky_sigv4_sha256(request->sha, form->bytes, form->used);
	(void)snprintf(request->host, sizeof(request->host), "%.*s", (int)strcspn(host, "/"), host);
	request->pairs[count++] = (struct ky_sigv4_pair){"content-type", FORM_TYPE};
	request->pairs[count++] = (struct ky_sigv4_pair){"host", request->host};
	request->pairs[count++] = (struct ky_sigv4_pair){"x-amz-content-sha256", request->sha};
	request->pairs[count++] = (struct ky_sigv4_pair){"x-amz-date", request->date};
	if (role->token[0])
		request->pairs[count++] = (struct ky_sigv4_pair){"x-amz-security-token",
								 role->token};
	what.header_count = count;
	ky_buf_init(&authorization, 0);
	err = ky_sigv4_sign(&authorization, &what, &key);
	(void)ky_buf_append(&authorization, "", 1);
	err = err ? err : authorization.failed;
	for (size_t i = 0; !err && i <= count; i++) {
		(void)snprintf(request->lines[i], LINE_BYTES, "%s: %s",
			       i < count ? request->pairs[i].name : "authorization",
			       i < count ? request->pairs[i].value :
					   (const char *)authorization.bytes);
		request->texts[i] = request->lines[i];
	}
	ky_buf_release(&authorization);
	return err ? err : (int)count + 1;
}

int ky_assume_role_ask(struct ky_http_client *http, const struct ky_assume_role *role,
		       struct ky_http_answer *answer, char *why)
{
	struct role_request *request = ky_alloc(sizeof(*request));
	struct ky_buf form;
	char url[320];
	int result;

	if (!request)
		return -ENOMEM;
	ky_sts_form_url(url, sizeof(url), role->endpoint, role->region);
	make_form(&form, role);
	result = form.failed ? form.failed : sign(request, role, url, &form);
	if (result > 0) {
		result = ky_http_client_do(
			http,
			&(const struct ky_http_request){.method = "POST",
							.url = url,
							.headers = request->texts,
							.header_count = (size_t)result,
							.body_fd = -1,
							.body = form.bytes,
							.body_bytes = form.used,
							.total_ms_max = TOTAL_MS},
			answer);
		result = result ? result : ky_sts_form_judge(answer, "AssumeRole", url, why);
	}
	explicit_bzero(request, sizeof(*request));
	ky_free(request);
	ky_buf_release(&form);
	return result;
}
