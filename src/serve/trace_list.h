/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* trace_list.h - the traces below some directories, found anew when asked, read in the background.
 *
 * Invariants: only what lies below a root is opened, name by name, through no symbolic link; a
 *             client names a trace by an id that we gave out, never by a path.
 * Id:         of the file (device, inode, birth), so it survives the new name of a sealed segment.
 * Input:      names and contents are untrusted. Names with a dot in front are passed over, as are
 *             symbolic links and what holds no trace.
 * Memory:     KY_LISTED_MAX entries with their facts, KY_LISTED_INFO_MAX of what kymo info says.
 * Threads:    any for what has a list; one thread of its own reads the files.
 */
#ifndef KY_SERVE_TRACE_LIST_H
#define KY_SERVE_TRACE_LIST_H

#include <serve/trace_facts.h>
#include <stddef.h>

#define KY_LISTED_MAX 65536u
#define KY_LISTED_INFO_MAX (UINT64_C(256) << 20) /* of all; what comes later has none */
#define KY_LISTED_DEPTH_MAX 16u
#define KY_LISTED_ID_BYTES 17u
#define KY_LISTED_ETAG_BYTES 64u

enum ky_listed_state {
	KY_LISTED_WAITING, /* not read yet */
	KY_LISTED_READ,
	KY_LISTED_FAILED, /* facts.sentence says why */
	KY_LISTED_FOREIGN /* holds no trace: not shown */
};

struct ky_listed {
	uint64_t id;
	uint32_t root;
	char *path;       /* below its root */
	const char *name; /* its last part */
	char *shown;      /* with the root as it was named */
	uint64_t bytes, changed_ns;
	uint64_t read_bytes, read_changed_ns; /* as it was when its facts were read */
	uint64_t due_ns;                      /* not read again before: it grows */
	uint32_t state;                       /* enum ky_listed_state */
	bool is_named;                        /* by the user: shown whatever it holds */
	bool is_seen;                         /* by the scan that runs */
	bool is_far;                          /* not on this machine: its bytes are fetched */
	struct ky_trace_facts facts;
};

struct ky_trace_list;

/* paths: directories and files. error: one sentence. Returns 0; -errno. */
int ky_trace_list_open(struct ky_trace_list **out, char **paths, size_t count, char *error,
		       size_t error_bytes);
void ky_trace_list_close(struct ky_trace_list *list);

/* Looks for what is new, changed or gone, and holds the list still until the end. In the order of
 * names; *waiting_count: of those not read yet; *is_cut: there are more. */
const struct ky_listed *ky_trace_list_begin(struct ky_trace_list *list, size_t *count,
					    size_t *waiting_count, bool *is_cut);
void ky_trace_list_end(struct ky_trace_list *list);

/* Between begin and end; NULL: there is none. */
const struct ky_listed *ky_trace_list_find(const struct ky_trace_list *list, const char *id);

/* Is what the facts say of the file as it is now? */
static inline bool ky_listed_is_current(const struct ky_listed *one)
{
	return one->read_bytes == one->bytes && one->read_changed_ns == one->changed_ns;
}

#endif
