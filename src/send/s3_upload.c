/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <send/s3_upload.h>

#include <base/alloc.h>
#include <base/buf.h>
#include <base/now.h>
#include <base/out_text.h>
#include <errno.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <send/answer.h>
#include <send/s3_ask.h>
#include <send/s3_body.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define PARTS_MAX 10000u
#define COMPLETE_TRIES 3u
#define ABORT_NS UINT64_C(10000000000)

_Static_assert(KY_S3_UPLOAD_WHY_BYTES == KY_S3_ASK_WHY_BYTES, "one size of sentences");

struct ky_s3_upload {
	struct ky_s3_client client;
	struct ky_s3_place place;
	const char *type;
	struct ky_http_answer answer;
	struct ky_buf part;     /* that is filled */
	struct ky_buf complete; /* the document that names all parts */
	char id[1024];          /* "": no multipart upload was begun */
	char mark[KY_SHA256_HEX_BYTES];
	uint64_t bytes; /* of the parts that were sent */
	uint32_t part_count;
	bool may_replace, is_committed;
	uint32_t is_stopped;   /* atomic */
	uint32_t is_beginning; /* atomic: the answer says what there is to abort */
	int failed;
	char why[KY_S3_ASK_WHY_BYTES];
};

const char *ky_s3_upload_why(const struct ky_s3_upload *upload)
{
	return upload->why;
}

static int fail(struct ky_s3_upload *upload, int err)
{
	if (__atomic_load_n(&upload->is_stopped, __ATOMIC_SEQ_CST))
		err = -ECANCELED;
	if (err == -ENOMEM)
		(void)snprintf(upload->why, sizeof(upload->why), "out of memory");
	upload->failed = err;
	return err;
}

static int ask(struct ky_s3_upload *upload, struct ky_s3_request *request)
{
	request->key = upload->place.prefix;
	return ky_s3_ask(&upload->client, request, &upload->answer, upload->why);
}

/* After trouble with the last request: is the object that stands there this upload's? */
static bool is_there(struct ky_s3_upload *upload, uint64_t bytes)
{
	struct ky_s3_request request = {.method = "HEAD", .body_fd = -1};
	char why[KY_S3_ASK_WHY_BYTES];

	request.key = upload->place.prefix;
	return ky_s3_ask(&upload->client, &request, &upload->answer, why) == 0 &&
	       upload->answer.length == bytes && strcmp(upload->answer.origin, upload->mark) == 0;
}

static int judge_exists(struct ky_s3_upload *upload, int err)
{
	char code[64];

	if (err && ky_s3_client_judge(&upload->answer, code) == KY_VERDICT_EXISTS)
		return -EEXIST;
	return err;
}

/* ---- in parts ---- */

static int begin(struct ky_s3_upload *upload)
{
	const struct ky_sigv4_pair query[] = {{"uploads", ""}};
	const struct ky_sigv4_pair headers[] = {{"content-type", upload->type},
						{"x-amz-checksum-algorithm", "CRC32C"},
						{"x-amz-meta-kymo-origin", upload->mark}};
	struct ky_s3_request request = {.method = "POST",
					.query = query,
					.query_count = 1,
					.headers = headers,
					.header_count = 3,
					.body_fd = -1};
	int err;

	__atomic_store_n(&upload->is_beginning, 1, __ATOMIC_SEQ_CST);
	err = ask(upload, &request);
	__atomic_store_n(&upload->is_beginning, 0, __ATOMIC_SEQ_CST);
	if (err)
		return err;
	ky_out_text(&upload->complete, "<CompleteMultipartUpload>");
	if (ky_answer_xml(upload->answer.body.bytes, upload->answer.body.used, "UploadId",
			  upload->id, sizeof(upload->id)))
		return 0;
	(void)snprintf(upload->why, sizeof(upload->why),
		       "bucket %s begins an upload in parts without saying which",
		       upload->place.bucket);
	return -EIO;
}

static bool is_etag(const char *text)
{
	return text[0] && strspn(text, "0123456789abcdefABCDEF-\"") == strlen(text);
}

static int send_part(struct ky_s3_upload *upload)
{
	char number[16], sha[KY_SHA256_HEX_BYTES], crc[KY_CRC32C_TEXT_BYTES];
	const struct ky_sigv4_pair query[] = {{"partNumber", number}, {"uploadId", upload->id}};
	const struct ky_sigv4_pair headers[] = {{"x-amz-checksum-crc32c", crc}};
	struct ky_s3_request request = {.method = "PUT",
					.query = query,
					.query_count = 2,
					.headers = headers,
					.header_count = 1,
					.body_fd = -1,
					.body = upload->part.bytes,
					.body_bytes = upload->part.used,
					.sha256 = sha};
	int err = upload->id[0] ? 0 : begin(upload);

	if (!err && __atomic_load_n(&upload->is_stopped, __ATOMIC_SEQ_CST))
		err = -ECANCELED;
	if (!err && upload->part_count == PARTS_MAX) {
		(void)snprintf(upload->why, sizeof(upload->why), "it is larger than %u GB",
			       PARTS_MAX / 1000 * (KY_S3_PART_BYTES >> 20));
		err = KYMO_E_LIMIT;
	}
	if (err)
		return err;
	(void)snprintf(number, sizeof(number), "%" PRIu32, ++upload->part_count);
	ky_sigv4_sha256(sha, upload->part.bytes, upload->part.used);
	ky_crc32c_text(crc, ky_crc32c(0, upload->part.bytes, upload->part.used));
	err = ask(upload, &request);
	if (!err && !is_etag(upload->answer.etag)) {
		(void)snprintf(upload->why, sizeof(upload->why),
			       "bucket %s takes a part without an ETag that can be read",
			       upload->place.bucket);
		err = -EIO;
	}
	if (err)
		return err;
	ky_out_format(&upload->complete,
		      "<Part><ChecksumCRC32C>%s</ChecksumCRC32C><ETag>%s</ETag>"
		      "<PartNumber>%s</PartNumber></Part>",
		      crc, upload->answer.etag, number);
	upload->bytes += upload->part.used;
	ky_buf_clear(&upload->part);
	return upload->complete.failed;
}

/* A server may answer 200 at once, and say in the body that it came to nothing. */
static int complete(struct ky_s3_upload *upload)
{
	char sha[KY_SHA256_HEX_BYTES], code[64];
	const struct ky_sigv4_pair query[] = {{"uploadId", upload->id}};
	const struct ky_sigv4_pair headers[] = {{"if-none-match", "*"}};
	struct ky_s3_request request = {.method = "POST",
					.query = query,
					.query_count = 1,
					.headers = headers,
					.header_count = upload->may_replace ? 0 : 1,
					.body_fd = -1,
					.sha256 = sha};
	int err = 0;

	ky_out_text(&upload->complete, "</CompleteMultipartUpload>");
	if (upload->complete.failed)
		return upload->complete.failed;
	ky_sigv4_sha256(sha, upload->complete.bytes, upload->complete.used);
	request.body = upload->complete.bytes;
	request.body_bytes = upload->complete.used;
	for (uint32_t i = 0; i < COMPLETE_TRIES; i++) {
		err = ask(upload, &request);
		if (err || !ky_answer_xml(upload->answer.body.bytes, upload->answer.body.used,
					  "Code", code, sizeof(code)))
			break;
		(void)snprintf(upload->why, sizeof(upload->why),
			       "bucket %s cannot join the parts: %s", upload->place.bucket, code);
		err = -EIO;
	}
	return err ? judge_exists(upload, err) : 0;
}

static void abort_parts(struct ky_s3_upload *upload, char *why)
{
	const struct ky_sigv4_pair query[] = {{"uploadId", upload->id}};
	struct ky_s3_request request = {
		.method = "DELETE", .query = query, .query_count = 1, .body_fd = -1};
	char sentence[KY_S3_ASK_WHY_BYTES];

	/* It is short, and comes also when the user has stopped the rest. */
	ky_http_client_stop_at(upload->client.http, ky_now_ns(CLOCK_MONOTONIC) + ABORT_NS);
	request.key = upload->place.prefix;
	if (ky_s3_ask(&upload->client, &request, &upload->answer, sentence) == 0 ||
	    upload->answer.status == 404)
		return;
	(void)snprintf(why, KY_S3_UPLOAD_WHY_BYTES,
		       "parts of it stay in bucket %s, which does not drop them: %.300s",
		       upload->place.bucket, sentence);
}

/* ---- at once ---- */

static int put(struct ky_s3_upload *upload)
{
	char sha[KY_SHA256_HEX_BYTES], crc[KY_CRC32C_TEXT_BYTES];
	const struct ky_sigv4_pair headers[] = {{"content-type", upload->type},
						{"x-amz-meta-kymo-origin", upload->mark},
						{"if-none-match", "*"}};
	struct ky_s3_request request = {.method = "PUT",
					.headers = headers,
					.header_count = upload->may_replace ? 2 : 3,
					.body_fd = -1,
					.body = upload->part.bytes,
					.body_bytes = upload->part.used,
					.sha256 = sha,
					.crc32c = crc};

	ky_sigv4_sha256(sha, upload->part.bytes, upload->part.used);
	ky_crc32c_text(crc, ky_crc32c(0, upload->part.bytes, upload->part.used));
	return judge_exists(upload, ask(upload, &request));
}

/* ---- the object ---- */

int ky_s3_upload_write(void *ctx, const uint8_t *bytes, size_t count)
{
	struct ky_s3_upload *upload = ctx;
	int err = upload->failed;

	if (!err && __atomic_load_n(&upload->is_stopped, __ATOMIC_SEQ_CST))
		err = -ECANCELED;
	while (!err && count) {
		size_t room = KY_S3_PART_BYTES - upload->part.used;
		size_t taken = count < room ? count : room;

		err = ky_buf_append(&upload->part, bytes, taken);
		bytes += taken;
		count -= taken;
		/* A part that is full waits for a byte behind it: the last one may be any size. */
		if (!err && count)
			err = send_part(upload);
	}
	return err && err != upload->failed ? fail(upload, err) : err;
}

int ky_s3_upload_commit(struct ky_s3_upload *upload)
{
	uint64_t bytes = upload->bytes + upload->part.used;
	int err = upload->failed;

	if (err)
		return err;
	if (!upload->id[0])
		err = put(upload);
	else
		err = send_part(upload);
	if (!err && upload->id[0])
		err = complete(upload);
	if (err && err != -ENOMEM && is_there(upload, bytes))
		err = 0;
	upload->is_committed = !err;
	return err ? fail(upload, err) : 0;
}

static void make_mark(struct ky_s3_upload *upload)
{
	uint8_t bytes[32] = {0};

	if (getrandom(bytes, sizeof(bytes), GRND_NONBLOCK) != (ssize_t)sizeof(bytes)) {
		uint64_t now_ns = ky_now_ns(CLOCK_REALTIME);

		memcpy(bytes, &now_ns, sizeof(now_ns));
	}
	ky_sigv4_hex(upload->mark, bytes, sizeof(bytes));
}

/* A name that is taken is said before an hour of work, and again at the end, by the server. */
static int check_name(struct ky_s3_upload *upload)
{
	struct ky_s3_request request = {.method = "HEAD", .body_fd = -1};
	int err = upload->may_replace ? 0 : ask(upload, &request);

	if (upload->may_replace || (err && upload->answer.status == 404))
		return 0;
	/* Who may only write is not told what is there. */
	return !err ? -EEXIST : upload->answer.status == 403 ? 0 : err;
}

int ky_s3_upload_open(struct ky_s3_upload **out, const char *url, const char *type,
		      bool may_replace, char *why)
{
	struct ky_s3_upload *upload = ky_alloc(sizeof(*upload));
	int err;

	*out = NULL;
	(void)snprintf(why, KY_S3_UPLOAD_WHY_BYTES, "out of memory");
	if (!upload)
		return -ENOMEM;
	upload->type = type;
	upload->may_replace = may_replace;
	ky_buf_init(&upload->part, KY_S3_PART_BYTES);
	ky_buf_init(&upload->complete, 0);
	ky_buf_init(&upload->answer.body, 0);
	make_mark(upload);
	err = ky_s3_place_parse(&upload->place, url, why);
	if (!err && !upload->place.prefix[0]) {
		(void)snprintf(why, KY_S3_UPLOAD_WHY_BYTES, "'%s' names a bucket, and no object",
			       url);
		err = -EINVAL;
	}
	if (!err)
		err = ky_s3_client_open(&upload->client, upload->place.bucket, why);
	if (!err && (err = check_name(upload)))
		(void)snprintf(why, KY_S3_UPLOAD_WHY_BYTES, "%s", upload->why);
	if (err) {
		ky_s3_upload_close(upload, why);
		return err;
	}
	*out = upload;
	return 0;
}

void ky_s3_upload_stop(struct ky_s3_upload *upload)
{
	__atomic_store_n(&upload->is_stopped, 1, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&upload->is_beginning, __ATOMIC_SEQ_CST))
		ky_http_client_stop_at(upload->client.http, 0);
}

void ky_s3_upload_close(struct ky_s3_upload *upload, char *why)
{
	if (!upload)
		return;
	if (upload->id[0] && !upload->is_committed)
		abort_parts(upload, why);
	ky_s3_client_close(&upload->client);
	ky_buf_release(&upload->part);
	ky_buf_release(&upload->complete);
	ky_buf_release(&upload->answer.body);
	ky_free(upload);
}
