/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/share.h>

#define Z 1.959963984540054 /* 97.5 % of the normal distribution */

double ky_square_root(double number)
{
	double root = number > 1.0 ? number : 1.0, next;

	if (!(number > 0.0) || number > 1e300)
		return 0.0;
	for (int i = 0; i < 600; i++) { /* halves from above until it no longer falls */
		next = 0.5 * (root + number / root);
		if (next >= root)
			break;
		root = next;
	}
	return root;
}

uint64_t ky_whole(double number)
{
	if (!(number > 0.0))
		return 0;
	if (number >= 18446744073709549568.0)
		return UINT64_MAX;
	return (uint64_t)(number + 0.5);
}

void ky_weights_add(struct ky_weights *weights, double weight)
{
	weights->count++;
	weights->sum += weight;
	weights->square_sum += weight * weight;
}

static uint32_t ppm_of(double share)
{
	if (!(share > 0.0))
		return 0;
	return share >= 1.0 ? 1000000 : (uint32_t)(share * 1e6 + 0.5);
}

struct ky_share ky_share_of(double part, const struct ky_weights *all, uint64_t lost_count)
{
	struct ky_share share = {0, 0, 1000000};
	double p, n, lost, scale, centre, half, low, high;

	if (!(all->sum > 0.0) || !(all->square_sum > 0.0))
		return share;
	p = part < all->sum ? part / all->sum : 1.0;
	n = all->sum * all->sum / all->square_sum;
	scale = 1.0 + Z * Z / n;
	centre = (p + Z * Z / (2.0 * n)) / scale;
	half = Z / scale * ky_square_root(p * (1.0 - p) / n + Z * Z / (4.0 * n * n));
	low = p > 0.0 ? centre - half : 0.0;
	high = p < 1.0 ? centre + half : 1.0;
	lost = (double)lost_count / ((double)lost_count + (double)all->count);
	share.ppm = ppm_of(p);
	share.low_ppm = ppm_of(low * (1.0 - lost));
	share.high_ppm = ppm_of(high * (1.0 - lost) + lost);
	return share;
}

void ky_total_add(struct ky_total *total, double weight, double value)
{
	total->count++;
	total->sum += weight * value;
	total->variance += weight * (weight - 1.0) * value * value;
}

void ky_cluster_end(struct ky_total *total, struct ky_cluster *cluster)
{
	if (cluster->weight > 1.0)
		total->variance += (1.0 - 1.0 / cluster->weight) * cluster->sum * cluster->sum;
	cluster->weight = cluster->sum = 0.0;
}

void ky_cluster_add(struct ky_total *total, struct ky_cluster *cluster, uint64_t window,
		    double window_weight, double weight, double value)
{
	double rest = window_weight >= 1.0 && weight > window_weight ? weight / window_weight : 1.0;

	if (cluster->window != window || cluster->weight < 1.0) {
		ky_cluster_end(total, cluster);
		cluster->window = window;
		cluster->weight = window_weight;
	}
	/* What was left out inside the window was drawn one by one. */
	total->variance += rest * (rest - 1.0) * window_weight * value * window_weight * value;
	total->count++;
	total->sum += weight * value;
	cluster->sum += weight * value;
}

double ky_total_margin(const struct ky_total *total)
{
	return Z * ky_square_root(total->variance);
}

void ky_total_interval(const struct ky_total *total, double *low, double *high)
{
	double unit = total->sum > 0.0 ? total->variance / total->sum : 0.0;
	double centre = total->sum + unit * Z * Z / 2.0;
	double half = Z * ky_square_root(total->variance + unit * unit * Z * Z / 4.0);

	*low = centre - half > 0.0 ? centre - half : 0.0;
	*high = centre + half;
}
