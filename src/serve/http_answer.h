/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* http_answer.h - answers of the server: sentences, texts packed as the client likes, files by
 * ranges; with the headers that all of them have.
 *
 * Packing: texts and pages, by zstd or gzip, as Accept-Encoding says. Files go out as they are:
 *          they are read by ranges, which count bytes of the file.
 * Caching: nothing is used again without a question; an ETag says what the client has.
 * Threads: the server's.
 */
#ifndef KY_SERVE_HTTP_ANSWER_H
#define KY_SERVE_HTTP_ANSWER_H

#include <base/buf.h>
#include <serve/http_check.h>
#include <serve/http_library.h>
#include <stdbool.h>
#include <stdint.h>

#define KY_HTTP_ETAG_BYTES 32u

enum ky_http_coding {
	KY_HTTP_PLAIN,
	KY_HTTP_GZIP,
	KY_HTTP_ZSTD,
	KY_HTTP_CODINGS
};

/* NULL: there is none, or an empty one. */
const char *ky_http_argument(struct MHD_Connection *connection, const char *key);
const char *ky_http_header(struct MHD_Connection *connection, const char *name);
enum ky_http_coding ky_http_coding(struct MHD_Connection *connection);

void ky_http_add_header(struct MHD_Response *response, const char *name, const char *value);
void ky_http_add_common(struct MHD_Response *response, const char *type, const char *policy,
			const char *caching);

/* A copy of the bytes, packed where that is shorter; NULL: memory is short. etag: names them in
 * this coding, with quotes. */
struct MHD_Response *ky_http_pack(const void *bytes, size_t count, enum ky_http_coding coding,
				  char etag[KY_HTTP_ETAG_BYTES]);
/* The name alone. */
void ky_http_etag(char out[KY_HTTP_ETAG_BYTES], const void *bytes, size_t count,
		  enum ky_http_coding coding);

/* Takes the response; NULL: ends the connection. */
enum MHD_Result ky_http_queue(struct MHD_Connection *connection, unsigned status,
			      struct MHD_Response *response);

enum MHD_Result ky_http_say(struct MHD_Connection *connection, unsigned status,
			    const char *sentence);
enum MHD_Result ky_http_say_not_there(struct MHD_Connection *connection);

/* Releases the text. */
enum MHD_Result ky_http_give_text(struct MHD_Connection *connection, struct ky_buf *text,
				  const char *type, const char *policy);

/* Has the client what it would get? */
bool ky_http_is_known(struct MHD_Connection *connection, const char *etag);
enum MHD_Result ky_http_give_known(struct MHD_Connection *connection, const char *etag);

/* Which bytes of a file the request asks for. */
enum ky_http_range ky_http_wanted(struct MHD_Connection *connection, uint64_t bytes,
				  const char *etag, uint64_t *from, uint64_t *count);

/* Takes the descriptor of a file of so many bytes. */
enum MHD_Result ky_http_give_file(struct MHD_Connection *connection, int fd, uint64_t bytes,
				  const char *etag, const char *name);

#endif
