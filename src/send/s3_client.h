/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* s3_client.h - signed requests to one bucket.
 *
 * Invariants:  every request is signed by us, of known length, and goes to the endpoint that was
 *              set, or to AWS's own of the bucket's region: what an answer says changes the region
 *              and the clock, never the host.
 * Secrets:     in the keys alone; no sentence has one.
 * Threads:     owner, but for ky_http_client_stop_at().
 */
#ifndef KY_SEND_S3_CLIENT_H
#define KY_SEND_S3_CLIENT_H

#include <send/aws_keys.h>
#include <send/http_client.h>
#include <send/retry.h>
#include <send/sigv4.h>

#define KY_S3_BUCKET_BYTES 64u
#define KY_S3_PREFIX_BYTES 512u

struct ky_s3_place {
	char bucket[KY_S3_BUCKET_BYTES], prefix[KY_S3_PREFIX_BYTES]; /* no slash at its ends */
};

/* text: s3://BUCKET[/PREFIX]. Returns 0; -EINVAL, and why (KY_HTTP_ERROR_BYTES) says what is
 * wrong. */
int ky_s3_place_parse(struct ky_s3_place *place, const char *text, char *why);

struct ky_s3_client {
	struct ky_http_client *http;
	struct ky_aws_keys keys;
	char bucket[KY_S3_BUCKET_BYTES];
	char region[64];        /* that the server named; "": that of the keys */
	int64_t clock_ahead_ns; /* the server's clock, of ours */
	bool is_reading;        /* for what a sentence says is not allowed */
	bool gives_no_ranges;   /* the server gave the whole where a range was asked for */
};

/* Returns 0; KYMO_E_UNSUPPORTED, -ENOENT with why; -ENOMEM. */
int ky_s3_client_open(struct ky_s3_client *client, const char *bucket, char *why);
void ky_s3_client_close(struct ky_s3_client *client);

struct ky_s3_request {
	const char *method, *key; /* raw */
	const struct ky_sigv4_pair *query;
	size_t query_count;
	const struct ky_sigv4_pair *headers; /* names in lower case */
	size_t header_count;
	int body_fd; /* -1: none */
	const uint8_t *body;
	uint64_t body_bytes;
	const char *sha256, *crc32c; /* of the body; NULL: it has none */
	size_t answer_bytes_max;
};

/* Returns 0 and an answer, also one without a status; -ENOMEM, KYMO_E_LIMIT. */
int ky_s3_client_do(struct ky_s3_client *client, const struct ky_s3_request *request,
		    struct ky_http_answer *answer);

/* code: room for 64 bytes. */
enum ky_verdict ky_s3_client_judge(const struct ky_http_answer *answer, char *code);
/* Changes what the verdict asks for. */
void ky_s3_client_learn(struct ky_s3_client *client, enum ky_verdict verdict,
			const struct ky_http_answer *answer);
/* What went wrong, in words. */
void ky_s3_client_say(const struct ky_s3_client *client, const struct ky_http_answer *answer,
		      char *out, size_t out_bytes);

#endif
