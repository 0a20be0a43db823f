/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <send/web_identity.h>

#include <errno.h>
#include <fcntl.h>
#include <send/sigv4.h>
#include <send/sts_form.h>
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

int ky_web_identity_ask(struct ky_http_client *http, const struct ky_web_identity *identity,
			struct ky_http_answer *answer, char *why)
{
	static const char *const form_type = "Content-Type: application/x-www-form-urlencoded";
	const char *session = identity->session;
	char url[320];
	struct ky_buf form;
	int err;

	ky_sts_form_url(url, sizeof(url), identity->endpoint, identity->region);
	ky_buf_init(&form, 0);
	(void)ky_buf_reserve(&form,
			     FORM_BYTES); /* never moved: that would leave the token behind */
	ky_sts_form_add(&form, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=",
			identity->role);
	ky_sts_form_add(&form, "&RoleSessionName=", session && session[0] ? session : "kymo");
	ky_sts_form_add(&form, "&WebIdentityToken=", "");
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
			err = ky_sts_form_judge(answer, "AssumeRoleWithWebIdentity", url, why);
	}
	if (form.bytes)
		explicit_bzero(form.bytes, form.capacity);
	ky_buf_release(&form);
	return err;
}
