/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <record/sample/alloc_odds.h>

#include <string.h>

#define LN2 0.693147180559945309417
#define LOG_TERMS 15     /* of the series in ((m - 1) / (m + 1))^2, at most 0.0295 */
#define EXP_TERMS 14     /* of the Taylor series within ln 2 */
#define ONE 4294967296.0 /* parts of a weight */

uint64_t ky_alloc_random(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* Natural logarithm of a normal number above 0. */
static double logarithm(double number)
{
	uint64_t bits;
	double mantissa, s, square, power, sum = 0.0;
	int exponent;

	memcpy(&bits, &number, sizeof(bits));
	exponent = (int)(bits >> 52) - 1023;
	bits = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1023) << 52;
	memcpy(&mantissa, &bits, sizeof(mantissa));
	if (mantissa > 1.4142135623730951) {
		mantissa *= 0.5;
		exponent++;
	}
	s = (mantissa - 1.0) / (mantissa + 1.0);
	square = s * s;
	power = s;
	for (int n = 1; n <= LOG_TERMS; n += 2, power *= square)
		sum += power / n;
	return 2.0 * sum + exponent * LN2;
}

/* 1 - exp(-x), x in [0, ln 2]. */
static double rise(double x)
{
	double term = x, sum = x;

	for (int n = 2; n <= EXP_TERMS; n++) {
		term *= -x / n;
		sum += term;
	}
	return sum;
}

uint64_t ky_alloc_gap(uint64_t random, uint64_t mean_bytes)
{
	/* In (0, 1): 53 bits and a half. */
	double u = ((double)(random >> 11) + 0.5) / 9007199254740992.0;
	double gap = -logarithm(u) * (double)mean_bytes;

	return gap < (double)KY_ALLOC_GAP_MAX ? (uint64_t)gap : KY_ALLOC_GAP_MAX;
}

uint64_t ky_alloc_weight(uint64_t bytes, uint64_t mean_bytes)
{
	double x = (double)bytes / (double)mean_bytes, half = 1.0;
	uint32_t halvings;

	if (x >= 40.0 * LN2)
		return (uint64_t)ONE;
	if (!bytes)
		return (uint64_t)ONE * mean_bytes;
	halvings = (uint32_t)(x / LN2);
	for (uint32_t i = 0; i < halvings; i++)
		half *= 0.5;
	/* exp(-x) = 2^-halvings * exp(-rest) */
	return (uint64_t)(ONE / (1.0 - half + half * rise(x - halvings * LN2)) + 0.5);
}
