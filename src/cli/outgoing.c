/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/outgoing.h>

#include <edit/outgoing_copy.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/base.h>
#include <malloc.h>
#include <ship/unnamed_file.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int read_keys(struct ky_origin_keys *keys, const struct kymo_segment *segment, char *why)
{
	char path[1100];
	int fd, err;

	/* Dumps of all services are in one directory. */
	snprintf(path, sizeof(path), "%s%s", segment->directory, segment->dump_id[0] ? "" : "/..");
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	err = fd < 0 ? -errno : ky_origin_keys_read(keys, fd);
	if (fd >= 0)
		close(fd);
	if (err)
		snprintf(why, KYMO_STAGE_REASON_BYTES,
			 "the key of what is redacted, .send-key in the service's directory, %s",
			 err == -EPERM ? "is not its owner's alone" : kymo_error_text(err));
	return err;
}

static void put_name(struct ky_redact *redact, char *name, size_t name_bytes)
{
	struct ky_slice seen = ky_redact_name(redact,
					      (struct ky_slice){(const void *)name, strlen(name)});
	size_t count = seen.count < name_bytes - 1 ? seen.count : name_bytes - 1;

	if (!redact->text.failed && count)
		memcpy(name, seen.bytes, count);
	name[redact->text.failed ? 0 : count] = '\0';
}

/* They stand in the names of objects and in what is said about them; a dump's own name begins with
 * the service. */
static void put_names(struct ky_segment_copy *copy, const struct kymo_segment *segment,
		      uint32_t classes, const struct ky_origin_keys *keys)
{
	size_t service_bytes = strlen(copy->service);
	struct ky_redact redact;

	ky_redact_init_key(&redact, classes, keys->names);
	put_name(&redact, copy->service, sizeof(copy->service));
	put_name(&redact, copy->host, sizeof(copy->host));
	if (segment->dump_id[0])
		snprintf(copy->name, sizeof(copy->name), "%s%s", copy->service,
			 segment->name + service_bytes);
	ky_redact_release(&redact);
}

static int make(void *ctx, const struct kymo_segment *segment, struct ky_segment_copy *copy,
		char *why)
{
	const struct ky_outgoing_choice *choice = ctx;
	struct ky_origin_keys keys;
	const struct ky_outgoing how = {
		.classes = choice->classes, .key = keys.names, .is_named = choice->is_named};
	int err = read_keys(&keys, segment, why);

	_Static_assert(sizeof(keys.names) == KY_REDACT_KEY_BYTES, "it is the key of names");
	if (!err)
		err = ky_origin_make(copy->origin, &keys, segment->fd, choice->classes);
	if (err)
		return err;
	copy->fd = ky_unnamed_file_open(segment->directory);
	if (copy->fd < 0) {
		snprintf(why, KYMO_STAGE_REASON_BYTES, "there is no room for a copy: %s",
			 kymo_error_text(copy->fd));
		return copy->fd;
	}
	err = ky_outgoing_copy(&how, segment->path, copy->fd, why, KYMO_STAGE_REASON_BYTES);
	/* What names took is not needed until the next segment, perhaps a minute later. */
	(void)malloc_trim(0);
	if (err <= 0) {
		close(copy->fd);
		copy->fd = -1;
	}
	put_names(copy, segment, choice->classes, &keys);
	return err < 0 ? err : 0;
}

struct ky_segment_filter ky_outgoing_filter(struct ky_outgoing_choice *choice)
{
	const struct ky_segment_filter filter = {choice, make}, none = {NULL, NULL};

	return choice->classes || choice->is_named ? filter : none;
}
