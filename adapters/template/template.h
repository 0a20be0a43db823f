/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* template.h - kymo for toy_loop.h: copy this folder to begin an adapter of another runtime. */
#ifndef TEMPLATE_H
#define TEMPLATE_H

/* Records the loop until the recorder closes, which has to be open.
 * Returns 0; a negative error of kymo_event_source_add(). */
int template_start(void);

#endif
