/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* log_exp.h - logarithm and exponential without a library of mathematics: the same bytes natively
 * and as WebAssembly.
 *
 * Precision: relative error below 1e-14 for x from 1e-300 to 1e300, |y| up to 690.
 * Threads:   any.
 */
#ifndef KY_ANALYZE_LOG_EXP_H
#define KY_ANALYZE_LOG_EXP_H

/* Natural logarithm of x > 0; of others that of the smallest positive number. */
double ky_log(double x);
/* e to the y; beyond what a double holds the largest, or 0. */
double ky_exp(double y);
/* Square root of x >= 0. */
double ky_root(double x);

#endif
