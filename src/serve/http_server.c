/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <serve/http_server.h>

#include <arpa/inet.h>
#include <base/alloc.h>
#include <base/hash.h>
#include <base/now.h>
#include <base/out_text.h>
#include <errno.h>
#include <kymo/base.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <serve/http_answer.h>
#include <serve/http_library.h>
#include <serve/http_place.h>
#include <serve/list_page.h>
#include <serve/trace_map.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define THREADS 4u /* where a trace may have to be fetched first */
#define POLICY_BYTES_MAX 1024u
#define PART_BYTES_MAX (64u << 20)
#define READ_AHEAD_BYTES (1u << 20)
#define TEXT_PLAIN "text/plain; charset=utf-8"
#define TEXT_HTML "text/html; charset=utf-8"
#define LIST_POLICY                                                                                \
	"default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; "              \
	"frame-ancestors 'none'"

/* One that is open, for its time limit. */
struct link {
	int fd; /* -1: free */
	uint64_t since_ns;
	bool is_answering;
};

/* Of the process that is shown live. */
struct live_snapshot {
	uint64_t serial; /* 0: none */
	uint64_t made_ns, bytes;
	int fd;
};

struct ky_http_server {
	struct MHD_Daemon *daemon;
	struct MHD_Response *viewers[KY_HTTP_CODINGS], *style;
	struct ky_buf page; /* the viewer */
	struct ky_listing listing;
	pthread_mutex_t answering; /* all of an answer but opening a trace */
	int (*cut)(void *ctx, struct ky_buf *out);
	void *cut_ctx;
	const char *live_name;
	struct live_snapshot copies[KY_HTTP_COPIES]; /* the newest has the highest serial */
	uint64_t serial;
	char address[INET6_ADDRSTRLEN];
	uint16_t port;
	char token[KY_HTTP_TOKEN_BYTES];
	char policy[POLICY_BYTES_MAX]; /* of the viewer */
	pthread_mutex_t mutex;         /* of the links */
	struct link links[KY_HTTP_CONNECTIONS_MAX * 2];
};

static void begin_view(struct ky_list_view *view, const struct ky_http_server *server,
		       struct MHD_Connection *connection)
{
	view->live_name = server->live_name;
	view->sort = ky_http_argument(connection, "sort");
	view->service = ky_http_argument(connection, "service");
	view->host = ky_http_argument(connection, "host");
	view->pick = ky_http_argument(connection, "pick");
	view->entries = server->listing.begin(server->listing.ctx, &view->count,
					      &view->waiting_count, &view->is_cut);
}

static enum MHD_Result give_list(const struct ky_http_server *server,
				 struct MHD_Connection *connection, bool is_json)
{
	struct ky_list_view view;
	struct ky_buf text;

	ky_buf_init(&text, 0);
	begin_view(&view, server, connection);
	if (is_json)
		ky_list_json(&text, &view);
	else
		ky_list_page(&text, &view);
	server->listing.end(server->listing.ctx);
	return ky_http_give_text(connection, &text, is_json ? "application/json" : TEXT_HTML,
				 LIST_POLICY);
}

static enum MHD_Result give_facts(const struct ky_http_server *server,
				  struct MHD_Connection *connection, const char *id)
{
	const struct ky_listed *one;
	struct ky_list_view view;
	struct ky_buf text;

	ky_buf_init(&text, 0);
	begin_view(&view, server, connection);
	one = server->listing.find(server->listing.ctx, id);
	if (one && one->state != KY_LISTED_FOREIGN)
		ky_listed_json(&text, one, true);
	server->listing.end(server->listing.ctx);
	if (!text.used && !text.failed)
		return ky_http_say_not_there(connection);
	ky_out_text(&text, "\n");
	return ky_http_give_text(connection, &text, "application/json", LIST_POLICY);
}

/* ---- a live process ---- */

/* The oldest copy gives way; who reads it has it open. Returns 0 or a negative error. */
static int make_copy(struct ky_http_server *server)
{
	struct live_snapshot *copy = &server->copies[(server->serial + 1) % KY_HTTP_COPIES];
	struct ky_buf bytes;
	int err, fd = -1;

	ky_buf_init(&bytes, 0);
	err = server->cut(server->cut_ctx, &bytes);
	if (!err)
		fd = memfd_create("kymo-live", MFD_CLOEXEC);
	if (!err && fd < 0)
		err = -errno;
	for (size_t at = 0; !err && at < bytes.used;) {
		ssize_t done = write(fd, bytes.bytes + at, bytes.used - at);

		if (done < 0 && errno != EINTR)
			err = -errno;
		at += done > 0 ? (size_t)done : 0;
	}
	if (!err) {
		if (copy->serial)
			(void)close(copy->fd);
		*copy = (struct live_snapshot){++server->serial, ky_now_ns(CLOCK_MONOTONIC),
					       bytes.used, fd};
	} else if (fd >= 0) {
		(void)close(fd);
	}
	ky_buf_release(&bytes);
	return err;
}

/* Leads to the newest copy, which is made where the last one is too old. */
static enum MHD_Result lead_to_copy(struct ky_http_server *server,
				    struct MHD_Connection *connection)
{
	static char nothing[1];
	const struct live_snapshot *newest = &server->copies[server->serial % KY_HTTP_COPIES];
	struct MHD_Response *response;
	char where[48];

	if ((!newest->serial || ky_now_ns(CLOCK_MONOTONIC) - newest->made_ns >= KY_HTTP_COPY_NS) &&
	    make_copy(server))
		return ky_http_say(
			connection, MHD_HTTP_NOT_FOUND,
			"There is nothing of this process: it recorded nothing of late, or has "
			"ended.");
	(void)snprintf(where, sizeof(where), "live-%llu", (unsigned long long)server->serial);
	response = MHD_create_response_from_buffer(0, nothing, MHD_RESPMEM_PERSISTENT);
	if (!response)
		return MHD_NO;
	ky_http_add_common(response, TEXT_PLAIN, "default-src 'none'; frame-ancestors 'none'",
			   "no-store");
	ky_http_add_header(response, MHD_HTTP_HEADER_LOCATION, where);
	return ky_http_queue(connection, MHD_HTTP_FOUND, response);
}

static enum MHD_Result give_copy(const struct ky_http_server *server,
				 struct MHD_Connection *connection, const char *serial)
{
	char text[24], etag[KY_LISTED_ETAG_BYTES], name[NAME_MAX + 1];

	for (size_t i = 0; i < KY_HTTP_COPIES; i++) {
		const struct live_snapshot *copy = &server->copies[i];
		int fd;

		(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)copy->serial);
		if (!copy->serial || strcmp(text, serial) != 0)
			continue;
		fd = dup(copy->fd);
		if (fd < 0)
			return MHD_NO;
		(void)snprintf(etag, sizeof(etag), "\"%llx-%llx-0\"",
			       (unsigned long long)copy->serial, (unsigned long long)copy->bytes);
		(void)snprintf(name, sizeof(name), "%s", server->live_name);
		return ky_http_give_file(connection, fd, copy->bytes, etag, name);
	}
	return ky_http_say(connection, MHD_HTTP_NOT_FOUND,
			   "This copy is too old and gone; reload the page for a new one.");
}

static const char *after(const char *path, const char *prefix)
{
	size_t bytes = strlen(prefix);

	return strncmp(path, prefix, bytes) == 0 ? path + bytes : NULL;
}

/* Brings what the answer needs of a file that is elsewhere, and some more: the page reads on. */
static int fetch_answer(const struct ky_served_file *file, struct MHD_Connection *connection,
			char *why)
{
	uint64_t from, count;
	enum ky_http_range range = ky_http_wanted(connection, file->bytes, file->etag, &from,
						  &count);

	if (range == KY_HTTP_NO_PART || ky_http_is_known(connection, file->etag))
		return 0;
	count = count > READ_AHEAD_BYTES ? count : READ_AHEAD_BYTES;
	return file->fetch(file->ctx, from, count < file->bytes - from ? count : file->bytes - from,
			   why);
}

static enum MHD_Result give_trace(struct ky_http_server *server, struct MHD_Connection *connection,
				  const char *id, bool is_head)
{
	const char *serial = server->cut ? after(id, "live-") : NULL;
	char why[KY_SERVED_WHY_BYTES] = "";
	struct ky_served_file file;
	enum MHD_Result result;
	int err;

	if (server->cut && strcmp(id, "live") == 0)
		return lead_to_copy(server, connection);
	if (serial)
		return give_copy(server, connection, serial);
	(void)pthread_mutex_unlock(&server->answering);
	err = server->listing.open_file(server->listing.ctx, id, &file, why);
	if (!err && file.fetch && !is_head)
		err = fetch_answer(&file, connection, why);
	(void)pthread_mutex_lock(&server->answering);
	if (err && why[0])
		result = ky_http_say(connection, MHD_HTTP_BAD_GATEWAY, why);
	else if (err)
		result = ky_http_say(
			connection, MHD_HTTP_NOT_FOUND,
			"This trace is not there any more; reload the list of traces.");
	else
		result = ky_http_give_file(connection, dup(file.fd), file.bytes, file.etag,
					   file.name);
	ky_served_file_release(&file);
	return result;
}

/* ---- many segments ---- */

/* Opens all files of the list. Returns 0; an error that is answered. */
static int open_map(struct ky_trace_map *map, struct ky_http_server *server, const char *ids)
{
	char id[KY_HTTP_ID_BYTES];
	int next, err = 0;

	map->from_unix_ns = server->listing.from_unix_ns;
	map->to_unix_ns = server->listing.to_unix_ns;
	while (!err && (next = ky_http_next_id(&ids, id)) != 0) {
		struct ky_served_file file;

		if (next < 0 || map->file_count == KY_HTTP_IDS_MAX)
			return -EINVAL;
		err = server->listing.open_segments(server->listing.ctx, id, &file, map->why);
		if (!err)
			err = ky_trace_map_add(map, &file, id);
		else if (err == KYMO_E_UNSUPPORTED)
			(void)snprintf(map->why, sizeof(map->why),
				       "This trace has no index, so it can only be opened whole.");
	}
	return err ? err : ky_trace_map_finish(map);
}

static enum MHD_Result say_no_map(struct MHD_Connection *connection, const struct ky_trace_map *map,
				  int err)
{
	if (err == KYMO_E_UNSUPPORTED)
		return ky_http_say(connection, MHD_HTTP_UNPROCESSABLE_CONTENT, map->why);
	if (map->why[0])
		return ky_http_say(connection, MHD_HTTP_BAD_GATEWAY, map->why);
	return ky_http_say(connection, MHD_HTTP_NOT_FOUND,
			   "These traces are not all there any more; reload the list.");
}

/* Times and pieces of the address. */
static bool read_view(struct ky_map_view *view, struct MHD_Connection *connection)
{
	uint64_t pieces = 1000;

	*view = (struct ky_map_view){.from_ns = 0};
	if (!ky_http_number(ky_http_argument(connection, "from"), INT64_MAX, &view->from_ns) ||
	    !ky_http_number(ky_http_argument(connection, "to"), INT64_MAX, &view->to_ns) ||
	    !ky_http_number(ky_http_argument(connection, "pieces"), KY_HTTP_PIECES_MAX, &pieces) ||
	    !pieces)
		return false;
	view->pieces = (uint32_t)pieces;
	return !view->to_ns || view->to_ns > view->from_ns;
}

static enum MHD_Result say_no_view(struct MHD_Connection *connection)
{
	return ky_http_say(
		connection, MHD_HTTP_BAD_REQUEST,
		"from and to are nanoseconds from the beginning, from before to; pieces is a "
		"number from 1 to 4096.");
}

static enum MHD_Result give_map(struct ky_http_server *server, struct MHD_Connection *connection,
				const char *ids)
{
	struct ky_trace_map map = {.count = 0};
	enum MHD_Result result;
	struct ky_map_view view;
	struct ky_buf text;
	int err;

	if (!read_view(&view, connection))
		return say_no_view(connection);
	(void)pthread_mutex_unlock(&server->answering);
	err = open_map(&map, server, ids);
	(void)pthread_mutex_lock(&server->answering);
	if (err) {
		result = say_no_map(connection, &map, err);
	} else {
		ky_buf_init(&text, 0);
		ky_trace_map_json(&text, &map, &view);
		result = ky_http_give_text(connection, &text, "application/json", LIST_POLICY);
	}
	ky_trace_map_release(&map);
	return result;
}

static enum MHD_Result give_bytes(struct MHD_Connection *connection, const struct ky_buf *part)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(part->used, part->bytes,
									MHD_RESPMEM_MUST_COPY);

	if (response)
		ky_http_add_common(response, "application/octet-stream",
				   "default-src 'none'; frame-ancestors 'none'; sandbox",
				   "no-store");
	return ky_http_queue(connection, MHD_HTTP_OK, response);
}

static enum MHD_Result give_part(struct ky_http_server *server, struct MHD_Connection *connection,
				 const char *ids)
{
	struct ky_trace_map map = {.count = 0};
	enum MHD_Result result;
	struct ky_map_view view;
	struct ky_buf part;
	int unopened, err = 0;

	if (!read_view(&view, connection) || !view.to_ns)
		return say_no_view(connection);
	ky_buf_init(&part, PART_BYTES_MAX);
	(void)pthread_mutex_unlock(&server->answering);
	unopened = open_map(&map, server, ids);
	if (!unopened)
		err = ky_trace_map_part(&part, &map, view.from_ns, view.to_ns);
	(void)pthread_mutex_lock(&server->answering);
	if (unopened)
		result = say_no_map(connection, &map, unopened);
	else if (err == KYMO_E_LIMIT)
		result = ky_http_say(connection, MHD_HTTP_CONTENT_TOO_LARGE,
				     map.why[0] ? map.why : "This part is too large; zoom in.");
	else if (err && map.why[0])
		result = ky_http_say(connection, MHD_HTTP_BAD_GATEWAY, map.why);
	else if (err)
		result = ky_http_say(connection, MHD_HTTP_INTERNAL_SERVER_ERROR,
				     "The files cannot be read any more, or memory is short.");
	else
		result = give_bytes(connection, &part);
	ky_buf_release(&part);
	ky_trace_map_release(&map);
	return result;
}

/* In each coding once it was asked for. */
static enum MHD_Result give_viewer(struct ky_http_server *server, struct MHD_Connection *connection)
{
	enum ky_http_coding coding = ky_http_coding(connection);
	struct MHD_Response **viewer = &server->viewers[coding];
	char etag[KY_HTTP_ETAG_BYTES];

	if (!*viewer) {
		*viewer = ky_http_pack(server->page.bytes, server->page.used, coding, etag);
		if (!*viewer)
			return MHD_NO;
		ky_http_add_common(*viewer, TEXT_HTML, server->policy, "private, no-cache");
	}
	ky_http_etag(etag, server->page.bytes, server->page.used, coding);
	if (ky_http_is_known(connection, etag))
		return ky_http_give_known(connection, etag);
	return MHD_queue_response(connection, MHD_HTTP_OK, *viewer);
}

/* ---- requests ---- */

struct headers {
	const struct ky_http_server *server;
	uint32_t host_count;
	const char *trouble;
};

static enum MHD_Result check_header(void *ctx, enum MHD_ValueKind kind, const char *name,
				    const char *value)
{
	struct headers *headers = ctx;
	const struct ky_http_server *server = headers->server;

	(void)kind;
	if (!value)
		value = "";
	if (strcasecmp(name, "Host") == 0) {
		headers->host_count++;
		if (!ky_http_host_is_ours(value, server->address, server->port))
			headers->trouble = "The Host of this request is not the address at which "
					   "kymo serve listens; use the address that it printed.";
	} else if (strcasecmp(name, "Origin") == 0) {
		if (!ky_http_origin_is_ours(value, server->address, server->port))
			headers->trouble = "Another site asked for this; kymo serve answers its "
					   "own pages alone.";
	} else if (strcasecmp(name, "Sec-Fetch-Site") == 0) {
		if (strcasecmp(value, "same-origin") != 0 && strcasecmp(value, "none") != 0)
			headers->trouble = "A page of another site led here; open the address that "
					   "kymo serve printed by itself.";
	} else if (strcasecmp(name, "Transfer-Encoding") == 0 ||
		   (strcasecmp(name, "Content-Length") == 0 && strcmp(value, "0") != 0)) {
		headers->trouble = "A request here has no body.";
	}
	return MHD_YES;
}

/* What is refused before its address counts; NULL: nothing. */
static const char *find_trouble(const struct ky_http_server *server,
				struct MHD_Connection *connection)
{
	struct headers headers = {.server = server};

	(void)MHD_get_connection_values(connection, MHD_HEADER_KIND, check_header, &headers);
	if (!headers.trouble && headers.host_count != 1)
		return "A request here has one Host header.";
	return headers.trouble;
}

/* Returns the path after the token, without its first "/"; NULL: there is no right token. */
static const char *pass_token(const struct ky_http_server *server,
			      struct MHD_Connection *connection, const char *path)
{
	static const char bearer[] = "Bearer ";
	const size_t token_bytes = KY_HTTP_TOKEN_BYTES - 1;
	const char *given = ky_http_header(connection, MHD_HTTP_HEADER_AUTHORIZATION);

	if (path[0] != '/')
		return NULL;
	path++;
	if (ky_http_token_is(path, server->token, token_bytes) && path[token_bytes] == '/')
		return path + token_bytes + 1;
	if (given && strncmp(given, bearer, sizeof(bearer) - 1) == 0) {
		given += sizeof(bearer) - 1;
		if (ky_http_token_is(given, server->token, token_bytes) && !given[token_bytes])
			return path;
	}
	return NULL;
}

static enum MHD_Result give(struct ky_http_server *server, struct MHD_Connection *connection,
			    const char *path, bool is_head)
{
	const char *rest;

	switch (ky_http_what(path, &rest)) {
	case KY_HTTP_LIST:
		return give_list(server, connection, false);
	case KY_HTTP_VIEWER:
		return give_viewer(server, connection);
	case KY_HTTP_STYLE:
		return MHD_queue_response(connection, MHD_HTTP_OK, server->style);
	case KY_HTTP_LIST_JSON:
		return give_list(server, connection, true);
	case KY_HTTP_FACTS:
		return give_facts(server, connection, rest);
	case KY_HTTP_TRACE:
		return give_trace(server, connection, rest, is_head);
	case KY_HTTP_MAP:
		return give_map(server, connection, rest);
	case KY_HTTP_MAP_PART:
		return give_part(server, connection, rest);
	case KY_HTTP_NOTHING:
		break;
	}
	return ky_http_say_not_there(connection);
}

static struct link *link_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(
		connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

static void mark(struct ky_http_server *server, struct MHD_Connection *connection,
		 bool is_answering)
{
	struct link *link = link_of(connection);

	if (!link)
		return;
	(void)pthread_mutex_lock(&server->mutex);
	link->is_answering = is_answering;
	link->since_ns = ky_now_ns(CLOCK_MONOTONIC);
	(void)pthread_mutex_unlock(&server->mutex);
}

static enum MHD_Result answer(void *ctx, struct MHD_Connection *connection, const char *path,
			      const char *method, const char *version, const char *body,
			      size_t *body_bytes, void **seen)
{
	struct ky_http_server *server = ctx;
	const char *trouble;
	enum MHD_Result result;

	(void)version;
	(void)body;
	(void)body_bytes;
	if (!*seen) {
		*seen = server;
		mark(server, connection, true);
		trouble = find_trouble(server, connection);
		if (trouble)
			return ky_http_say(connection, MHD_HTTP_FORBIDDEN, trouble);
		if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
			return ky_http_say(connection, MHD_HTTP_METHOD_NOT_ALLOWED,
					   "kymo serve only gives out: GET and HEAD.");
		return MHD_YES; /* an answer now would end the connection */
	}
	path = pass_token(server, connection, path);
	if (!path)
		return ky_http_say(
			connection, MHD_HTTP_FORBIDDEN,
			"This address lacks the token; use the whole address that kymo serve "
			"printed.");
	(void)pthread_mutex_lock(&server->answering);
	result = give(server, connection, path, strcmp(method, "HEAD") == 0);
	(void)pthread_mutex_unlock(&server->answering);
	return result;
}

static void completed(void *ctx, struct MHD_Connection *connection, void **seen,
		      enum MHD_RequestTerminationCode code)
{
	(void)code;
	*seen = NULL;
	mark(ctx, connection, false);
}

static void connected(void *ctx, struct MHD_Connection *connection, void **context,
		      enum MHD_ConnectionNotificationCode code)
{
	struct ky_http_server *server = ctx;
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(
		connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct link *link = *context;

	(void)pthread_mutex_lock(&server->mutex);
	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		for (size_t i = 0; !link && i < KY_HTTP_CONNECTIONS_MAX * 2; i++)
			if (server->links[i].fd < 0)
				link = &server->links[i];
		if (link && info)
			*link = (struct link){info->connect_fd, ky_now_ns(CLOCK_MONOTONIC), false};
		*context = link;
	} else if (link) {
		link->fd = -1;
	}
	(void)pthread_mutex_unlock(&server->mutex);
}

void ky_http_tend(struct ky_http_server *server)
{
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);

	(void)pthread_mutex_lock(&server->mutex);
	for (size_t i = 0; i < KY_HTTP_CONNECTIONS_MAX * 2; i++) {
		const struct link *link = &server->links[i];

		if (link->fd >= 0 && !link->is_answering &&
		    now_ns - link->since_ns > KY_HTTP_REQUEST_S_MAX * UINT64_C(1000000000))
			(void)shutdown(link->fd, SHUT_RDWR);
	}
	(void)pthread_mutex_unlock(&server->mutex);
}

/* ---- start and end ---- */

static int make_token(struct ky_http_server *server)
{
	uint8_t random[(KY_HTTP_TOKEN_BYTES - 1) / 2];

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return -EAGAIN;
	for (size_t i = 0; i < sizeof(random); i++)
		(void)snprintf(server->token + 2 * i, 3, "%02x", random[i]);
	return 0;
}

/* Gives the page without its own policy, which becomes a header: it may ask us, and be in no
 * frame. A name that means nothing to browsers keeps it for the pages that this one writes.
 * Returns 0, -EINVAL, -ENOMEM. */
static int make_viewer(struct ky_http_server *server, const struct ky_buf *viewer)
{
	static const char begin[] = "<meta http-equiv=\"Content-Security-Policy\" content=\"";
	static const char end[] = "\">\n";
	static const char instead[] = "<meta name=\"kymo-policy\" content=\"";
	const size_t instead_bytes = sizeof(instead) - 1;
	const uint8_t *from = memmem(viewer->bytes, viewer->used, begin, sizeof(begin) - 1);
	const uint8_t *policy = from ? from + sizeof(begin) - 1 : NULL, *to;
	size_t rest = policy ? viewer->used - (size_t)(policy - viewer->bytes) : 0;

	to = policy ? memmem(policy, rest, end, sizeof(end) - 1) : NULL;
	if (!to || to - policy > (ptrdiff_t)POLICY_BYTES_MAX / 2)
		return -EINVAL;
	(void)snprintf(server->policy, sizeof(server->policy),
		       "%.*s; connect-src 'self'; frame-ancestors 'none'", (int)(to - policy),
		       (const char *)policy);
	ky_buf_init(&server->page, 0);
	(void)ky_buf_append(&server->page, viewer->bytes, (size_t)(from - viewer->bytes));
	(void)ky_buf_append(&server->page, instead, instead_bytes);
	(void)ky_buf_append(&server->page, policy, rest);
	return server->page.failed;
}

static int make_style(struct ky_http_server *server)
{
	struct ky_buf text;

	ky_buf_init(&text, 0);
	ky_out_text(&text, ky_list_style);
	if (!text.failed)
		server->style = MHD_create_response_from_buffer(text.used, text.bytes,
								MHD_RESPMEM_MUST_COPY);
	ky_buf_release(&text);
	if (!server->style)
		return -ENOMEM;
	ky_http_add_common(server->style, "text/css; charset=utf-8", LIST_POLICY,
			   "private, no-cache");
	return 0;
}

/* Returns a descriptor; -errno. */
static int listen_at(struct ky_http_server *server, const struct ky_http_options *options)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} at = {.v6 = {.sin6_family = AF_INET6}};
	socklen_t bytes = sizeof(at.v6);
	int fd, on = 1, result = 0;

	if (inet_pton(AF_INET6, options->address, &at.v6.sin6_addr) == 1) {
		at.v6.sin6_port = htons(options->port);
	} else {
		memset(&at, 0, sizeof(at));
		at.v4.sin_family = AF_INET;
		at.v4.sin_port = htons(options->port);
		bytes = sizeof(at.v4);
		if (inet_pton(AF_INET, options->address, &at.v4.sin_addr) != 1)
			return -EINVAL;
	}
	fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, &at.any, bytes) || listen(fd, SOMAXCONN) || getsockname(fd, &at.any, &bytes))
		result = -errno;
	server->port = ntohs(at.any.sa_family == AF_INET6 ? at.v6.sin6_port : at.v4.sin_port);
	if (!result)
		return fd;
	(void)close(fd);
	return result;
}

static int start(struct ky_http_server *server, int fd)
{
	server->daemon = MHD_start_daemon(
		MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL, server->port, NULL, NULL, answer,
		server, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
		KY_HTTP_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, KY_HTTP_IDLE_S_MAX,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)KY_HTTP_REQUEST_BYTES_MAX,
		MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_THREAD_POOL_SIZE,
		server->listing.is_slow ? THREADS : 0u, MHD_OPTION_NOTIFY_COMPLETED, completed,
		server, MHD_OPTION_NOTIFY_CONNECTION, connected, server, MHD_OPTION_END);
	if (server->daemon)
		return 0;
	(void)close(fd);
	return errno ? -errno : -EIO;
}

int ky_http_open(struct ky_http_server **out, const struct ky_http_options *options, char *error,
		 size_t error_bytes)
{
	struct ky_http_server *server;
	int result, fd;

	*out = NULL;
	if (!ky_http_library_load()) {
		(void)snprintf(
			error, error_bytes,
			"libmicrohttpd.so.12 cannot be loaded, so there is no server; install "
			"libmicrohttpd12, or use `kymo open`");
		return -ENOSYS;
	}
	server = ky_alloc(sizeof(*server));
	if (!server) {
		(void)snprintf(error, error_bytes, "%s", strerror(ENOMEM));
		return -ENOMEM;
	}
	server->listing = options->listing;
	(void)pthread_mutex_init(&server->answering, NULL);
	server->cut = options->cut;
	server->cut_ctx = options->cut_ctx;
	server->live_name = options->live_name;
	(void)pthread_mutex_init(&server->mutex, NULL);
	for (size_t i = 0; i < KY_HTTP_CONNECTIONS_MAX * 2; i++)
		server->links[i].fd = -1;
	(void)snprintf(server->address, sizeof(server->address), "%s", options->address);
	result = make_viewer(server, options->viewer);
	if (result == -EINVAL)
		(void)snprintf(error, error_bytes,
			       "viewer.html has no policy of its own, so it is not the viewer of "
			       "this kymo; `make viewer` builds it");
	else if (!result)
		result = make_style(server);
	if (!result)
		result = make_token(server);
	if (result && result != -EINVAL)
		(void)snprintf(error, error_bytes, "%s", strerror(-result));
	if (!result) {
		fd = listen_at(server, options);
		result = fd < 0 ? fd : start(server, fd);
		if (result)
			(void)snprintf(error, error_bytes, "%s port %u: %s", options->address,
				       options->port, strerror(-result));
	}
	if (result) {
		ky_http_close(server);
		return result;
	}
	*out = server;
	return 0;
}

void ky_http_url(const struct ky_http_server *server, char *out, size_t out_bytes)
{
	bool is_v6 = strchr(server->address, ':') != NULL;

	(void)snprintf(out, out_bytes, "http://%s%s%s:%u/%s/", is_v6 ? "[" : "", server->address,
		       is_v6 ? "]" : "", server->port, server->token);
}

void ky_http_close(struct ky_http_server *server)
{
	if (!server)
		return;
	if (server->daemon)
		MHD_stop_daemon(server->daemon);
	for (size_t i = 0; i < KY_HTTP_COPIES; i++)
		if (server->copies[i].serial)
			(void)close(server->copies[i].fd);
	for (size_t i = 0; i < KY_HTTP_CODINGS; i++)
		if (server->viewers[i])
			MHD_destroy_response(server->viewers[i]);
	ky_buf_release(&server->page);
	if (server->style)
		MHD_destroy_response(server->style);
	(void)pthread_mutex_destroy(&server->mutex);
	ky_free(server);
}
