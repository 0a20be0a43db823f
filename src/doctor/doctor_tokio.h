/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* doctor_tokio.h - the check "tokio" of a program's file.
 *
 * Threads: owner.
 */
#ifndef KY_DOCTOR_DOCTOR_TOKIO_H
#define KY_DOCTOR_DOCTOR_TOKIO_H

#include <doctor/doctor.h>
#include <elf/elf_image.h>

#define KY_DOCTOR_KEEP_SYMBOLS                                                                     \
	"CARGO_PROFILE_RELEASE_STRIP=false cargo build --release (cargo install takes it, too)"

/* fd: the same file. */
void ky_doctor_tokio(struct ky_doctor *doctor, int fd, struct ky_elf *elf);

#endif
