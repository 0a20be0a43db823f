/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "tokio_names.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tokio_elf.h"

#define WINDOW_BYTES 65536u
#define LANES 16u
#define BUCKET_SHIFT 9

/* Sixteen bytes at once; the compiler splits it where the CPU cannot. */
typedef uint8_t lanes __attribute__((vector_size(LANES)));
typedef uint64_t halves __attribute__((vector_size(LANES)));

struct name_part {
	const char *text;
	uint32_t bytes;
	uint32_t pair_at; /* of the two bytes that hits() searches for */
};

/* Tokio's own, the library functions through which a call graph gets from one to another, and what
 * shows that the program brought its own recorder, or allocator. */
static const struct name_part parts[] = {
	{"tokio", 5, 2},         {"5panic", 6, 0},    {"9panicking", 10, 0},
	{"rust_try", 8, 4},      {"call_once", 9, 4}, {"kymo_recorder_open", 18, 13},
	{"_rjem_malloc", 12, 1}, {"mi_malloc", 9, 1},
};
static const char proof[] = "5tokio7runtime4task"; /* in both manglings, "tokio" a byte after */

struct name_window {
	char *text;    /* WINDOW_BYTES, and room to look ahead */
	size_t used;   /* of whole names */
	uint32_t from; /* of text[0], in the table */
};

static lanes load(const char *at)
{
	lanes bytes;

	memcpy(&bytes, at, sizeof(bytes));
	return bytes;
}

/* Nonzero bytes where a pair of a part stands. */
static halves hits(const char *at)
{
	lanes a = load(at), b = load(at + 1);
	lanes hit = (lanes)(((a == 'k') & (b == 'i')) | ((a == '_') & ((b == 'o') | (b == 't'))) |
			    (((a == '5') | (a == '9')) & (b == 'p')) | ((a == 'r') & (b == 'j')) |
			    ((a == 'i') & (b == '_')));

	return (halves)hit;
}

static bool is_part(const struct name_window *window, size_t pair, size_t *at)
{
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		const struct name_part *part = &parts[i];

		if (pair < part->pair_at || pair - part->pair_at + part->bytes > window->used)
			continue;
		*at = pair - part->pair_at;
		if (memcmp(window->text + *at, part->text, part->bytes) == 0)
			return true;
	}
	return false;
}

/* A larger mapping of the same pages; NULL: no memory, the old one stays. */
static void *grow(void *old, size_t *bytes, size_t first)
{
	size_t more = *bytes ? *bytes * 2 : first;
	void *next = NULL;

	if (more > UINT32_MAX)
		return NULL;
	if (old)
		next = mremap(old, *bytes, more, MREMAP_MAYMOVE);
	else
		next = ky_tokio_map(more);
	if (!next || next == MAP_FAILED)
		return NULL;
	*bytes = more;
	return next;
}

static int keep(struct ky_tokio_names *names, const struct name_window *window, size_t start,
		size_t end)
{
	size_t bytes = end - start + 1, mapped = names->kept_capacity * sizeof(*names->kept);

	while (bytes > names->texts_bytes - names->texts_used) {
		void *texts = grow(names->texts, &names->texts_bytes, WINDOW_BYTES);

		if (!texts)
			return -ENOMEM;
		names->texts = texts;
	}
	if (names->kept_count == names->kept_capacity) {
		void *kept = grow(names->kept, &mapped, 4096 * sizeof(*names->kept));

		if (!kept)
			return -ENOMEM;
		names->kept = kept;
		names->kept_capacity = mapped / sizeof(*names->kept);
	}
	names->kept[names->kept_count++] = (struct ky_tokio_kept){
		window->from + (uint32_t)start, 0, (uint32_t)names->texts_used, false};
	memcpy(names->texts + names->texts_used, window->text + start, bytes - 1);
	names->texts[names->texts_used + bytes - 1] = 0;
	names->texts_used += bytes;
	return 0;
}

/* A part stands at `at`: keeps the name around it, once. */
static int take(struct ky_tokio_names *names, const struct name_window *window, size_t at)
{
	const char *before = memrchr(window->text, 0, at);
	const char *after = memchr(window->text + at, 0, window->used - at);
	size_t start = before ? (size_t)(before - window->text) + 1 : 0;
	size_t end = after ? (size_t)(after - window->text) : window->used;
	int err = 0;

	if (window->text[at] == '_' || window->text[at] == 'm') {
		names->has_jemalloc |= window->text[at] == '_';
		names->has_mimalloc |= window->text[at] == 'm' && at == start;
		return 0;
	}
	if (end - start > KY_TOKIO_NAME_BYTES_MAX)
		return 0;
	if (!names->kept_count || names->kept[names->kept_count - 1].start != window->from + start)
		err = keep(names, window, start, end);
	if (err)
		return err;
	names->kept[names->kept_count - 1].last = window->from + (uint32_t)at;
	if (window->text[at] == 'k')
		names->has_recorder = true;
	if (at > start && at - 1 + sizeof(proof) <= window->used &&
	    memcmp(window->text + at - 1, proof, sizeof(proof) - 1) == 0)
		names->kept[names->kept_count - 1].is_proof = names->has_proof = true;
	return 0;
}

static int search(struct ky_tokio_names *names, const struct name_window *window)
{
	for (size_t i = 0; i < window->used; i += LANES) {
		halves hit = hits(window->text + i);

		for (size_t half = 0; half < 2; half++) {
			uint64_t left = hit[half];

			while (left) {
				unsigned lane = (unsigned)__builtin_ctzll(left) / 8;
				size_t at;

				left &= ~(UINT64_C(0xff) << lane * 8);
				if (is_part(window, i + half * 8 + lane, &at) &&
				    take(names, window, at) != 0)
					return -ENOMEM;
			}
		}
	}
	return 0;
}

/* How many of these bytes are whole names. A name without an end is cut. */
static size_t whole(const char *text, size_t bytes)
{
	const char *last = memrchr(text, 0, bytes);

	return last ? (size_t)(last - text) + 1 : bytes;
}

static int read_pieces(struct ky_tokio_names *names, struct name_window *window, int fd,
		       uint64_t offset, uint32_t bytes)
{
	while (window->from < bytes) {
		size_t some = bytes - window->from < WINDOW_BYTES ? bytes - window->from :
								    WINDOW_BYTES;
		int err = 0;

		if (!ky_tokio_read_at(fd, window->text, some, offset + window->from))
			return 1;
		memset(window->text + some, 0, 2 * LANES);
		window->used = whole(window->text, some);
		err = search(names, window);
		if (err)
			return err;
		window->from += (uint32_t)window->used;
	}
	return 0;
}

static int fill_buckets(struct ky_tokio_names *names, uint32_t bytes)
{
	size_t at = 0;

	names->bucket_count = ((size_t)bytes >> BUCKET_SHIFT) + 1;
	names->buckets = ky_tokio_map(names->bucket_count * sizeof(*names->buckets));
	if (!names->buckets)
		return -ENOMEM;
	for (size_t i = 0; i < names->bucket_count; i++) {
		while (at < names->kept_count && names->kept[at].start < i << BUCKET_SHIFT)
			at++;
		names->buckets[i] = (uint32_t)at;
	}
	return 0;
}

int ky_tokio_names_read(struct ky_tokio_names *out, int fd, uint64_t offset, uint32_t bytes)
{
	struct name_window window = {.text = ky_tokio_map(WINDOW_BYTES + 2 * LANES)};
	int err = -ENOMEM;

	memset(out, 0, sizeof(*out));
	if (window.text) {
		err = read_pieces(out, &window, fd, offset, bytes);
		munmap(window.text, WINDOW_BYTES + 2 * LANES);
	}
	if (!err)
		err = fill_buckets(out, bytes);
	if (err)
		ky_tokio_names_release(out);
	return err;
}

void ky_tokio_names_release(struct ky_tokio_names *names)
{
	if (names->texts)
		munmap(names->texts, names->texts_bytes);
	if (names->kept)
		munmap(names->kept, names->kept_capacity * sizeof(*names->kept));
	if (names->buckets)
		munmap(names->buckets, names->bucket_count * sizeof(*names->buckets));
	memset(names, 0, sizeof(*names));
}

uint32_t ky_tokio_names_find(const struct ky_tokio_names *names, uint32_t at, bool *is_proof)
{
	size_t bucket = at >> BUCKET_SHIFT, next;
	const struct ky_tokio_kept *kept;

	if (bucket >= names->bucket_count)
		return UINT32_MAX;
	next = names->buckets[bucket];
	while (next < names->kept_count && names->kept[next].start <= at)
		next++;
	if (next == 0)
		return UINT32_MAX;
	kept = &names->kept[next - 1];
	*is_proof = kept->is_proof;
	/* After the last part, or after the name altogether. */
	return at <= kept->last ? kept->text + (at - kept->start) : UINT32_MAX;
}
