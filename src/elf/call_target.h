/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* call_target.h - the function that a call instruction names.
 *
 * A function that ends in a jump to another one is on no stack while that runs; the call that led
 * to it still names it.
 * Threads: any.
 */
#ifndef KY_ELF_CALL_TARGET_H
#define KY_ELF_CALL_TARGET_H

#include <elf/elf_image.h>

/* Of the call that returns to this address: a direct one, or through a word of the file that the
 * loader fills. Returns false: there is none, or it is not known where it goes. */
bool ky_call_target(const struct ky_elf *elf, uint64_t return_address, uint64_t *out);

#endif
