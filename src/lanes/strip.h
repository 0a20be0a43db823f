/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* strip.h - a lane as a row of pixels: what each pixel shows, and so what a click there selects.
 *
 * Pixel i of `pixels` covers [edge(i), edge(i + 1)) of the view. Its row is the longest of those
 * that begin in it and of the one that reaches into it: of rows that began before and have not
 * ended, the one that ends last. Rows of a worker lie inside or after each other, so that is the
 * longest of all rows in the pixel.
 * Share:       how much of the pixel its rows cover, 0 to 255; at least 1 where there is a row.
 * Threads:     any.
 */
#ifndef KY_LANES_STRIP_H
#define KY_LANES_STRIP_H

#include <lanes/forest.h>

#define KY_STRIP_PIXELS_MAX 16384u
#define KY_STRIP_SHARE_MAX 255u

struct ky_view {
	uint64_t from_ns, to_ns; /* from < to */
	uint32_t pixels;         /* 1 .. KY_STRIP_PIXELS_MAX */
};

struct ky_strip_pixel {
	uint64_t start_ns, length_ns; /* of its row */
	uint32_t row;                 /* UINT32_MAX: none */
	uint32_t share;
};

/* pixel: 0 .. pixels, where the last is to_ns. */
uint64_t ky_view_edge(const struct ky_view *view, uint32_t pixel);

/* Fills out[0 .. view->pixels). */
void ky_strip_make(struct ky_strip_pixel *out, const struct ky_forest *forest,
		   const struct ky_view *view);

#endif
