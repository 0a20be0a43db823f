/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* late.h - Tokio in libraries that the program opens while it runs.
 *
 * The thread that opens a library asks dlsym() for its way in, so that is where the loader's list
 * is read again, before any code of the library has run (its constructors excepted). Only the slots
 * of dlsym() in objects that also import dlopen() are replaced; the call continues to the original
 * with the caller's return address, on which RTLD_NEXT depends.
 *
 * Invariants:  slots are written through /proc/self/mem: no page changes its protection while
 *              other threads run, and what is not there is an error instead of a fault. A library
 *              that was closed leaves entries that nothing points to any more; the same one
 *              at the same place takes them over.
 * Threads:     any; a second thread that comes while one reads does not wait.
 */
#ifndef KY_TOKIO_LATE_H
#define KY_TOKIO_LATE_H

#include <link.h>

#include "tables.h"

/* An object of the loader's list, as found in the constructor or later. True: it is new. */
bool ky_tokio_late_note(const struct dl_phdr_info *info);

/* Replaces this object's slots of dlsym(). */
void ky_tokio_late_watch(const struct dl_phdr_info *info);

/* Stores what `found` says about this object: its tables, wakers and slots. Returns 0, -errno. */
int ky_tokio_late_patch(const struct ky_tokio_found *found, const struct ky_tokio_elf *elf);

/* Called for each new object, with the loader's list locked, and when there were some. */
struct ky_tokio_late_calls {
	void (*object)(const struct dl_phdr_info *info);
	void (*done)(void);
};
void ky_tokio_late_start(const struct ky_tokio_late_calls *calls);

/* Called by thunks_<arch>.S in front of dlsym(). */
void ky_tokio_late_check(void);

#endif
