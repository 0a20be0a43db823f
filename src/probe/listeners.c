/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <probe/listeners.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <proc/cgroup_files.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TCP_LISTEN_STATE 10u /* of the kernel's enum; <netinet/tcp.h> and <linux/tcp.h> clash */
#define MESSAGES_MAX 64u
#define DENTS_BYTES 4096u
#define REPORTED_READINGS 10u
#define RECHECK_READINGS 64u

/* ---- by sock_diag ---- */

static void take_drops(struct ky_listener *listener, const uint8_t *at, size_t left)
{
	while (left >= sizeof(struct rtattr)) {
		struct rtattr attribute;
		uint32_t memory[SK_MEMINFO_VARS];
		size_t step;

		memcpy(&attribute, at, sizeof(attribute));
		if (attribute.rta_len < sizeof(attribute) || attribute.rta_len > left)
			return;
		if (attribute.rta_type == INET_DIAG_SKMEMINFO &&
		    attribute.rta_len >= sizeof(attribute) + sizeof(memory)) {
			memcpy(memory, at + sizeof(attribute), sizeof(memory));
			listener->drops = memory[SK_MEMINFO_DROPS];
			listener->has_drops = true;
		}
		step = RTA_ALIGN((size_t)attribute.rta_len);
		if (step >= left)
			return;
		at += step;
		left -= step;
	}
}

static bool take_socket(struct ky_listener *listener, const uint8_t *bytes, size_t count)
{
	struct inet_diag_msg message;

	if (count < sizeof(message))
		return false;
	memcpy(&message, bytes, sizeof(message));
	if (message.idiag_state != TCP_LISTEN_STATE)
		return false;
	memset(listener, 0, sizeof(*listener));
	listener->version = message.idiag_family == AF_INET6 ? 6 : 4;
	listener->cookie = (uint64_t)message.id.idiag_cookie[1] << 32 | message.id.idiag_cookie[0];
	listener->inode = message.idiag_inode;
	listener->port = ntohs(message.id.idiag_sport);
	listener->pending = message.idiag_rqueue;
	listener->limit = message.idiag_wqueue;
	memcpy(listener->address, message.id.idiag_src, listener->version == 6 ? 16 : 4);
	take_drops(listener, bytes + sizeof(message), count - sizeof(message));
	return true;
}

int ky_listeners_message(const void *bytes, size_t count, struct ky_listener *out, uint32_t max,
			 uint32_t *used)
{
	const uint8_t *at = bytes;

	while (count >= sizeof(struct nlmsghdr)) {
		struct nlmsghdr head;
		struct nlmsgerr error = {0};
		size_t step;

		memcpy(&head, at, sizeof(head));
		if (head.nlmsg_len < sizeof(head) || head.nlmsg_len > count)
			return -EPROTO;
		if (head.nlmsg_type == NLMSG_DONE)
			return 0;
		if (head.nlmsg_type == NLMSG_ERROR) {
			if (head.nlmsg_len >= NLMSG_HDRLEN + sizeof(error.error))
				memcpy(&error.error, at + NLMSG_HDRLEN, sizeof(error.error));
			return error.error < 0 && error.error > -4096 ? error.error : -EPROTO;
		}
		if (*used < max &&
		    take_socket(&out[*used], at + NLMSG_HDRLEN, head.nlmsg_len - NLMSG_HDRLEN))
			(*used)++;
		step = NLMSG_ALIGN((size_t)head.nlmsg_len);
		if (step >= count)
			return 1;
		at += step;
		count -= step;
	}
	return count ? -EPROTO : 1;
}

/* flags NLM_F_DUMP: for all of a family, id all zeros; else for one. */
static int ask(int fd, uint8_t family, uint16_t flags, const struct inet_diag_sockid *id)
{
	struct {
		struct nlmsghdr head;
		struct inet_diag_req_v2 request;
	} message = {
		.head = {.nlmsg_len = sizeof(message),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST | flags},
		.request = {.sdiag_family = family,
			    .sdiag_protocol = IPPROTO_TCP,
			    .idiag_ext = 1u << (INET_DIAG_SKMEMINFO - 1),
			    .idiag_states = 1u << TCP_LISTEN_STATE,
			    .id = *id},
	};
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};

	if (sendto(fd, &message, sizeof(message), MSG_DONTWAIT | MSG_NOSIGNAL,
		   (const struct sockaddr *)&kernel, sizeof(kernel)) < 0)
		return -errno;
	return 0;
}

static int ask_all(int fd, uint8_t family)
{
	const struct inet_diag_sockid any = {.idiag_sport = 0};

	return ask(fd, family, NLM_F_DUMP, &any);
}

/* One socket by its address: a reading of all walks the kernel's whole table of listeners. Of
 * several at one address the kernel has one answer; the cookie says whether it is the right one. */
static int ask_one(int fd, const struct ky_listener *of)
{
	struct inet_diag_sockid id = {.idiag_sport = htons(of->port),
				      .idiag_cookie = {(uint32_t)of->cookie,
						       (uint32_t)(of->cookie >> 32)}};

	memcpy(id.idiag_src, of->address, sizeof(of->address));
	return ask(fd, of->version == 6 ? AF_INET6 : AF_INET, 0, &id);
}

static bool read_one(struct ky_listeners *listeners, int fd, const struct ky_listener *of,
		     struct ky_listener *out)
{
	uint32_t used = 0;
	ssize_t count;

	if (ask_one(fd, of) != 0)
		return false;
	count = recv(fd, listeners->bytes, sizeof(listeners->bytes), MSG_DONTWAIT);
	return count > 0 &&
	       ky_listeners_message(listeners->bytes, (size_t)count, out, 1, &used) >= 0 && used &&
	       out->inode == of->inode && out->cookie == of->cookie;
}

/* The answer is made while it is asked for: nothing here waits. */
static int read_family(struct ky_listeners *listeners, int fd, uint8_t family, uint32_t *used)
{
	int more = ask_all(fd, family);

	if (more < 0)
		return more;
	more = 1;
	for (uint32_t i = 0; i < MESSAGES_MAX && more > 0; i++) {
		ssize_t count = recv(fd, listeners->bytes, sizeof(listeners->bytes),
				     MSG_DONTWAIT | MSG_TRUNC);

		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return -errno;
		if ((size_t)count > sizeof(listeners->bytes))
			return -EMSGSIZE;
		more = ky_listeners_message(listeners->bytes, (size_t)count, listeners->all,
					    KY_LISTENERS_MAX, used);
	}
	return more < 0 ? more : 0;
}

static int read_diag(struct ky_listeners *listeners, uint32_t *used)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	int err;

	if (fd < 0)
		return -errno;
	err = read_family(listeners, fd, AF_INET, used);
	if (!err)
		err = read_family(listeners, fd, AF_INET6, used);
	/* Without IPv6 nothing answers. */
	if (err == -ENOENT && *used)
		err = 0;
	close(fd);
	return err;
}

/* ---- by /proc/PID/net ---- */

/* "0100007F" or four such words, each in the machine's order, ":", the port. */
static bool take_address(const char *text, struct ky_listener *out)
{
	uint32_t words = out->version == 6 ? 4 : 1;
	char *end;

	for (uint32_t i = 0; i < words; i++) {
		char word[9] = "";
		uint32_t value;

		memcpy(word, text + (size_t)8 * i, 8);
		value = (uint32_t)strtoul(word, &end, 16);
		if (end != word + 8)
			return false;
		memcpy(out->address + (size_t)4 * i, &value, sizeof(value));
	}
	out->port = (uint16_t)strtoul(text + (size_t)8 * words + 1, &end, 16);
	return text[(size_t)8 * words] == ':' && end != text + (size_t)8 * words + 1;
}

/* "  0: 0100007F:1F90 00000000:0000 0A 00000000:00000080 00:00000000 00000000  0  0 12345 ..." */
static bool take_line(const char *line, size_t bytes, struct ky_listener *out)
{
	enum {
		LOCAL = 1,
		STATE = 3,
		QUEUES = 4,
		INODE = 9,
		FIELDS
	};
	char copy[256], *fields[FIELDS] = {NULL}, *rest = copy, *field, *end;
	uint32_t count = 0;

	if (bytes >= sizeof(copy))
		bytes = sizeof(copy) - 1;
	memcpy(copy, line, bytes);
	copy[bytes] = 0;
	while (count < FIELDS && (field = strsep(&rest, " ")) != NULL)
		if (*field)
			fields[count++] = field;
	if (count < FIELDS || strtoul(fields[STATE], NULL, 16) != TCP_LISTEN_STATE ||
	    strlen(fields[LOCAL]) < (out->version == 6 ? 34u : 10u) ||
	    !take_address(fields[LOCAL], out))
		return false;
	out->limit = (uint32_t)strtoul(fields[QUEUES], &end, 16);
	if (*end != ':')
		return false;
	out->pending = (uint32_t)strtoul(end + 1, NULL, 16);
	out->inode = strtoull(fields[INODE], &end, 10);
	return end != fields[INODE];
}

uint32_t ky_listeners_parse(const char *text, uint8_t version, struct ky_listener *out,
			    uint32_t max)
{
	const char *line = strchr(text, '\n'); /* after the titles */
	uint32_t used = 0;

	while (line && line[1] && used < max) {
		size_t bytes = strcspn(line + 1, "\n");
		struct ky_listener listener = {.version = version};

		/* Listeners come first. A line that is cut has no end. */
		if (!line[1 + bytes] || !take_line(line + 1, bytes, &listener))
			break;
		out[used++] = listener;
		line += 1 + bytes;
	}
	return used;
}

static int read_files(struct ky_listeners *listeners, int dir, uint32_t *used)
{
	static const char *const names[] = {"net/tcp", "net/tcp6"};
	char *text = (char *)listeners->bytes;
	int first = 0;

	for (uint32_t i = 0; i < 2; i++) {
		int count = ky_proc_read_text(dir, names[i], text, sizeof(listeners->bytes));

		if (count < 0 && i == 0)
			first = count;
		if (count > 0)
			*used += ky_listeners_parse(text, i ? 6 : 4, listeners->all + *used,
						    KY_LISTENERS_MAX - *used);
	}
	return *used ? 0 : first;
}

static bool is_in_our_namespace(int dir)
{
	struct stat theirs, ours;

	return fstatat(dir, "ns/net", &theirs, 0) == 0 && stat("/proc/self/ns/net", &ours) == 0 &&
	       theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino;
}

/* ---- whose they are ---- */

static struct ky_listener_known *find_inode(struct ky_listeners *listeners, uint64_t inode)
{
	for (uint32_t i = 0; i < listeners->count; i++)
		if (listeners->known[i].now.inode == inode)
			return &listeners->known[i];
	return NULL;
}

bool ky_listeners_are_searched(const struct ky_listeners *listeners)
{
	for (uint32_t i = 0; i < listeners->count; i++)
		if (listeners->known[i].owner == KY_LISTENER_SEARCHED)
			return true;
	return false;
}

static void take_descriptor(struct ky_listeners *listeners, int fds, const char *name)
{
	struct ky_listener_known *known;
	char link[64];
	ssize_t count = readlinkat(fds, name, link, sizeof(link) - 1);

	if (count <= 8)
		return;
	link[count] = 0;
	if (strncmp(link, "socket:[", 8) != 0)
		return;
	known = find_inode(listeners, strtoull(link + 8, NULL, 10));
	if (known)
		known->owner = KY_LISTENER_OURS;
}

/* What no descriptor from the first to the last belongs to is of another process. */
static void end_search(struct ky_listeners *listeners)
{
	for (uint32_t i = 0; i < listeners->count; i++) {
		struct ky_listener_known *known = &listeners->known[i];

		if (known->owner == KY_LISTENER_SEARCHED && known->round <= listeners->search_round)
			known->owner = KY_LISTENER_OTHERS;
	}
	listeners->search_round++;
	listeners->search_at = 0;
}

struct listener_entry {
	uint64_t inode;
	int64_t next;
	uint16_t bytes;
	uint8_t type;
	char name[];
};

/* Continues where the last reading's search stopped. */
static int search(struct ky_listeners *listeners, int dir)
{
	uint8_t *bytes = listeners->bytes;
	int fds = openat(dir, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint32_t seen = 0;
	long count = -1;

	if (fds < 0)
		return -errno;
	if (lseek(fds, listeners->search_at, SEEK_SET) >= 0) {
		while (seen < KY_LISTENER_FDS_MAX &&
		       (count = syscall(SYS_getdents64, fds, bytes, DENTS_BYTES)) > 0) {
			for (long at = 0; at < count; seen++) {
				const struct listener_entry *entry = (const void *)(bytes + at);

				take_descriptor(listeners, fds, entry->name);
				listeners->search_at = entry->next;
				at += entry->bytes;
			}
		}
	}
	close(fds);
	if (count <= 0)
		end_search(listeners);
	return 0;
}

/* ---- a reading ---- */

static void take(struct ky_listeners *listeners, const struct ky_listener *listener)
{
	struct ky_listener_known *known = find_inode(listeners, listener->inode);

	if (known && known->now.cookie != listener->cookie) /* the number went to another socket */
		known->owner = KY_LISTENER_SEARCHED;
	if (!known) {
		if (listeners->count == KY_LISTENERS_MAX) {
			listeners->is_overfull = true;
			return;
		}
		known = &listeners->known[listeners->count++];
		memset(known, 0, sizeof(*known));
		known->is_news = true;
		/* One that is under way may have passed it. */
		known->round = listeners->search_round + (listeners->search_at != 0);
	}
	known->is_there = true;
	known->is_news |= known->now.pending != listener->pending ||
			  known->now.drops != listener->drops ||
			  known->now.limit != listener->limit || listener->pending ||
			  listeners->reading - known->reported_reading >= REPORTED_READINGS;
	known->now = *listener;
}

static void forget_closed(struct ky_listeners *listeners)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < listeners->count; i++)
		if (listeners->known[i].is_there)
			listeners->known[kept++] = listeners->known[i];
	listeners->count = kept;
}

/* A socket can be passed to a process that has run for long. Rarer and rarer. */
static void recheck(struct ky_listeners *listeners)
{
	if (!listeners->recheck_reading)
		listeners->recheck_reading = listeners->reading + RECHECK_READINGS;
	if (listeners->reading < listeners->recheck_reading)
		return;
	listeners->recheck_reading = listeners->reading * 2;
	for (uint32_t i = 0; i < listeners->count; i++) {
		struct ky_listener_known *known = &listeners->known[i];

		if (known->owner == KY_LISTENER_OTHERS) {
			known->owner = KY_LISTENER_SEARCHED;
			known->round = listeners->search_round + (listeners->search_at != 0);
		}
	}
}

int ky_listeners_read(struct ky_listeners *listeners, int dir, bool is_own)
{
	const struct ky_listener *all = listeners->all;
	bool is_ours = is_own || is_in_our_namespace(dir);
	uint32_t used = 0;
	int err = is_ours ? read_diag(listeners, &used) : -EXDEV;

	if (err) {
		used = 0;
		err = read_files(listeners, dir, &used);
	}
	if (err)
		return err;
	listeners->reading++;
	listeners->is_overfull = used == KY_LISTENERS_MAX;
	for (uint32_t i = 0; i < listeners->count; i++)
		listeners->known[i].is_there = false;
	/* Those that are known first: they keep their places. */
	for (uint32_t i = 0; i < used; i++)
		if (find_inode(listeners, all[i].inode))
			take(listeners, &all[i]);
	forget_closed(listeners);
	for (uint32_t i = 0; i < used; i++)
		if (!find_inode(listeners, all[i].inode))
			take(listeners, &all[i]);
	recheck(listeners);
	return ky_listeners_are_searched(listeners) ? search(listeners, dir) : 0;
}

bool ky_listeners_look(struct ky_listeners *listeners)
{
	bool is_news = false;
	int fd = -1;

	for (uint32_t i = 0; i < listeners->count; i++) {
		struct ky_listener_known *known = &listeners->known[i];
		struct ky_listener now;

		if (known->owner != KY_LISTENER_OURS || !known->now.cookie)
			continue;
		if (fd < 0)
			fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
		if (fd < 0)
			break;
		if (!read_one(listeners, fd, &known->now, &now) ||
		    now.pending == known->now.pending)
			continue;
		known->now = now;
		known->is_news = is_news = true;
	}
	if (fd >= 0)
		close(fd);
	return is_news;
}
