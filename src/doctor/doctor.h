/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* doctor.h - what a machine, a program and a process allow kymo to see, each with what follows from
 * it and what would improve it.
 *
 * Invariants:  nothing is changed and no program is started. What can be tried is tried: a setting
 *              says what should be, an attempt what is.
 * Threads:     owner.
 */
#ifndef KY_DOCTOR_DOCTOR_H
#define KY_DOCTOR_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>

#define KY_DOCTOR_CHECKS_MAX 32u
#define KY_DOCTOR_TEXT_BYTES 256u

enum ky_doctor_state {
	KY_DOCTOR_OK = 0,
	KY_DOCTOR_LIMITED, /* kymo works, and sees less */
	KY_DOCTOR_NONE     /* that part does not work */
};

struct ky_doctor_check {
	const char *name; /* a key of --json */
	uint32_t state;   /* enum ky_doctor_state */
	char value[KY_DOCTOR_TEXT_BYTES];
	char effect[KY_DOCTOR_TEXT_BYTES]; /* "" where state is OK */
	char fix[KY_DOCTOR_TEXT_BYTES];    /* a command, or "" */
};

struct ky_doctor {
	struct ky_doctor_check checks[KY_DOCTOR_CHECKS_MAX];
	uint32_t count;
};

/* A new check, OK until something else is said. */
__attribute__((format(printf, 3, 4))) struct ky_doctor_check *
ky_doctor_add(struct ky_doctor *doctor, const char *name, const char *value, ...);
__attribute__((format(printf, 3, 4))) void ky_doctor_effect(struct ky_doctor_check *check,
							    enum ky_doctor_state state,
							    const char *effect, ...);
__attribute__((format(printf, 2, 3))) void ky_doctor_fix(struct ky_doctor_check *check,
							 const char *fix, ...);

/* Kernel, file systems, limits of this session. */
void ky_doctor_machine(struct ky_doctor *doctor);
/* What the control groups of a process allow. proc: its folder, /proc/PID or /proc/self. */
void ky_doctor_cgroup(struct ky_doctor *doctor, const char *proc);
/* The file of a program. */
void ky_doctor_program(struct ky_doctor *doctor, const char *path);
/* A process: what it allows, and then its program. Returns 0, -ESRCH, -EACCES. */
int ky_doctor_process(struct ky_doctor *doctor, uint32_t pid);

#endif
