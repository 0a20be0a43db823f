/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ship/trace_paths.h>

#include <base/alloc.h>
#include <base/text.h>
#include <errno.h>
#include <fts.h>
#include <kymo/base.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int append(struct ky_trace_paths *list, const char *path)
{
	if (list->count == KY_TRACE_PATHS_MAX)
		return KYMO_E_LIMIT;
	if (ky_grow(&list->paths, &list->capacity, list->count + 1, sizeof(char *)))
		return -ENOMEM;
	list->paths[list->count] = ky_text_join(path, "");
	if (!list->paths[list->count])
		return -ENOMEM;
	list->count++;
	return 0;
}

static void remember(uint64_t *count, char **first, const char *path)
{
	if ((*count)++ == 0)
		*first = ky_text_join(path, "");
}

/* A torn or too new trace is one all the same: opening it will say so. */
static int add_if_trace(struct ky_trace_paths *list, const char *path,
			const struct ky_inflate_options *options)
{
	struct ky_byte_source source;
	int result = ky_inflate_open(&source, path, options, NULL, 0);

	if (result == 0)
		source.close(source.ctx);
	if (result == -ENOMEM)
		return result;
	if (result == 0 || result == KYMO_E_TRUNCATED || result == KYMO_E_VERSION ||
	    result == KYMO_E_CORRUPT || result == KYMO_E_LIMIT)
		return append(list, path);
	if (result == KYMO_E_NOT_TRACE)
		remember(&list->foreign_count, &list->foreign_first, path);
	else
		remember(&list->unreadable_count, &list->unreadable_first, path);
	return 0;
}

static int natural_order(const FTSENT **a, const FTSENT **b)
{
	return strverscmp((*a)->fts_name, (*b)->fts_name);
}

/* A link to what stands beside it, such as DIR/SERVICE/latest: that is read by its own name. */
static bool leads_beside(const FTSENT *entry)
{
	char target[256];
	ssize_t bytes = entry->fts_level > 0 ? readlink(entry->fts_path, target, sizeof(target)) :
					       -1;

	return bytes > 0 && target[0] != '.' && !memchr(target, '/', (size_t)bytes);
}

static int add_entry(struct ky_trace_paths *list, FTS *tree, FTSENT *entry,
		     const struct ky_inflate_options *options)
{
	switch (entry->fts_info) {
	case FTS_D:
		if (entry->fts_level > 0 && (entry->fts_name[0] == '.' || leads_beside(entry)))
			(void)fts_set(tree, entry, FTS_SKIP);
		return 0;
	case FTS_F:
		return entry->fts_name[0] == '.' ? 0 : add_if_trace(list, entry->fts_path, options);
	case FTS_DNR:
	case FTS_ERR:
	case FTS_NS:
		remember(&list->unreadable_count, &list->unreadable_first, entry->fts_path);
		return 0;
	default: /* directories on the way out, cycles, sockets, dangling links */
		return 0;
	}
}

static int add_directory(struct ky_trace_paths *list, const char *path,
			 const struct ky_inflate_options *options)
{
	char *root = ky_text_join(path, "");
	char *roots[2] = {root, NULL};
	FTS *tree = NULL;
	int result = -ENOMEM;

	if (root)
		tree = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, natural_order);
	if (tree) {
		FTSENT *entry;

		result = 0;
		while (!result && (entry = fts_read(tree)) != NULL)
			result = add_entry(list, tree, entry, options);
		(void)fts_close(tree);
	}
	ky_free(root);
	return result;
}

static void say(char *error, size_t error_bytes, const char *path, const char *text)
{
	if (error && error_bytes)
		(void)snprintf(error, error_bytes, "%s: %s", path, text);
}

int ky_trace_paths_add(struct ky_trace_paths *list, const char *path,
		       const struct ky_inflate_options *options, char *error, size_t error_bytes)
{
	size_t before = list->count;
	uint64_t unreadable = list->unreadable_count;
	struct stat info;
	int result;

	if (strcmp(path, "-") == 0)
		return append(list, path);
	if (stat(path, &info) != 0) {
		result = -errno;
		say(error, error_bytes, path, kymo_error_text(result));
		return result;
	}
	if (!S_ISDIR(info.st_mode))
		return append(list, path);
	result = add_directory(list, path, options);
	if (result == KYMO_E_LIMIT)
		say(error, error_bytes, path, "more than a million trace files; name fewer");
	else if (result)
		say(error, error_bytes, path, kymo_error_text(result));
	if (result || list->count > before)
		return result;
	if (list->unreadable_count > unreadable) {
		say(error, error_bytes, path, "no trace in this directory that may be read");
		return -EACCES;
	}
	say(error, error_bytes, path,
	    "no trace below this directory; name one that a recorder wrote to");
	return KYMO_E_NOT_TRACE;
}

void ky_trace_paths_release(struct ky_trace_paths *list)
{
	for (size_t i = 0; i < list->count; i++)
		ky_free(list->paths[i]);
	ky_free(list->paths);
	ky_free(list->foreign_first);
	ky_free(list->unreadable_first);
	memset(list, 0, sizeof(*list));
}
