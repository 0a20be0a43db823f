/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* base.h - version, visibility, error codes: what every other public header needs.
 *
 * Public headers are C99- and C++11-clean and include nothing but C99 headers and each other.
 * A function that can fail returns int: 0 or more is success, -errno is the operating system's
 * refusal, -4097 and below is one of KYMO_ERRORS.
 */
#ifndef KYMO_BASE_H
#define KYMO_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KYMO_VERSION_MAJOR 0
#define KYMO_VERSION_MINOR 1
#define KYMO_VERSION_PATCH 0
#define KYMO_VERSION_STRING "0.1.0"

#define KYMO_API __attribute__((visibility("default")))

/* X(name, value, text): every error of our own, in the order of its number. */
#define KYMO_ERRORS(X)                                                                             \
	X(CORRUPT, -4097, "the bytes contradict the format")                                       \
	X(TRUNCATED, -4098, "the input ends in the middle of a record")                            \
	X(VERSION, -4099, "written by a version this one does not know")                           \
	X(LIMIT, -4100, "a stated limit was exceeded")                                             \
	X(CLOSED, -4101, "the object is closed")                                                   \
	X(NOT_TRACE, -4102, "not a trace")                                                         \
	X(AGAIN, -4103, "reused meanwhile, or not ready yet")                                      \
	X(UNSUPPORTED, -4104, "not supported by this build or this machine")                       \
	X(ACTIVE, -4105, "a recorder is already open in this process")                             \
	X(BUSY, -4106, "too many are waiting already")

enum kymo_error {
#define KYMO_ERROR_MEMBER(name, value, text) KYMO_E_##name = (value),
	KYMO_ERRORS(KYMO_ERROR_MEMBER)
#undef KYMO_ERROR_MEMBER
	KYMO_E_OK = 0
};

/* One sentence fragment for any code a kymo function returned; "success" for 0 and more.
 *
 * Returns  a static string for our codes, strerror-like text for -errno; never NULL.
 * Threads  any.      Signals  safe for our own codes.
 * Since    0.1
 */
KYMO_API const char *kymo_error_text(int code);

#ifdef __cplusplus
}
#endif

#endif
