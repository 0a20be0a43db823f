/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* doctor_tokio.c - which of Tokio's tables a program's file has, and of which version it is. */
#include <base/alloc.h>
#include <doctor/doctor.h>

#include <doctor/doctor_tokio.h>
#include <elf/task_tables.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STEP_BYTES 65536u
#define OVERLAP_BYTES 64u /* a version and the text after it */
#define VERSION_BYTES 24u
#define VERSIONS_BYTES 96u

/* The version in front of "/src/runtime/task/", as paths of panic messages have it: "tokio-1.54.1".
 * Each once. */
static void take_version(char *versions, const char *start, const char *at)
{
	static const char name[] = "tokio-";
	char version[VERSION_BYTES + 4];
	const char *from = at;
	size_t used = strlen(versions);

	while (from > start && from[-1] != '/' && at - from < (ptrdiff_t)VERSION_BYTES)
		from--;
	if (at - from <= (ptrdiff_t)sizeof(name) || memcmp(from, name, sizeof(name) - 1) != 0)
		return;
	from += sizeof(name) - 1;
	if (strspn(from, "0123456789.") != (size_t)(at - from))
		return;
	(void)snprintf(version, sizeof(version), "%.*s", (int)(at - from), from);
	if (strstr(versions, version) || used + strlen(version) + 3 > VERSIONS_BYTES)
		return;
	(void)snprintf(versions + used, VERSIONS_BYTES - used, "%s%s", used ? ", " : "", version);
}

/* Returns whether Tokio's texts are in the file at all. */
static bool read_versions(int fd, char *versions)
{
	char *text = ky_alloc(STEP_BYTES + 1), wanted[] = "_src/runtime/task/";
	bool is_there = false;
	off_t offset = 0;
	ssize_t got;

	wanted[0] = '/'; /* put together here: this program's own file has no such text */
	versions[0] = '\0';
	while (text && (got = pread(fd, text, STEP_BYTES, offset)) > 0) {
		const char *at = text, *end = text + got;

		text[got] = '\0';
		while ((at = memmem(at, (size_t)(end - at), wanted, sizeof(wanted) - 1))) {
			take_version(versions, text, at++);
			is_there = true;
		}
		if (got < (ssize_t)STEP_BYTES)
			break;
		offset += (off_t)(STEP_BYTES - OVERLAP_BYTES);
	}
	ky_free(text);
	return is_there;
}

static void check_unknown(struct ky_doctor_check *check)
{
	ky_doctor_effect(check, KY_DOCTOR_NONE,
			 "kymo run refuses it: its tables are not those of Tokio 1.24 and newer");
	ky_doctor_fix(check, "cargo update -p tokio, then build again");
}

void ky_doctor_tokio(struct ky_doctor *doctor, int fd, struct ky_elf *elf)
{
	struct ky_doctor_check *check;
	struct ky_task_tables tables;
	char versions[VERSIONS_BYTES], suffix[VERSIONS_BYTES + 16] = "";
	bool is_tokio = read_versions(fd, versions);

	ky_task_tables_count(elf, &tables);
	if (versions[0])
		(void)snprintf(suffix, sizeof(suffix), "; Tokio %s", versions);
	if (tables.named) {
		check = ky_doctor_add(doctor, "tokio",
				      "%zu kind%s of Tokio tasks, by its symbols%s", tables.named,
				      tables.named == 1 ? "" : "s", suffix);
		if (tables.known == 0)
			check_unknown(check);
	} else if (tables.shaped) {
		check = ky_doctor_add(doctor, "tokio", "%zu table%s of Tokio tasks, by shape%s",
				      tables.shaped, tables.shaped == 1 ? "" : "s", suffix);
		ky_doctor_effect(check, KY_DOCTOR_LIMITED,
				 "kymo run records every task, and names it program+0xoffset");
		ky_doctor_fix(check, KY_DOCTOR_KEEP_SYMBOLS);
	} else if (is_tokio) {
		check = ky_doctor_add(doctor, "tokio", "no table of Tokio tasks is known%s",
				      suffix);
		check_unknown(check);
	} else {
		check = ky_doctor_add(doctor, "tokio", "no table of Tokio tasks");
		ky_doctor_effect(check, KY_DOCTOR_NONE,
				 "kymo run records nothing of it, unless a library of it has "
				 "tasks; programs without Tokio link libkymo_recorder and emit "
				 "events themselves");
	}
}
