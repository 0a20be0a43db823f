/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* sent_list.h - which segments of a run a destination has: one list a destination, in the run's
 * directory, beside the segments.
 *
 * Format:      lines of text; "to NAME", "took SEGMENT", "lost SEGMENT BYTES" (deleted by the bound
 *              on disk before it was taken), "part SEGMENT WORD" (of what is sent in parts, this
 *              one arrived). Of took and lost of one segment the first counts.
 * Invariants:  a line is on disk before the next segment is offered; a torn last line is cut. A
 *              list whose line could not be written costs one segment that is sent again, and that
 *              the destination knows.
 * Lock:        who sends holds it, so that two never send one run to one destination.
 * Threads:     owner of the object; the functions on a directory: any.
 */
#ifndef KY_SHIP_SENT_LIST_H
#define KY_SHIP_SENT_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KY_SENT_LIST_NAME_BYTES 24u

/* Hashes of names, in a table with empty places. */
struct ky_sent_names {
	uint64_t *hashes;
	uint32_t capacity, count;
};

struct ky_sent_list {
	int fd;
	struct ky_sent_names taken, parts;
	uint64_t lost_count, lost_bytes; /* deleted before they were taken, as of the opening */
};

/* ".sent-" and 16 digits. */
void ky_sent_list_name(char out[KY_SENT_LIST_NAME_BYTES], const char *destination);
bool ky_sent_list_is_name(const char *name);

/* Makes it where it is missing. Returns 0; -EBUSY: another process sends this run there; -errno;
 * -ENOMEM. */
int ky_sent_list_open(struct ky_sent_list *list, int run_fd, const char *destination);
void ky_sent_list_close(struct ky_sent_list *list);

bool ky_sent_list_has(const struct ky_sent_list *list, const char *segment);
/* Returns 0; -errno of the write or its sync: until close it is known all the same. */
int ky_sent_list_add(struct ky_sent_list *list, const char *segment);
/* part: a word without blanks. Returns the same. */
int ky_sent_list_add_part(struct ky_sent_list *list, const char *segment, const char *part);
bool ky_sent_list_has_part(const struct ky_sent_list *list, const char *segment, const char *part);
/* In memory alone; a list for this alone needs no file (fd -1). Returns 0, -ENOMEM. */
int ky_sent_list_refuse(struct ky_sent_list *list, const char *segment);

struct ky_sent_counts {
	uint64_t destination_count; /* lists in the directory */
	uint64_t taken_count;       /* of all lists together */
	uint64_t waiting_count;     /* sealed segments that a list does not have, of each list */
	uint64_t lost_count, lost_bytes;
};
/* Adds what the lists in that directory say. */
void ky_sent_counts_add(struct ky_sent_counts *counts, int run_fd);

/* A segment is deleted: notes it in each list that does not have it. Returns how many these are. */
uint32_t ky_sent_lists_note_deleted(int run_fd, const char *segment, uint64_t bytes);
/* Deletes the lists of a run that has no segment any more. */
void ky_sent_lists_remove(int run_fd);

#endif
