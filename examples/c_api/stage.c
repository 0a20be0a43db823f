/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* stage.c - a destination of your own: the smallest that is safe. It copies to a directory.
 *
 * What each of the answers means stands in kymo/stage.h. Given to a sender as one of its stages.
 * usage: stage FILE DIRECTORY      offers FILE once and prints the answer
 */
#include <errno.h>
#include <fcntl.h>
#include <kymo/stage.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct copier {
	const char *directory;
	int directory_fd;
};

static int copier_open(void *ctx, char *errbuf, size_t errbuf_bytes)
{
	struct copier *copier = ctx;

	copier->directory_fd = open(copier->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (copier->directory_fd >= 0)
		return 0;
	snprintf(errbuf, errbuf_bytes, "%s cannot be opened", copier->directory);
	return -errno;
}

static int copy_bytes(int from, int to)
{
	char bytes[2048];
	ssize_t got;
	off_t at = 0;

	while ((got = pread(from, bytes, sizeof(bytes), at)) > 0) {
		if (write(to, bytes, (size_t)got) != got)
			return -1;
		at += got;
	}
	return got < 0 || fsync(to) != 0 ? -1 : 0;
}

/* Under a name of its own until it is whole and on disk: what is TAKEN is never offered again. */
static void copier_take(void *ctx, const struct kymo_segment *segment,
			struct kymo_stage_result *result)
{
	const struct copier *copier = ctx;
	char name[256], part[264];
	int fd;

	snprintf(name, sizeof(name), "%s-%s-%s", segment->service, segment->boot, segment->name);
	snprintf(part, sizeof(part), "%s.part", name);
	fd = openat(copier->directory_fd, part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd >= 0 && copy_bytes(segment->fd, fd) == 0 &&
	    renameat(copier->directory_fd, part, copier->directory_fd, name) == 0) {
		result->answer = KYMO_STAGE_TAKEN;
	} else { /* a full disk may pass; a segment that cannot be taken for good is REFUSED */
		result->answer = KYMO_STAGE_AGAIN;
		result->again_ns = UINT64_C(10000000000);
		snprintf(result->reason, sizeof(result->reason), "%s cannot be written",
			 copier->directory);
	}
	if (fd >= 0)
		close(fd);
}

static void copier_close(void *ctx)
{
	const struct copier *copier = ctx;

	if (copier->directory_fd >= 0)
		close(copier->directory_fd);
}

int main(int argc, char **argv)
{
	struct copier copier = {argc > 2 ? argv[2] : ".", -1};
	struct kymo_segment_stage stage = {.size = sizeof(stage),
					   .name = "copies",
					   .ctx = &copier,
					   .open = copier_open,
					   .take = copier_take,
					   .close = copier_close};
	struct kymo_segment segment = {.size = sizeof(segment),
				       .service = "web",
				       .boot = "0123abcd-42-777",
				       .name = "000000.trc"};
	struct kymo_stage_result result = {.size = sizeof(result), .answer = KYMO_STAGE_REFUSED};
	char why[KYMO_STAGE_REASON_BYTES] = "";

	segment.path = argc > 1 ? argv[1] : "";
	segment.fd = open(segment.path, O_RDONLY | O_CLOEXEC);
	if (segment.fd < 0 || stage.open(stage.ctx, why, sizeof(why)) < 0) {
		fprintf(stderr, "usage: stage FILE DIRECTORY %s\n", why);
		return 2;
	}
	stage.take(stage.ctx, &segment, &result);
	stage.close(stage.ctx);
	printf("%u %s\n", result.answer, result.reason);
	close(segment.fd);
	return result.answer == KYMO_STAGE_TAKEN ? 0 : 1;
}
