/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* share.h - a share that was sampled, with the interval it may lie in.
 *
 * Of n samples of equal weight, the 95 % interval is Wilson's score interval (E. B. Wilson,
 * "Probable inference, the law of succession, and statistical inference", J. Am. Stat. Assoc.
 * 22, 1927): it holds its coverage for few samples and for shares near 0 and 1, where p +- 2 s does
 * not. Samples of different weight count as n' = (sum w)^2 / sum w^2 (L. Kish, "Survey Sampling",
 * 1965, section 11.7). Where samples were lost, nothing is assumed of them: with a lost part L of
 * all, the share of all lies in [low (1 - L), high (1 - L) + L].
 * Deterministic: IEEE additions, multiplications, divisions and a root by Newton's steps alone.
 * Threads: any.
 */
#ifndef KY_ANALYZE_SHARE_H
#define KY_ANALYZE_SHARE_H

#include <stdint.h>

struct ky_share {
	uint32_t ppm, low_ppm, high_ppm;
};

/* Weights of samples. */
struct ky_weights {
	uint64_t count;
	double sum, square_sum;
};

void ky_weights_add(struct ky_weights *weights, double weight);

/* part: weight of the samples that count, of all weights; lost: samples that are missing. */
struct ky_share ky_share_of(double part, const struct ky_weights *all, uint64_t lost_count);

/* A total that samples with chances stand for: sum of weight * value. */
struct ky_total {
	uint64_t count;
	double sum;
	double variance; /* Horvitz and Thompson's, independent draws: sum of w (w - 1) value^2 */
};

void ky_total_add(struct ky_total *total, double weight, double value);

/* What was drawn together, a window of time with all that is in it, varies together: the variance
 * of a window's sum, (1 - 1 / w) sum^2, where w is the window's weight (W. G. Cochran, "Sampling
 * Techniques", 3rd ed. 1977, chapter 9). Values of one window follow each other. */
struct ky_cluster {
	uint64_t window; /* which */
	double weight;   /* of it; 0: none yet */
	double sum;
};

/* weight: of the value, that of its window included. */
void ky_cluster_add(struct ky_total *total, struct ky_cluster *cluster, uint64_t window,
		    double window_weight, double weight, double value);
void ky_cluster_end(struct ky_total *total, struct ky_cluster *cluster); /* of the last one */
/* Half of the 95 % interval: 1.96 roots of the variance; 0: every one was seen. */
double ky_total_margin(const struct ky_total *total);
/* The 95 % interval where it leans upwards, as it does when few were seen: the score interval of a
 * Poisson total, each of whose events adds variance / sum on average. */
void ky_total_interval(const struct ky_total *total, double *low, double *high);

double ky_square_root(double number); /* 0 for what has none */
uint64_t ky_whole(double number);     /* rounded, cut to u64 */

#endif
