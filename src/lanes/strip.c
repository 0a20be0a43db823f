/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <lanes/strip.h>

uint64_t ky_view_edge(const struct ky_view *view, uint32_t pixel)
{
	uint64_t span = view->to_ns - view->from_ns;

	return view->from_ns + span / view->pixels * pixel +
	       span % view->pixels * pixel / view->pixels;
}

static uint32_t share_of(uint64_t covered_ns, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t width_ns = to_ns - from_ns, share;

	if (covered_ns >= width_ns)
		return KY_STRIP_SHARE_MAX;
	while (covered_ns > UINT64_MAX / KY_STRIP_SHARE_MAX) {
		covered_ns >>= 1;
		width_ns >>= 1;
	}
	share = covered_ns * KY_STRIP_SHARE_MAX / width_ns;
	return share ? (uint32_t)share : 1;
}

/* What began before the pixel and reaches into it. */
struct carried {
	uint64_t start_ns, length_ns, end_ns;
	uint32_t row;
};

static void carry(struct carried *carried, const struct ky_forest *forest,
		  const struct ky_forest_node *rows, uint64_t edge_ns)
{
	if (carried->row != UINT32_MAX && carried->end_ns <= edge_ns)
		carried->row = UINT32_MAX;
	if (rows->last == UINT32_MAX || rows->end_ns <= edge_ns ||
	    (carried->row != UINT32_MAX && carried->end_ns >= rows->end_ns))
		return;
	carried->row = rows->last;
	carried->end_ns = rows->end_ns;
	forest->row(forest->ctx, rows->last, &carried->start_ns, &carried->length_ns);
}

static uint64_t sum_up_to(uint64_t a, uint64_t b)
{
	return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

static void fill(struct ky_strip_pixel *pixel, const struct ky_forest *forest,
		 const struct carried *carried, const struct ky_forest_node *rows, uint64_t from_ns,
		 uint64_t to_ns)
{
	uint64_t covered_ns = rows->sum_ns, start_ns, length_ns;

	*pixel = (struct ky_strip_pixel){.row = UINT32_MAX};
	if (rows->last != UINT32_MAX && rows->end_ns > to_ns) {
		uint64_t beyond_ns = rows->end_ns - to_ns;

		covered_ns = covered_ns > beyond_ns ? covered_ns - beyond_ns : 0;
	}
	if (carried->row != UINT32_MAX) {
		uint64_t end_ns = carried->end_ns < to_ns ? carried->end_ns : to_ns;

		covered_ns = sum_up_to(covered_ns, end_ns - from_ns);
		pixel->row = carried->row;
		pixel->start_ns = carried->start_ns;
		pixel->length_ns = carried->length_ns;
	}
	if (rows->longest != UINT32_MAX &&
	    (pixel->row == UINT32_MAX || rows->longest_ns > pixel->length_ns)) {
		forest->row(forest->ctx, rows->longest, &start_ns, &length_ns);
		pixel->row = rows->longest;
		pixel->start_ns = start_ns;
		pixel->length_ns = length_ns;
	}
	if (pixel->row != UINT32_MAX)
		pixel->share = share_of(covered_ns, from_ns, to_ns);
}

void ky_strip_make(struct ky_strip_pixel *out, const struct ky_forest *forest,
		   const struct ky_view *view)
{
	struct carried carried = {.row = UINT32_MAX};
	uint32_t first = ky_forest_find(forest, view->from_ns);
	struct ky_forest_node rows = ky_forest_range(forest, 0, first);

	for (uint32_t i = 0; i < view->pixels; i++) {
		uint64_t from_ns = ky_view_edge(view, i), to_ns = ky_view_edge(view, i + 1);
		uint32_t end = first;

		carry(&carried, forest, &rows, from_ns);
		if (to_ns > from_ns && first < forest->row_count)
			end = ky_forest_find_from(forest, to_ns, first);
		rows = ky_forest_range(forest, first, end);
		if (to_ns > from_ns)
			fill(&out[i], forest, &carried, &rows, from_ns, to_ns);
		else
			out[i] = i ? out[i - 1] : (struct ky_strip_pixel){.row = UINT32_MAX};
		first = end;
	}
}
