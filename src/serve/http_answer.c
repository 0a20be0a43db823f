/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <serve/http_answer.h>

#include <base/alloc.h>
#include <base/hash.h>
#include <errno.h>
#include <limits.h>
#include <serve/http_check.h>
#include <serve/http_place.h>
#include <ship/compressor.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#define TEXT_PLAIN "text/plain; charset=utf-8"
#define PACKED_BYTES_MIN 512u /* less fits a packet in any case */
#define GZIP_LEVEL 6
#define ZSTD_LEVEL 5

void ky_http_add_header(struct MHD_Response *response, const char *name, const char *value)
{
	(void)MHD_add_response_header(response, name, value);
}

void ky_http_add_common(struct MHD_Response *response, const char *type, const char *policy,
			const char *caching)
{
	ky_http_add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	ky_http_add_header(response, "Content-Security-Policy", policy);
	ky_http_add_header(response, "X-Content-Type-Options", "nosniff");
	ky_http_add_header(response, "X-Frame-Options", "DENY");
	ky_http_add_header(response, "Referrer-Policy", "no-referrer");
	ky_http_add_header(response, "Cross-Origin-Resource-Policy", "same-origin");
	ky_http_add_header(response, "Cross-Origin-Opener-Policy", "same-origin");
	ky_http_add_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, caching);
}

/* Takes the response. */
enum MHD_Result ky_http_queue(struct MHD_Connection *connection, unsigned status,
			      struct MHD_Response *response)
{
	enum MHD_Result result;

	if (!response)
		return MHD_NO;
	result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

enum MHD_Result ky_http_say(struct MHD_Connection *connection, unsigned status,
			    const char *sentence)
{
	struct MHD_Response *response;
	char line[512];
	int bytes = snprintf(line, sizeof(line), "%s\n", sentence);

	response = MHD_create_response_from_buffer((size_t)bytes, line, MHD_RESPMEM_MUST_COPY);
	if (!response)
		return MHD_NO;
	ky_http_add_common(response, TEXT_PLAIN, "default-src 'none'; frame-ancestors 'none'",
			   "no-store");
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		ky_http_add_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	return ky_http_queue(connection, status, response);
}

enum MHD_Result ky_http_say_not_there(struct MHD_Connection *connection)
{
	return ky_http_say(
		connection, MHD_HTTP_NOT_FOUND,
		"There is nothing at this address; the list of traces is at the address that "
		"kymo serve printed.");
}

/* ---- texts ---- */

void ky_http_etag(char out[KY_HTTP_ETAG_BYTES], const void *bytes, size_t count,
		  enum ky_http_coding coding)
{
	static const char *const marks[KY_HTTP_CODINGS] = {"", "-gz", "-zst"};

	(void)snprintf(out, KY_HTTP_ETAG_BYTES, "\"%016llx%s\"",
		       (unsigned long long)ky_hash_bytes(KY_HASH_START, bytes, count),
		       marks[coding]);
}

enum ky_http_coding ky_http_coding(struct MHD_Connection *connection)
{
	const char *accepted = ky_http_header(connection, MHD_HTTP_HEADER_ACCEPT_ENCODING);

	return ky_http_accepts(accepted, "zstd") ? KY_HTTP_ZSTD :
	       ky_http_accepts(accepted, "gzip") ? KY_HTTP_GZIP :
						   KY_HTTP_PLAIN;
}

static int append(void *ctx, const uint8_t *bytes, size_t count)
{
	return ky_buf_append(ctx, bytes, count);
}

static int pack_gzip(struct ky_buf *out, const void *bytes, size_t count)
{
	struct ky_compressor_factory factory;
	struct ky_compressor packer;
	int err = ky_compressor_choose(&factory, KYMO_COMPRESSION_GZIP, GZIP_LEVEL);

	if (!err)
		err = factory.open(&factory, &packer);
	if (err)
		return err;
	err = packer.write(packer.self, bytes, count, append, out);
	if (!err)
		err = packer.finish(packer.self, append, out);
	packer.close(packer.self);
	return err;
}

static int pack_zstd(struct ky_buf *out, const void *bytes, size_t count)
{
	size_t room = ZSTD_compressBound(count);
	uint8_t *packed = ky_alloc(room + 1);
	int err = -ENOMEM;

	if (packed) {
		room = ZSTD_compress(packed, room, bytes, count, ZSTD_LEVEL);
		err = ZSTD_isError(room) ? -EIO : ky_buf_append(out, packed, room);
	}
	ky_free(packed);
	return err;
}

struct MHD_Response *ky_http_pack(const void *bytes, size_t count, enum ky_http_coding coding,
				  char etag[KY_HTTP_ETAG_BYTES])
{
	struct MHD_Response *response;
	struct ky_buf packed;

	ky_buf_init(&packed, 0);
	if (coding != KY_HTTP_PLAIN &&
	    (count < PACKED_BYTES_MIN ||
	     (coding == KY_HTTP_ZSTD ? pack_zstd : pack_gzip)(&packed, bytes, count) ||
	     packed.used >= count))
		coding = KY_HTTP_PLAIN;
	ky_http_etag(etag, bytes, count, coding);
	if (coding == KY_HTTP_PLAIN)
		response = MHD_create_response_from_buffer(count, (void *)(uintptr_t)bytes,
							   MHD_RESPMEM_MUST_COPY);
	else
		response = MHD_create_response_from_buffer(packed.used, packed.bytes,
							   MHD_RESPMEM_MUST_COPY);
	ky_buf_release(&packed);
	if (!response)
		return NULL;
	ky_http_add_header(response, MHD_HTTP_HEADER_ETAG, etag);
	ky_http_add_header(response, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ACCEPT_ENCODING);
	if (coding != KY_HTTP_PLAIN)
		ky_http_add_header(response, MHD_HTTP_HEADER_CONTENT_ENCODING,
				   coding == KY_HTTP_ZSTD ? "zstd" : "gzip");
	return response;
}

enum MHD_Result ky_http_give_text(struct MHD_Connection *connection, struct ky_buf *text,
				  const char *type, const char *policy)
{
	enum ky_http_coding coding = ky_http_coding(connection);
	struct MHD_Response *response = NULL;
	char etag[KY_HTTP_ETAG_BYTES];

	if (!text->failed) {
		ky_http_etag(etag, text->bytes, text->used, coding);
		if (ky_http_is_known(connection, etag)) {
			ky_buf_release(text);
			return ky_http_give_known(connection, etag);
		}
		response = ky_http_pack(text->bytes, text->used, coding, etag);
	}
	ky_buf_release(text);
	if (!response)
		return ky_http_say(connection, MHD_HTTP_INTERNAL_SERVER_ERROR,
				   "Memory is short; serve fewer traces.");
	ky_http_add_common(response, type, policy, "private, no-cache");
	return ky_http_queue(connection, MHD_HTTP_OK, response);
}

const char *ky_http_argument(struct MHD_Connection *connection, const char *key)
{
	const char *value = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, key);

	return value && value[0] ? value : NULL;
}

static void add_name(struct MHD_Response *response, const char *name)
{
	char value[sizeof("inline; filename*=UTF-8''") + 3 * (NAME_MAX + 1)];
	size_t used = (size_t)snprintf(value, sizeof(value), "inline; filename*=UTF-8''");

	for (; *name && used + 4 < sizeof(value); name++)
		used += (size_t)snprintf(value + used, sizeof(value) - used, "%%%02X",
					 (unsigned)(uint8_t)*name);
	ky_http_add_header(response, "Content-Disposition", value);
}

const char *ky_http_header(struct MHD_Connection *connection, const char *name)
{
	return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

/* Has the client what it would get? */
bool ky_http_is_known(struct MHD_Connection *connection, const char *etag)
{
	const char *known = ky_http_header(connection, MHD_HTTP_HEADER_IF_NONE_MATCH);

	return known && ky_http_etag_is_in(known, etag);
}

enum MHD_Result ky_http_give_known(struct MHD_Connection *connection, const char *etag)
{
	static char nothing[1];
	struct MHD_Response *response = MHD_create_response_from_buffer(0, nothing,
									MHD_RESPMEM_PERSISTENT);

	if (!response)
		return MHD_NO;
	ky_http_add_header(response, MHD_HTTP_HEADER_ETAG, etag);
	ky_http_add_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "private, no-cache");
	return ky_http_queue(connection, MHD_HTTP_NOT_MODIFIED, response);
}

static enum MHD_Result give_no_part(struct MHD_Connection *connection, uint64_t bytes)
{
	static char sentence[] = "The file has no such range.\n";
	struct MHD_Response *response = MHD_create_response_from_buffer(
		sizeof(sentence) - 1, sentence, MHD_RESPMEM_PERSISTENT);
	char range[48];

	if (!response)
		return MHD_NO;
	(void)snprintf(range, sizeof(range), "bytes */%llu", (unsigned long long)bytes);
	ky_http_add_common(response, TEXT_PLAIN, "default-src 'none'", "no-store");
	ky_http_add_header(response, MHD_HTTP_HEADER_CONTENT_RANGE, range);
	return ky_http_queue(connection, MHD_HTTP_RANGE_NOT_SATISFIABLE, response);
}

enum ky_http_range ky_http_wanted(struct MHD_Connection *connection, uint64_t bytes,
				  const char *etag, uint64_t *from, uint64_t *count)
{
	const char *wanted = ky_http_header(connection, MHD_HTTP_HEADER_RANGE);
	const char *if_range = ky_http_header(connection, "If-Range");

	return ky_http_range(if_range && strcmp(if_range, etag) != 0 ? NULL : wanted, bytes, from,
			     count);
}

/* Takes the descriptor. */
enum MHD_Result ky_http_give_file(struct MHD_Connection *connection, int fd, uint64_t bytes,
				  const char *etag, const char *name)
{
	struct MHD_Response *response;
	uint64_t from, count;
	enum ky_http_range range = ky_http_wanted(connection, bytes, etag, &from, &count);
	char part[96];

	if (fd < 0)
		return MHD_NO;
	if (range == KY_HTTP_NO_PART || ky_http_is_known(connection, etag)) {
		(void)close(fd);
		return range == KY_HTTP_NO_PART ? give_no_part(connection, bytes) :
						  ky_http_give_known(connection, etag);
	}
	response = MHD_create_response_from_fd_at_offset64(count, fd, from);
	if (!response) {
		(void)close(fd);
		return MHD_NO;
	}
	ky_http_add_common(response, "application/octet-stream",
			   "default-src 'none'; frame-ancestors 'none'; sandbox",
			   "private, no-cache");
	ky_http_add_header(response, MHD_HTTP_HEADER_ETAG, etag);
	ky_http_add_header(response, MHD_HTTP_HEADER_ACCEPT_RANGES, "bytes");
	add_name(response, name);
	if (range == KY_HTTP_PART) {
		(void)snprintf(part, sizeof(part), "bytes %llu-%llu/%llu", (unsigned long long)from,
			       (unsigned long long)(from + count - 1), (unsigned long long)bytes);
		ky_http_add_header(response, MHD_HTTP_HEADER_CONTENT_RANGE, part);
	}
	return ky_http_queue(connection,
			     range == KY_HTTP_PART ? MHD_HTTP_PARTIAL_CONTENT : MHD_HTTP_OK,
			     response);
}
