/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* output_place.h - whether a trace can be made where the user wants it, before there is one.
 *
 * What may yet change by itself (a full disk, a service's folder that comes later) is no obstacle.
 * Threads: any.
 */
#ifndef KY_SHIP_OUTPUT_PLACE_H
#define KY_SHIP_OUTPUT_PLACE_H

#include <stdbool.h>

#define KY_OUTPUT_PLACE_BYTES 640u

/* path: a directory that traces go to, or a file. Nothing is made. Returns 0; -errno and a sentence
 * in why (KY_OUTPUT_PLACE_BYTES). */
int ky_output_place_check(const char *path, bool is_file, char *why);

#endif
