/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <send/s3_client.h>

#include <base/alloc.h>
#include <base/now.h>
#include <base/out_text.h>
#include <errno.h>
#include <kymo/base.h>
#include <send/answer.h>
#include <stdio.h>
#include <string.h>

#define SCHEME "s3://"
#define HEADERS_MAX 32u
#define SHA256_OF_NOTHING "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/* ---- s3://BUCKET/PREFIX ---- */

static bool is_bucket(const char *name, size_t count)
{
	if (count < 3 || count > 63 || name[0] == '.' || name[0] == '-' || name[count - 1] == '.')
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!((name[i] >= 'a' && name[i] <= 'z') || (name[i] >= '0' && name[i] <= '9') ||
		      name[i] == '.' || name[i] == '-' || name[i] == '_') ||
		    (name[i] == '.' && name[i + 1] == '.'))
			return false;
	}
	return true;
}

/* Parts of a path that a server would take as something else are refused. */
static bool is_prefix(const char *text)
{
	size_t part = 0;

	for (const char *at = text;; at++) {
		if ((unsigned char)*at < 0x20 && *at)
			return false;
		if (*at && *at != '/') {
			part++;
			continue;
		}
		if (part == 0 || (part == 1 && at[-1] == '.') ||
		    (part == 2 && at[-1] == '.' && at[-2] == '.'))
			return false;
		if (!*at)
			return true;
		part = 0;
	}
}

int ky_s3_place_parse(struct ky_s3_place *place, const char *text, char *why)
{
	const char *bucket = text + sizeof(SCHEME) - 1, *slash;
	size_t count;

	*place = (struct ky_s3_place){.bucket = ""};
	if (strncmp(text, SCHEME, sizeof(SCHEME) - 1) != 0) {
		snprintf(why, KY_HTTP_ERROR_BYTES, "a destination is s3://BUCKET/PREFIX, not '%s'",
			 text);
		return -EINVAL;
	}
	slash = strchr(bucket, '/');
	count = slash ? (size_t)(slash - bucket) : strlen(bucket);
	if (!is_bucket(bucket, count)) {
		snprintf(why, KY_HTTP_ERROR_BYTES,
			 "a bucket's name has 3 to 63 of a-z, 0-9, dot and dash, not '%.*s'",
			 (int)(count < 80 ? count : 80), bucket);
		return -EINVAL;
	}
	memcpy(place->bucket, bucket, count);
	if (!slash || !slash[1])
		return 0;
	slash++;
	count = strlen(slash);
	while (count && slash[count - 1] == '/')
		count--;
	if (count >= sizeof(place->prefix)) {
		snprintf(why, KY_HTTP_ERROR_BYTES, "a prefix has at most %zu bytes, not %zu",
			 sizeof(place->prefix) - 1, count);
		return -EINVAL;
	}
	memcpy(place->prefix, slash, count);
	if (is_prefix(place->prefix))
		return 0;
	snprintf(why, KY_HTTP_ERROR_BYTES,
		 "a prefix has no empty part, no '.' or '..', and no control characters");
	return -EINVAL;
}

/* ---- where it goes ---- */

struct s3_target {
	char scheme[8], host[320], path[1600];
};

static const char *region_of(const struct ky_s3_client *client)
{
	return client->region[0] ? client->region : client->keys.region;
}

static int aim(struct s3_target *target, const struct ky_s3_client *client, const char *key)
{
	const char *endpoint = client->keys.endpoint, *host, *slash;
	bool is_own = endpoint[0] != '\0', has_dot = strchr(client->bucket, '.') != NULL;
	int path_bytes;

	if (!is_own) { /* a certificate for *.s3.REGION has no room for a bucket with dots */
		snprintf(target->scheme, sizeof(target->scheme), "https");
		snprintf(target->host, sizeof(target->host), "%s%ss3.%s.%s",
			 has_dot ? "" : client->bucket, has_dot ? "" : ".", region_of(client),
			 ky_aws_domain(region_of(client)));
		path_bytes = snprintf(target->path, sizeof(target->path), "/%s%s%s",
				      has_dot ? client->bucket : "", has_dot ? "/" : "", key);
		return path_bytes < (int)sizeof(target->path) ? 0 : KYMO_E_LIMIT;
	}
	host = strstr(endpoint, "://");
	if (!host ||
	    (strncmp(endpoint, "http://", 7) != 0 && strncmp(endpoint, "https://", 8) != 0))
		return -EINVAL;
	host += 3;
	slash = strchr(host, '/');
	snprintf(target->scheme, sizeof(target->scheme), "%s",
		 endpoint[4] == 's' ? "https" : "http");
	snprintf(target->host, sizeof(target->host), "%.*s",
		 slash ? (int)(slash - host) : (int)strlen(host), host);
	path_bytes = snprintf(target->path, sizeof(target->path), "%s%s%s/%s", slash ? slash : "/",
			      slash && slash[strlen(slash) - 1] != '/' ? "/" : "", client->bucket,
			      key);
	return path_bytes < (int)sizeof(target->path) ? 0 : KYMO_E_LIMIT;
}

/* ---- one request ---- */

/* What is signed, and the same as lines for libcurl. */
struct signed_headers {
	struct ky_sigv4_pair pairs[HEADERS_MAX];
	size_t count;
	struct ky_buf lines[HEADERS_MAX + 1];
	const char *texts[HEADERS_MAX + 1];
};

static void add(struct signed_headers *headers, const char *name, const char *value)
{
	if (headers->count < HEADERS_MAX)
		headers->pairs[headers->count++] = (struct ky_sigv4_pair){name, value};
}

static int make_line(struct signed_headers *headers, size_t at, const char *name, const char *value)
{
	struct ky_buf *line = &headers->lines[at];

	ky_buf_init(line, 0);
	ky_out_format(line, value[0] ? "%s: %s" : "%s;%s", name, value);
	(void)ky_buf_append(line, "", 1);
	headers->texts[at] = (const char *)line->bytes;
	return line->failed;
}

static int sign(const struct ky_s3_client *client, struct ky_sigv4_request *what,
		struct signed_headers *headers)
{
	const struct ky_sigv4_key key = {client->keys.access_key, client->keys.secret_key,
					 region_of(client), "s3"};
	struct ky_buf authorization;
	int err;

	what->headers = headers->pairs;
	what->header_count = headers->count;
	ky_buf_init(&authorization, 0);
	err = ky_sigv4_sign(&authorization, what, &key);
	(void)ky_buf_append(&authorization, "", 1);
	if (!err)
		err = authorization.failed;
	for (size_t i = 0; !err && i < headers->count; i++)
		err = make_line(headers, i, headers->pairs[i].name, headers->pairs[i].value);
	if (!err)
		err = make_line(headers, headers->count, "authorization",
				(const char *)authorization.bytes);
	ky_buf_release(&authorization);
	return err;
}

static void collect(struct signed_headers *headers, const struct ky_s3_client *client,
		    const struct ky_s3_request *request, const struct ky_sigv4_request *what,
		    const struct s3_target *target)
{
	add(headers, "host", target->host);
	add(headers, "x-amz-date", what->date);
	add(headers, "x-amz-content-sha256", what->payload);
	if (client->keys.token[0])
		add(headers, "x-amz-security-token", client->keys.token);
	if (request->crc32c && strcmp(what->payload, KY_SIGV4_UNSIGNED) == 0)
		add(headers, "x-amz-checksum-crc32c", request->crc32c);
	for (size_t i = 0; i < request->header_count; i++)
		add(headers, request->headers[i].name, request->headers[i].value);
}

/* Too large for a stack. */
struct exchange {
	struct s3_target target;
	struct signed_headers headers;
	struct ky_buf url;
};

static int perform(struct ky_s3_client *client, const struct ky_s3_request *request,
		   struct exchange *exchange, struct ky_http_answer *answer)
{
	struct signed_headers *headers = &exchange->headers;
	const struct s3_target *target = &exchange->target;
	char date[KY_SIGV4_DATE_BYTES];
	struct ky_sigv4_request what = {.method = request->method,
					.path = target->path,
					.query = request->query,
					.query_count = request->query_count,
					.payload = request->sha256,
					.date = date};
	struct ky_buf *url = &exchange->url;
	int err;

	ky_sigv4_date(date, ky_now_ns(CLOCK_REALTIME) + (uint64_t)client->clock_ahead_ns);
	/* TLS guards the bytes on their way, and the CRC those in the server. */
	if (!request->sha256)
		what.payload = SHA256_OF_NOTHING;
	else if (strcmp(target->scheme, "https") == 0)
		what.payload = KY_SIGV4_UNSIGNED;
	collect(headers, client, request, &what, target);
	ky_out_format(url, "%s://%s", target->scheme, target->host);
	err = ky_sigv4_target(url, what.path, what.query, what.query_count);
	(void)ky_buf_append(url, "", 1);
	if (!err)
		err = url->failed;
	if (!err)
		err = sign(client, &what, headers);
	if (err)
		return err;
	return ky_http_client_do(
		client->http,
		&(const struct ky_http_request){.method = request->method,
						.url = (const char *)url->bytes,
						.headers = headers->texts,
						.header_count = headers->count + 1,
						.body_fd = request->body ? -1 : request->body_fd,
						.body = request->body,
						.body_bytes = request->body_bytes,
						.answer_bytes_max = request->answer_bytes_max},
		answer);
}

static void release(struct exchange *exchange)
{
	struct signed_headers *headers = &exchange->headers;

	for (size_t i = 0; i <= headers->count; i++) {
		if (headers->lines[i].bytes)
			explicit_bzero(headers->lines[i].bytes, headers->lines[i].used);
		ky_buf_release(&headers->lines[i]);
	}
	ky_buf_release(&exchange->url);
	ky_free(exchange);
}

int ky_s3_client_do(struct ky_s3_client *client, const struct ky_s3_request *request,
		    struct ky_http_answer *answer)
{
	struct exchange *exchange = ky_alloc(sizeof(*exchange));
	char why[KY_HTTP_ERROR_BYTES];
	int err;

	if (!exchange)
		return -ENOMEM;
	ky_buf_init(&exchange->url, 0);
	if (client->keys.refresh_unix_ns &&
	    ky_now_ns(CLOCK_REALTIME) >= client->keys.refresh_unix_ns)
		(void)ky_aws_keys_read(&client->keys, client->http, why);
	err = aim(&exchange->target, client, request->key);
	if (!err) {
		err = perform(client, request, exchange, answer);
	} else if (err == -EINVAL) {
		answer->status = 0;
		snprintf(answer->error, sizeof(answer->error),
			 "AWS_ENDPOINT_URL has to begin with http:// or https://");
		err = 0;
	}
	release(exchange);
	return err;
}

int ky_s3_client_open(struct ky_s3_client *client, const char *bucket, char *why)
{
	int err;

	*client = (struct ky_s3_client){.http = NULL};
	snprintf(client->bucket, sizeof(client->bucket), "%s", bucket);
	err = ky_http_client_open(&client->http, why);
	if (!err)
		err = ky_aws_keys_read(&client->keys, client->http, why);
	return err;
}

void ky_s3_client_close(struct ky_s3_client *client)
{
	ky_http_client_close(client->http);
	ky_aws_keys_forget(&client->keys);
	client->http = NULL;
}

/* ---- answers ---- */

enum ky_verdict ky_s3_client_judge(const struct ky_http_answer *answer, char *code)
{
	(void)ky_answer_xml(answer->body.bytes, answer->body.used, "Code", code, 64);
	return ky_retry_judge(answer->status, code);
}

static bool is_region(const char *text)
{
	return text[0] && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(text);
}

void ky_s3_client_learn(struct ky_s3_client *client, enum ky_verdict verdict,
			const struct ky_http_answer *answer)
{
	char why[KY_HTTP_ERROR_BYTES], region[64];

	if (verdict == KY_VERDICT_REFRESH)
		(void)ky_aws_keys_read(&client->keys, client->http, why);
	if (verdict == KY_VERDICT_SKEW && answer->date_ns)
		client->clock_ahead_ns = (int64_t)(answer->date_ns - ky_now_ns(CLOCK_REALTIME));
	if (verdict != KY_VERDICT_REDIRECT)
		return;
	if (is_region(answer->region))
		memcpy(client->region, answer->region, sizeof(client->region));
	else if (ky_answer_xml(answer->body.bytes, answer->body.used, "Region", region,
			       sizeof(region)) &&
		 is_region(region))
		memcpy(client->region, region, sizeof(client->region));
}

static const char *advice(const struct ky_s3_client *client, const char *code, long status)
{
	if (strcmp(code, "NoSuchBucket") == 0)
		return "; make the bucket, or name another";
	if (strcmp(code, "AccessDenied") == 0)
		return client->is_reading ? "; these credentials may not read there "
					    "(s3:ListBucket, s3:GetObject)" :
					    "; these credentials may not write there "
					    "(s3:PutObject)";
	if (strcmp(code, "ExpiredToken") == 0 || strcmp(code, "ExpiredTokenException") == 0)
		return "; the credentials have expired";
	if (strcmp(code, "InvalidAccessKeyId") == 0 || strcmp(code, "XAdminUserNotFound") == 0 ||
	    strcmp(code, "SignatureDoesNotMatch") == 0)
		return "; the credentials are not valid there";
	if (strcmp(code, "RequestTimeTooSkewed") == 0)
		return "; this machine's clock is wrong";
	return status >= 300 && status < 400 ?
		       "; it is elsewhere: set AWS_REGION or AWS_ENDPOINT_URL" :
		       "";
}

void ky_s3_client_say(const struct ky_s3_client *client, const struct ky_http_answer *answer,
		      char *out, size_t out_bytes)
{
	char code[64];

	(void)ky_s3_client_judge(answer, code);
	if (!answer->status)
		snprintf(out, out_bytes, "no answer of %s: %s",
			 client->keys.endpoint[0] ? client->keys.endpoint : "S3", answer->error);
	else
		snprintf(out, out_bytes, "bucket %s answers %ld%s%s%s", client->bucket,
			 answer->status, code[0] ? " " : "", code,
			 advice(client, code, answer->status));
}
