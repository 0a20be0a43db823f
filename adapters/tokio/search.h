/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* search.h - Tokio in the objects that the loader has put into this process: what was found, and
 * what the trace says about it. The preload searches before main or for `kymo attach`; a program
 * that links the recorder has its own object searched as well (inside.c).
 *
 * Memory:   one search in a process; an object that was seen before keeps its indexes.
 * Threads:  one at a time.
 */
#ifndef KY_TOKIO_SEARCH_H
#define KY_TOKIO_SEARCH_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

#include "tables.h"

#define KY_TOKIO_VERSIONS_BYTES 256

enum ky_tokio_when {
	KY_TOKIO_WHEN_EARLY = 0, /* before main */
	KY_TOKIO_WHEN_LATE,      /* a library that the program opened */
	KY_TOKIO_WHEN_RUNNING    /* the program's threads run */
};

struct ky_tokio_search {
	struct ky_tokio_found found;
	uint32_t objects;
	bool is_full; /* more words than can be remembered */
	enum ky_tokio_when when;
	char versions[KY_TOKIO_VERSIONS_BYTES], unused_versions[KY_TOKIO_VERSIONS_BYTES];
	bool is_inside;                  /* our own object is the program, or a part of it */
	bool is_program;                 /* it is the program: all others stand back */
	bool is_open;                    /* polls are recorded */
	bool has_recorder;               /* an object has one linked in that is not this one */
	bool has_jemalloc, has_mimalloc; /* an object with Tokio has, under names of its own */
};

extern struct ky_tokio_search ky_tokio_search;

/* Looks through every object that is loaded now. */
void ky_tokio_search_all(void);

/* One object, under the loader's lock. path: its file. */
void ky_tokio_search_object(const struct dl_phdr_info *info, const char *path);

/* Two recorders in one process would each resemble the other's successor. */
bool ky_tokio_search_met_recorder(void);

/* The program itself has Tokio's texts, whatever became of its symbols. */
bool ky_tokio_search_is_tokio(void);

/* Names of all tables. All at once and now: later it would happen inside polls, under a lock and
 * with a reading of the loader's list, which a thread in dlopen may hold while it waits for that
 * very poll. The recorder is open. */
void ky_tokio_search_name(void);

/* What was found, as metadata of the trace. The recorder is open. */
void ky_tokio_search_describe(void);
void ky_tokio_search_describe_versions(void);

#endif
