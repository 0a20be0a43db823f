/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* help_environment.h - `kymo help environment`. Threads: the main one. */
#ifndef KY_CLI_HELP_ENVIRONMENT_H
#define KY_CLI_HELP_ENVIRONMENT_H

/* Prints every variable that a program with the recorder in it reads, then those of kymo. */
void ky_help_environment(void);

#endif
