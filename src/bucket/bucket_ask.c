/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <bucket/bucket_ask.h>

#include <errno.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <send/s3_ask.h>
#include <stdio.h>
#include <string.h>

_Static_assert(KY_BUCKET_WHY_BYTES == KY_S3_ASK_WHY_BYTES, "one size of sentences");

int ky_bucket_connect(struct ky_s3_client *client, const char *bucket, char *why)
{
	int err = ky_s3_client_open(client, bucket, why);

	client->is_reading = true;
	if (err == -ENOMEM)
		(void)snprintf(why, KY_BUCKET_WHY_BYTES, "out of memory");
	return err;
}

int ky_bucket_page(struct ky_s3_client *client, const char *prefix, bool is_cut_at_slash,
		   const char *token, struct ky_buf *out, char *why)
{
	struct ky_http_answer answer = {.status = 0};
	struct ky_sigv4_pair query[5];
	struct ky_s3_request request = {.method = "GET",
					.key = "",
					.query = query,
					.body_fd = -1,
					.answer_bytes_max = KY_BUCKET_PAGE_BYTES_MAX};
	int err;

	if (token[0])
		query[request.query_count++] = (struct ky_sigv4_pair){"continuation-token", token};
	if (is_cut_at_slash)
		query[request.query_count++] = (struct ky_sigv4_pair){"delimiter", "/"};
	query[request.query_count++] = (struct ky_sigv4_pair){"encoding-type", "url"};
	query[request.query_count++] = (struct ky_sigv4_pair){"list-type", "2"};
	query[request.query_count++] = (struct ky_sigv4_pair){"prefix", prefix};
	answer.body = *out;
	err = ky_s3_ask(client, &request, &answer, why);
	*out = answer.body;
	if (!err && answer.is_cut) {
		(void)snprintf(why, KY_BUCKET_WHY_BYTES,
			       "bucket %s answers a page of its listing that is longer than %u MiB",
			       client->bucket, KY_BUCKET_PAGE_BYTES_MAX >> 20);
		err = -EIO;
	}
	return err;
}

/* What was asked for lies in the answer. Returns its offset there; -1: it does not. */
static int64_t find_range(const struct ky_http_answer *answer, const struct ky_bucket_part *part)
{
	if (answer->is_cut)
		return -1;
	if (answer->status == 206)
		return answer->body.used == part->count && answer->range_from == part->from ? 0 :
											      -1;
	/* A server without ranges gave the whole. */
	return answer->body.used == part->object_bytes ? (int64_t)part->from : -1;
}

static int say_no_range(const struct ky_s3_client *client, const struct ky_http_answer *answer,
			char *why)
{
	(void)snprintf(
		why, KY_BUCKET_WHY_BYTES,
		answer->status == 200 ?
			"bucket %s gives no ranges of objects, and this one is too large to be "
			"read whole for each" :
			"bucket %s answers with another range than was asked for",
		client->bucket);
	return -EIO;
}

/* What another object of the list does not share. */
static bool is_of_the_object(const struct ky_http_answer *answer)
{
	char code[64];

	(void)ky_s3_client_judge(answer, code);
	return answer->status == 404 || answer->status == 412 ||
	       strcmp(code, "InvalidObjectState") == 0;
}

int ky_bucket_range(struct ky_s3_client *client, const struct ky_bucket_part *part,
		    struct ky_buf *out, char *why)
{
	char range[64];
	struct ky_sigv4_pair headers[2] = {{"range", range}, {"if-match", part->etag}};
	struct ky_http_answer answer = {.status = 0};
	uint64_t whole = part->object_bytes < KY_BUCKET_WHOLE_BYTES_MAX ? part->object_bytes : 0;
	const struct ky_s3_request request = {
		.method = "GET",
		.key = part->key,
		.headers = headers,
		.header_count = part->etag[0] ? 2 : 1,
		.body_fd = -1,
		.answer_bytes_max = whole > part->count ? whole : part->count};
	int64_t at;
	int err;

	if (!part->count)
		return 0;
	(void)snprintf(range, sizeof(range), "bytes=%" PRIu64 "-%" PRIu64, part->from,
		       part->from + part->count - 1);
	ky_buf_init(&answer.body, 0);
	err = ky_s3_ask(client, &request, &answer, why);
	if (err && is_of_the_object(&answer)) {
		(void)snprintf(why, KY_BUCKET_WHY_BYTES,
			       answer.status == 403 ?
				       "it is archived, and has to be restored first" :
				       "it was replaced or deleted while it was read");
		err = -ESTALE;
	}
	at = err ? -1 : find_range(&answer, part);
	if (!err && at < 0)
		err = say_no_range(client, &answer, why);
	if (!err && answer.status != 206 && part->count < part->object_bytes)
		client->gives_no_ranges = true;
	if (!err)
		err = ky_buf_append(out, answer.body.bytes + at, part->count);
	if (err == -ENOMEM || err == KYMO_E_LIMIT)
		(void)snprintf(why, KY_BUCKET_WHY_BYTES, "out of memory");
	ky_buf_release(&answer.body);
	return err;
}
