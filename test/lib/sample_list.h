/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* sample_list.h - the cells of one class in memory of the test's own, and what a sampler has put
 * there, in the order of its claims.
 */
#ifndef KY_TEST_SAMPLE_LIST_H
#define KY_TEST_SAMPLE_LIST_H

#include <wire/sample_area.h>

#define SAMPLE_LIST_CELLS 8192u

struct sample_list {
	struct ky_sample_class_head head;
	uint8_t *cells;
	struct ky_sample_ring ring;
	uint64_t claim; /* what is read next */
};

struct listed_sample {
	struct ky_sample sample; /* frames: of this struct */
	uint64_t frames[KY_SAMPLE_FRAMES_MAX];
};

void sample_list_open(struct sample_list *list);
void sample_list_close(struct sample_list *list);

/* The next one. False: there is none. */
bool sample_list_next(struct sample_list *list, struct listed_sample *out);

#endif
