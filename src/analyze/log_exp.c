/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/log_exp.h>

#include <float.h>
#include <stdint.h>
#include <string.h>

#define LN2_HIGH 6.93147180369123816490e-01 /* the upper bits of ln 2, exact in products */
#define LN2_LOW 1.90821492927058770002e-10
#define EXPONENT_BIAS 1023
#define EXP_MAX 709.0

static double with_exponent(double x, int64_t exponent)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof(bits));
	bits = (bits & UINT64_C(0x800fffffffffffff)) | (uint64_t)exponent << 52;
	memcpy(&x, &bits, sizeof(x));
	return x;
}

/* x = m * 2^k with m near 1; ln m by the series of atanh. */
double ky_log(double x)
{
	double mantissa, s, s2, term, sum = 0;
	int64_t exponent;
	uint64_t bits;

	if (!(x >= DBL_MIN))
		x = DBL_MIN;
	if (x > DBL_MAX)
		x = DBL_MAX;
	memcpy(&bits, &x, sizeof(bits));
	exponent = (int64_t)(bits >> 52 & 0x7ff) - EXPONENT_BIAS;
	mantissa = with_exponent(x, EXPONENT_BIAS);
	if (mantissa > 1.41421356237309515) {
		mantissa *= 0.5;
		exponent++;
	}
	s = (mantissa - 1) / (mantissa + 1); /* at most 0.1716 */
	s2 = s * s;
	term = s;
	for (int i = 1; i < 24; i += 2) {
		sum += term / i;
		term *= s2;
	}
	return (double)exponent * LN2_HIGH + ((double)exponent * LN2_LOW + 2 * sum);
}

/* y = k ln 2 + r; e^r by its series. */
double ky_exp(double y)
{
	double r, term = 1, sum = 1;
	int64_t k;

	if (y > EXP_MAX)
		return DBL_MAX;
	if (y < -708.0 || y - y != 0)
		return 0;
	k = (int64_t)(y / (LN2_HIGH + LN2_LOW) + (y < 0 ? -0.5 : 0.5));
	r = y - (double)k * LN2_HIGH - (double)k * LN2_LOW;
	for (int i = 1; i < 16; i++) {
		term *= r / i;
		sum += term;
	}
	return sum * with_exponent(1, k + EXPONENT_BIAS);
}

double ky_root(double x)
{
	double root;

	if (!(x > 0))
		return 0;
	root = ky_exp(0.5 * ky_log(x));
	return 0.5 * (root + x / root);
}
