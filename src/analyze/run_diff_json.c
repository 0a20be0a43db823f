/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/run_diff.h>

#include <analyze/log_exp.h>
#include <base/json_write.h>

/* Parts per million more, of a logarithm. */
static int64_t ppm(double logarithm)
{
	double share = ky_exp(logarithm) - 1;

	if (share > 1e12)
		return INT64_C(1000000000000000000);
	return (int64_t)(share * 1e6 + (share < 0 ? -0.5 : 0.5));
}

static void put_value(struct ky_buf *out, const struct ky_diff *diff, uint32_t quantile,
		      const struct ky_diff_value *value)
{
	ky_json_open(out, ky_run_quantile_keys[quantile], "{");
	ky_json_number(out, "a_ns", value->a_ns);
	ky_json_number(out, "b_ns", value->b_ns);
	ky_json_signed(out, "change_ppm", ppm(value->change));
	if (diff->deal_count) {
		ky_json_number(out, "p_ppm", (uint64_t)(value->p * 1e6 + 0.5));
		ky_json_signed(out, "smallest_ppm", ppm(value->smallest));
	} else {
		ky_json_null(out, "p_ppm");
		ky_json_null(out, "smallest_ppm");
	}
	ky_json_flag(out, "is_significant", value->p <= KY_DIFF_P_MAX);
	ky_json_close(out, "}");
}

void ky_diff_json(struct ky_buf *out, const struct ky_diff *diff, const char *const *names)
{
	ky_json_open(out, NULL, "{");
	ky_json_text(out, "verdict", ky_diff_verdict(diff));
	ky_json_number(out, "a_runs", diff->a_runs);
	ky_json_number(out, "b_runs", diff->b_runs);
	ky_json_flag(out, "is_interleaved", diff->is_interleaved);
	ky_json_number(out, "deals", diff->deal_count);
	ky_json_open(out, "common", "{");
	for (uint32_t k = 0; k < KY_RUN_QUANTILES && diff->compared_count; k++)
		ky_json_signed(out, ky_run_quantile_keys[k], ppm(diff->common[k]));
	ky_json_close(out, "}");
	ky_json_open(out, "places", "[");
	for (uint32_t i = 0; i < diff->place_count; i++) {
		const struct ky_diff_place *place = &diff->places[i];

		ky_json_open(out, NULL, "{");
		ky_json_text(out, "site", names[i]);
		ky_json_number(out, "a_polls", place->a_polls);
		ky_json_number(out, "b_polls", place->b_polls);
		for (uint32_t k = 0; k < KY_RUN_QUANTILES; k++)
			if (place->values[k].is_compared)
				put_value(out, diff, k, &place->values[k]);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
	ky_json_close(out, "}");
}

const char *ky_diff_verdict(const struct ky_diff *diff)
{
	if (!diff->is_conclusive)
		return "indicative";
	return diff->slower_count ? "slower" : diff->faster_count ? "faster" : "no change";
}
