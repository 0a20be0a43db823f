/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <send/sigv4.h>

#include <base/out_text.h>
#include <errno.h>
#include <kymo/base.h>
#include <nettle/hmac.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SCHEME "AWS4-HMAC-SHA256"
#define DAY_BYTES 8

void ky_sigv4_hex(char *out, const uint8_t *bytes, size_t count)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < count; i++) {
		out[2 * i] = digits[bytes[i] >> 4];
		out[2 * i + 1] = digits[bytes[i] & 15];
	}
	out[2 * count] = '\0';
}

void ky_sigv4_sha256(char out[KY_SHA256_HEX_BYTES], const void *bytes, size_t count)
{
	uint8_t digest[SHA256_DIGEST_SIZE];
	struct sha256_ctx sha;

	sha256_init(&sha);
	sha256_update(&sha, count, bytes);
	sha256_digest(&sha, sizeof(digest), digest);
	ky_sigv4_hex(out, digest, sizeof(digest));
}

void ky_sigv4_date(char out[KY_SIGV4_DATE_BYTES], uint64_t unix_ns)
{
	time_t seconds = (time_t)(unix_ns / 1000000000u);
	struct tm parts;

	if (!gmtime_r(&seconds, &parts) ||
	    strftime(out, KY_SIGV4_DATE_BYTES, "%Y%m%dT%H%M%SZ", &parts) == 0)
		memcpy(out, "19700101T000000Z", KY_SIGV4_DATE_BYTES);
}

static bool is_unreserved(char byte)
{
	return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
	       (byte >= '0' && byte <= '9') || byte == '-' || byte == '.' || byte == '_' ||
	       byte == '~';
}

void ky_sigv4_encode(struct ky_buf *out, const char *text, bool keeps_slash)
{
	static const char digits[] = "0123456789ABCDEF";

	for (; *text; text++) {
		unsigned char byte = (unsigned char)*text;
		const char triple[3] = {'%', digits[byte >> 4], digits[byte & 15]};

		if (is_unreserved(*text) || (keeps_slash && *text == '/'))
			(void)ky_buf_append(out, text, 1);
		else
			(void)ky_buf_append(out, triple, sizeof(triple));
	}
}

/* ---- what is sorted ---- */

/* Encoded, each with its zero, one after the other in text. */
struct sorted {
	struct ky_buf text;
	size_t names[KY_SIGV4_PAIRS_MAX], values[KY_SIGV4_PAIRS_MAX];
	size_t count;
};

static const char *at(const struct sorted *sorted, size_t offset)
{
	return (const char *)sorted->text.bytes + offset;
}

static bool is_before(const struct sorted *sorted, size_t a, size_t b)
{
	int order = strcmp(at(sorted, sorted->names[a]), at(sorted, sorted->names[b]));

	if (order == 0)
		order = strcmp(at(sorted, sorted->values[a]), at(sorted, sorted->values[b]));
	return order < 0;
}

static void swap(size_t *list, size_t a, size_t b)
{
	size_t kept = list[a];

	list[a] = list[b];
	list[b] = kept;
}

static void sort(struct sorted *sorted)
{
	for (size_t i = 1; i < sorted->count; i++) {
		for (size_t j = i; j > 0 && is_before(sorted, j, j - 1); j--) {
			swap(sorted->names, j, j - 1);
			swap(sorted->values, j, j - 1);
		}
	}
}

/* A header's value: no blanks around it, one where several are in it. */
static void add_trimmed(struct ky_buf *out, const char *text)
{
	bool has_text = false, has_blank = false;

	for (; *text; text++) {
		if (*text == ' ' || *text == '\t') {
			has_blank = has_text;
			continue;
		}
		if (has_blank)
			ky_out_text(out, " ");
		has_blank = false;
		has_text = true;
		(void)ky_buf_append(out, text, 1);
	}
}

static int take(struct sorted *sorted, const struct ky_sigv4_pair *pairs, size_t count,
		bool is_query)
{
	ky_buf_init(&sorted->text, 0);
	if (count > KY_SIGV4_PAIRS_MAX)
		return KYMO_E_LIMIT;
	for (size_t i = 0; i < count; i++) {
		sorted->names[i] = sorted->text.used;
		if (is_query)
			ky_sigv4_encode(&sorted->text, pairs[i].name, false);
		else
			ky_out_text(&sorted->text, pairs[i].name);
		(void)ky_buf_append(&sorted->text, "", 1);
		sorted->values[i] = sorted->text.used;
		if (is_query)
			ky_sigv4_encode(&sorted->text, pairs[i].value ? pairs[i].value : "", false);
		else
			add_trimmed(&sorted->text, pairs[i].value);
		(void)ky_buf_append(&sorted->text, "", 1);
	}
	sorted->count = count;
	if (!sorted->text.failed)
		sort(sorted);
	return sorted->text.failed;
}

static int add_query(struct ky_buf *out, const struct ky_sigv4_pair *query, size_t count)
{
	struct sorted sorted;
	int err = take(&sorted, query, count, true);

	for (size_t i = 0; !err && i < sorted.count; i++)
		ky_out_format(out, "%s%s=%s", i ? "&" : "", at(&sorted, sorted.names[i]),
			      at(&sorted, sorted.values[i]));
	ky_buf_release(&sorted.text);
	return err;
}

int ky_sigv4_target(struct ky_buf *out, const char *path, const struct ky_sigv4_pair *query,
		    size_t query_count)
{
	ky_sigv4_encode(out, path, true);
	if (query_count)
		ky_out_text(out, "?");
	return add_query(out, query, query_count);
}

/* ---- the signature ---- */

static int add_canonical(struct ky_buf *out, struct ky_buf *names,
			 const struct ky_sigv4_request *request)
{
	struct sorted sorted;
	int err;

	ky_out_format(out, "%s\n", request->method);
	ky_sigv4_encode(out, request->path, true);
	ky_out_text(out, "\n");
	err = add_query(out, request->query, request->query_count);
	if (err)
		return err;
	ky_out_text(out, "\n");
	err = take(&sorted, request->headers, request->header_count, false);
	for (size_t i = 0; !err && i < sorted.count; i++) {
		ky_out_format(out, "%s:%s\n", at(&sorted, sorted.names[i]),
			      at(&sorted, sorted.values[i]));
		ky_out_format(names, "%s%s", i ? ";" : "", at(&sorted, sorted.names[i]));
	}
	ky_buf_release(&sorted.text);
	(void)ky_buf_append(names, "", 1);
	if (err || names->failed)
		return err ? err : names->failed;
	ky_out_format(out, "\n%s\n%s", (const char *)names->bytes, request->payload);
	return out->failed;
}

static void hmac(uint8_t out[SHA256_DIGEST_SIZE], const void *key, size_t key_bytes,
		 const char *text, size_t text_bytes)
{
	struct hmac_sha256_ctx ctx;

	hmac_sha256_set_key(&ctx, key_bytes, key);
	hmac_sha256_update(&ctx, text_bytes, (const uint8_t *)text);
	hmac_sha256_digest(&ctx, SHA256_DIGEST_SIZE, out);
}

static int make_key(uint8_t out[SHA256_DIGEST_SIZE], const struct ky_sigv4_key *key,
		    const char *date)
{
	struct ky_buf first;
	int err;

	ky_buf_init(&first, 0);
	ky_out_format(&first, "AWS4%s", key->secret_key);
	err = first.failed;
	if (!err) {
		hmac(out, first.bytes, first.used, date, DAY_BYTES);
		explicit_bzero(first.bytes, first.used);
		hmac(out, out, SHA256_DIGEST_SIZE, key->region, strlen(key->region));
		hmac(out, out, SHA256_DIGEST_SIZE, key->service, strlen(key->service));
		hmac(out, out, SHA256_DIGEST_SIZE, "aws4_request", 12);
	}
	ky_buf_release(&first);
	return err;
}

int ky_sigv4_sign(struct ky_buf *out, const struct ky_sigv4_request *request,
		  const struct ky_sigv4_key *key)
{
	char digest[KY_SHA256_HEX_BYTES], signature[KY_SHA256_HEX_BYTES];
	uint8_t secret[SHA256_DIGEST_SIZE];
	struct ky_buf text, names;
	int err;

	ky_buf_init(&text, 0);
	ky_buf_init(&names, 0);
	err = add_canonical(&text, &names, request);
	if (!err) {
		ky_sigv4_sha256(digest, text.bytes, text.used);
		ky_buf_clear(&text);
		ky_out_format(&text, SCHEME "\n%s\n%.8s/%s/%s/aws4_request\n%s", request->date,
			      request->date, key->region, key->service, digest);
		err = text.failed;
	}
	if (!err)
		err = make_key(secret, key, request->date);
	if (!err) {
		hmac(secret, secret, sizeof(secret), (const char *)text.bytes, text.used);
		ky_sigv4_hex(signature, secret, sizeof(secret));
		ky_out_format(out,
			      SCHEME " Credential=%s/%.8s/%s/%s/aws4_request,SignedHeaders=%s,"
				     "Signature=%s",
			      key->access_key, request->date, key->region, key->service,
			      (const char *)names.bytes, signature);
		err = out->failed;
	}
	ky_buf_release(&names);
	ky_buf_release(&text);
	return err;
}
