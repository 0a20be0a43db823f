/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ship/latest.h>

#include <errno.h>
#include <fcntl.h>
#include <ship/retention.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TARGET_BYTES 80

/* Fills `target` with the run that the link names. Returns 0; -EEXIST: it is no link of ours. */
static int read_link(int service_fd, const char *name, char *target)
{
	ssize_t bytes = readlinkat(service_fd, name, target, TARGET_BYTES);

	if (bytes < 0)
		return errno == EINVAL ? -EEXIST : -errno;
	if (bytes >= TARGET_BYTES)
		return -EEXIST;
	target[bytes] = '\0';
	return ky_retention_is_run_name(target) ? 0 : -EEXIST;
}

int ky_latest_set(int service_fd, const char *run)
{
	char target[TARGET_BYTES], made[40];
	int err = read_link(service_fd, KY_LATEST, target);

	if (err && err != -ENOENT)
		return err;
	if (!err && strcmp(target, run) == 0)
		return 0;
	/* Of this process alone, so what a killed one left is replaced, not followed. */
	snprintf(made, sizeof(made), ".%s-%ld", KY_LATEST, (long)getpid());
	if (read_link(service_fd, made, target) == 0)
		(void)unlinkat(service_fd, made, 0);
	if (symlinkat(run, service_fd, made) != 0)
		return -errno;
	if (renameat(service_fd, made, service_fd, KY_LATEST) == 0)
		return 0;
	err = -errno;
	(void)unlinkat(service_fd, made, 0);
	return err;
}

bool ky_latest_is(int service_fd, const char *run)
{
	char target[TARGET_BYTES];

	return read_link(service_fd, KY_LATEST, target) == 0 && strcmp(target, run) == 0;
}
