/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <send/web_identity.h>

#include <errno.h>
#include <fcntl.h>
#include <send/answer.h>
#include <send/aws_keys.h>
#include <send/sigv4.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TOKEN_BYTES 20001u /* STS takes 20,000 */
#define FORM_BYTES (3 * TOKEN_BYTES + 2048)
#define TOTAL_MS 10000u

/* Appends the token, encoded. -errno: it cannot be read; -EINVAL: it is empty or too long. */
static int append_token(struct ky_buf *form, const char *path)
{
	struct ky_buf token;
	int fd = open(path, O_RDONLY | O_CLOEXEC), err = fd < 0 ? -errno : 0;
	ssize_t got = 0;

	ky_buf_init(&token, 0);
	if (!err)
		err = ky_buf_reserve(&token, TOKEN_BYTES + 1);
	if (!err)
		got = read(fd, token.bytes, TOKEN_BYTES);
	if (fd >= 0)
		close(fd);
	if (!err && got < 0)
		err = -errno;
	if (!err) {
		token.bytes[got] = '\0';
		token.bytes[strcspn((const char *)token.bytes, "\r\n")] = '\0';
		err = !token.bytes[0] || (size_t)got >= TOKEN_BYTES ? -EINVAL : 0;
	}
	if (!err)
		ky_sigv4_encode(form, (const char *)token.bytes, false);
	if (token.bytes)
		explicit_bzero(token.bytes, token.capacity);
	ky_buf_release(&token);
	return err;
}

static void append_field(struct ky_buf *form, const char *name, const char *value)
{
	(void)ky_buf_append(form, name, strlen(name));
	ky_sigv4_encode(form, value, false);
}

static void endpoint_of(const struct ky_web_identity *identity, char *out, size_t capacity)
{
	if (identity->endpoint && identity->endpoint[0])
		snprintf(out, capacity, "%s", identity->endpoint);
	else
		snprintf(out, capacity, "https://sts.%s.%s/", identity->region,
			 ky_aws_domain(identity->region));
}

static int judge(const struct ky_http_answer *answer, const char *url, char *why)
{
	char code[64];

	if (answer->status == 200)
		return 0;
	(void)ky_answer_xml(answer->body.bytes, answer->body.used, "Code", code, sizeof(code));
	if (answer->status && code[0])
		snprintf(why, KY_HTTP_ERROR_BYTES,
			 "no credentials: AssumeRoleWithWebIdentity at %.96s: %ld %s", url,
			 answer->status, code);
	else if (answer->status)
		snprintf(why, KY_HTTP_ERROR_BYTES,
			 "no credentials: AssumeRoleWithWebIdentity at %.96s: status %ld", url,
			 answer->status);
	else
		snprintf(why, KY_HTTP_ERROR_BYTES,
			 "no credentials: no answer of %.64s to AssumeRoleWithWebIdentity: %.100s",
			 url, answer->error);
	return -ENOENT;
}

int ky_web_identity_ask(struct ky_http_client *http, const struct ky_web_identity *identity,
			struct ky_http_answer *answer, char *why)
{
	static const char *const form_type = "Content-Type: application/x-www-form-urlencoded";
	const char *session = identity->session;
	char url[320];
	struct ky_buf form;
	int err;

	endpoint_of(identity, url, sizeof(url));
	ky_buf_init(&form, 0);
	(void)ky_buf_reserve(&form,
			     FORM_BYTES); /* never moved: that would leave the token behind */
	append_field(&form, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=",
		     identity->role);
	append_field(&form, "&RoleSessionName=", session && session[0] ? session : "kymo");
	append_field(&form, "&WebIdentityToken=", "");
	err = append_token(&form, identity->token_file);
	if (!err && form.failed)
		err = -ENOMEM;
	if (err && err != -ENOMEM) {
		snprintf(why, KY_HTTP_ERROR_BYTES,
			 "no credentials: the token in %.96s (AWS_WEB_IDENTITY_TOKEN_FILE): %s",
			 identity->token_file,
			 err == -EINVAL ? "it is empty, or over 20,000 bytes" : strerror(-err));
		err = -ENOENT;
	}
	if (!err) {
		const struct ky_http_request request = {.method = "POST",
							.url = url,
							.headers = &form_type,
							.header_count = 1,
							.body_fd = -1,
							.body = form.bytes,
							.body_bytes = form.used,
							.total_ms_max = TOTAL_MS};

		err = ky_http_client_do(http, &request, answer);
		if (!err)
			err = judge(answer, url, why);
	}
	if (form.bytes)
		explicit_bzero(form.bytes, form.capacity);
	ky_buf_release(&form);
	return err;
}
