/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/run_places.h>

#include <analyze/log_exp.h>
#include <base/alloc.h>
#include <base/random.h>
#include <errno.h>
#include <string.h>

#define BINS 128u       /* of equal numbers of polls, shortest first */
#define BLOCKS_MAX 64u  /* of equal time */
#define BLOCK_POLLS 50u /* in one on average, at the least */
#define BLOCKS_MIN 8u
#define DRAWS 60u
#define RADIX_BITS 9u
#define RADIX (1u << RADIX_BITS)

const uint32_t ky_run_polls_min[KY_RUN_QUANTILES] = {KY_RUN_POLLS_MIN, 500, 5000};
const char *const ky_run_quantile_keys[KY_RUN_QUANTILES] = {"p50", "p90", "p99"};
static const uint32_t percents[KY_RUN_QUANTILES] = {50, 90, 99};

/* Stable, by length. */
static void radix_sort(struct ky_timed_length *polls, struct ky_timed_length *spare, uint32_t count)
{
	struct ky_timed_length *from = polls, *to = spare;
	uint64_t all = 0;

	for (uint32_t i = 0; i < count; i++)
		all |= polls[i].length_ns;
	for (uint32_t shift = 0; shift < 64 && all >> shift; shift += RADIX_BITS) {
		struct ky_timed_length *swap = from;
		uint32_t places[RADIX] = {0};
		uint32_t at = 0;

		for (uint32_t i = 0; i < count; i++)
			places[from[i].length_ns >> shift & (RADIX - 1)]++;
		for (uint32_t i = 0; i < RADIX; i++) {
			uint32_t here = places[i];

			places[i] = at;
			at += here;
		}
		for (uint32_t i = 0; i < count; i++)
			to[places[from[i].length_ns >> shift & (RADIX - 1)]++] = from[i];
		from = to;
		to = swap;
	}
	if (from != polls)
		memcpy(polls, from, count * sizeof(*polls));
}

struct bootstrap {
	const struct ky_timed_length *polls; /* by length */
	uint32_t count, block_count;
	uint32_t cells[BLOCKS_MAX][BINS]; /* polls of a block in a bin */
	uint32_t sizes[BLOCKS_MAX];
};

static void fill(struct bootstrap *of)
{
	uint64_t first = UINT64_MAX, last = 0, span;

	for (uint32_t i = 0; i < of->count; i++) {
		first = of->polls[i].at_ns < first ? of->polls[i].at_ns : first;
		last = of->polls[i].at_ns > last ? of->polls[i].at_ns : last;
	}
	of->block_count = of->count / BLOCK_POLLS;
	of->block_count = of->block_count > BLOCKS_MAX ? BLOCKS_MAX :
			  of->block_count < BLOCKS_MIN ? BLOCKS_MIN :
							 of->block_count;
	span = (last - first) / of->block_count + 1;
	for (uint32_t i = 0; i < of->count; i++) {
		uint32_t block = (uint32_t)((of->polls[i].at_ns - first) / span);

		of->cells[block][(uint64_t)i * BINS / of->count]++;
		of->sizes[block]++;
	}
}

/* Logarithm of the value at a share of a bin. */
static double log_at(const struct bootstrap *of, uint32_t bin, double share)
{
	uint64_t begin = ((uint64_t)bin * of->count + BINS - 1) / BINS;
	uint64_t end = ((uint64_t)(bin + 1) * of->count + BINS - 1) / BINS;
	double place = (double)begin + share * (double)(end - begin);
	uint64_t at = (uint64_t)place;

	if (at >= of->count)
		at = of->count - 1;
	return ky_log((double)(of->polls[at].length_ns ? of->polls[at].length_ns : 1));
}

static void draw(const struct bootstrap *of, uint64_t *state, double out[KY_RUN_QUANTILES])
{
	uint32_t weights[BLOCKS_MAX] = {0}, sums[BINS] = {0}, quantile = 0;
	uint64_t all = 0, seen = 0;

	for (uint32_t i = 0; i < of->block_count; i++)
		weights[(uint32_t)(ky_random_share(state) * of->block_count)]++;
	for (uint32_t block = 0; block < of->block_count; block++) {
		if (!weights[block])
			continue;
		all += (uint64_t)weights[block] * of->sizes[block];
		for (uint32_t bin = 0; bin < BINS; bin++)
			sums[bin] += weights[block] * of->cells[block][bin];
	}
	for (uint32_t bin = 0; bin < BINS && quantile < KY_RUN_QUANTILES; bin++) {
		while (quantile < KY_RUN_QUANTILES &&
		       (seen + sums[bin]) * 100 >= all * percents[quantile]) {
			double wanted = (double)all * percents[quantile] / 100 - (double)seen;

			out[quantile++] = log_at(of, bin, sums[bin] ? wanted / sums[bin] : 0);
		}
		seen += sums[bin];
	}
}

static void scatter(struct ky_run_place *out, const struct bootstrap *of, uint64_t seed)
{
	double sums[KY_RUN_QUANTILES] = {0}, squares[KY_RUN_QUANTILES] = {0};
	uint64_t state = seed ? seed : 1;

	for (uint32_t i = 0; i < DRAWS; i++) {
		double logs[KY_RUN_QUANTILES] = {0};

		draw(of, &state, logs);
		for (uint32_t k = 0; k < KY_RUN_QUANTILES; k++) {
			double off = logs[k] - out->logs[k];

			sums[k] += off;
			squares[k] += off * off;
		}
	}
	for (uint32_t k = 0; k < KY_RUN_QUANTILES; k++)
		out->variances[k] = (squares[k] - sums[k] * sums[k] / DRAWS) / (DRAWS - 1);
}

int ky_run_place_make(struct ky_run_place *out, struct ky_timed_length *polls, uint32_t count,
		      uint64_t seed)
{
	struct ky_timed_length *spare = ky_alloc((size_t)count * sizeof(*spare));
	struct bootstrap *of = ky_alloc(sizeof(*of));

	memset(out, 0, sizeof(*out));
	if (spare && of) {
		radix_sort(polls, spare, count);
		out->poll_count = count;
		for (uint32_t k = 0; k < KY_RUN_QUANTILES; k++) {
			uint64_t rank = ((uint64_t)count * percents[k] + 99) / 100;

			out->quantiles_ns[k] = polls[rank ? rank - 1 : 0].length_ns;
			out->logs[k] = ky_log(
				(double)(out->quantiles_ns[k] ? out->quantiles_ns[k] : 1));
		}
		of->polls = polls;
		of->count = count;
		fill(of);
		scatter(out, of, seed);
	}
	ky_free(of);
	ky_free(spare);
	return spare && of ? 0 : -ENOMEM;
}

/* ---- of a trace ---- */

struct gathering {
	const struct ky_trace *trace;
	uint64_t *begins; /* by name: where its polls begin in lengths, then where the next goes */
	struct ky_timed_length *lengths;
	uint32_t name_count;
	bool is_placing;
};

static void walk(struct gathering *of)
{
	struct ky_poll poll;

	for (uint32_t worker = 0; worker < of->trace->worker_count; worker++) {
		for (uint64_t row = 0; row < of->trace->workers[worker].polls.row_count; row++) {
			uint32_t name;

			ky_trace_poll(of->trace, worker, row, &poll);
			name = poll.name != KY_NONE ? poll.name :
			       poll.task < of->trace->task_count ?
						      of->trace->tasks[poll.task].name :
						      KY_NONE;
			if (name >= of->name_count ||
			    (poll.flags & (KY_POLL_OPEN | KY_POLL_END_UNPROVEN | KY_POLL_GAP)))
				continue;
			if (of->is_placing)
				of->lengths[of->begins[name]] = (struct ky_timed_length){
					poll.start_ns, poll.duration_ns};
			of->begins[name]++;
		}
	}
}

static int make_all(struct ky_run_places *out, struct gathering *of)
{
	uint64_t at = 0;
	int result = 0;

	walk(of);
	for (uint32_t name = 0; name < of->name_count; name++) {
		uint64_t count = of->begins[name];

		of->begins[name] = at;
		at += count;
	}
	of->lengths = ky_alloc((size_t)(at + 1) * sizeof(*of->lengths));
	if (!of->lengths)
		return -ENOMEM;
	of->is_placing = true;
	walk(of);
	/* Each begin is now where the next one's polls begin. */
	for (uint32_t name = 0; name < of->name_count && !result; name++) {
		uint64_t begin = name ? of->begins[name - 1] : 0;
		uint64_t count = of->begins[name] - begin;

		if (count >= KY_RUN_POLLS_MIN && count < UINT32_MAX)
			result = ky_run_place_make(&out->places[name], of->lengths + begin,
						   (uint32_t)count, name + 1);
	}
	return result;
}

int ky_run_places_make(struct ky_run_places *out, const struct ky_trace *trace)
{
	struct gathering of = {.trace = trace, .name_count = ky_trace_name_count(trace)};
	int result = -ENOMEM;

	out->count = of.name_count;
	out->places = ky_alloc(((size_t)of.name_count + 1) * sizeof(*out->places));
	of.begins = ky_alloc(((size_t)of.name_count + 1) * sizeof(*of.begins));
	if (out->places && of.begins)
		result = make_all(out, &of);
	ky_free(of.begins);
	ky_free(of.lengths);
	if (result)
		ky_run_places_release(out);
	return result;
}

void ky_run_places_release(struct ky_run_places *places)
{
	ky_free(places->places);
	memset(places, 0, sizeof(*places));
}
