/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <agent/dump_request.h>

#include <errno.h>
#include <record/emit/options.h>
#include <string.h>

static int check(const struct kymo_dump_options *options)
{
	if (options->flags & ~(uint32_t)(KYMO_DUMP_WAIT | KYMO_DUMP_STOP))
		return -EINVAL;
	if (options->label && strlen(options->label) > KY_DUMP_LABEL_BYTES_MAX)
		return -EINVAL;
	if (options->metadata_count > KY_DUMP_METADATA_MAX ||
	    (options->metadata_count && !options->metadata))
		return -EINVAL;
	for (size_t i = 0; i < options->metadata_count; i++)
		if (ky_metadata_check(options->metadata[i].key, options->metadata[i].value))
			return -EINVAL;
	if (options->last_ns && options->from_ns)
		return -EINVAL;
	if (options->to_ns && (options->after_ns || options->to_ns < options->from_ns))
		return -EINVAL;
	if (options->path && (options->write || !options->path[0]))
		return -EINVAL;
	return options->after_ns > KY_DUMP_AFTER_NS_MAX ? -EINVAL : 0;
}

static size_t bytes_of(const struct kymo_dump_options *options)
{
	size_t bytes = 256; /* keys of ours */

	bytes += options->label ? strlen(options->label) + 1 : 0;
	bytes += options->path ? strlen(options->path) + 1 : 0;
	for (size_t i = 0; i < options->metadata_count; i++)
		bytes += strlen(options->metadata[i].key) + strlen(options->metadata[i].value) + 2;
	return bytes;
}

/* When it is made. */
static uint64_t due_of(const struct kymo_dump_options *options, uint64_t now_ns)
{
	uint64_t due_ns = options->to_ns ? options->to_ns : now_ns + options->after_ns;
	uint64_t latest_ns = now_ns + KY_DUMP_AFTER_NS_MAX;

	return due_ns < latest_ns ? due_ns : latest_ns;
}

int ky_dump_request_make(struct ky_dump_request **out, const struct kymo_dump_options *options,
			 uint64_t now_ns)
{
	struct ky_dump_request *request;
	struct kymo_dump_options taken;
	int err = ky_options_copy(&taken, sizeof(taken), options);

	*out = NULL;
	if (!err)
		err = check(&taken);
	/* Nothing can be in it. */
	if (!err && taken.from_ns > due_of(&taken, now_ns))
		err = -EINVAL;
	if (err)
		return err;
	request = ky_dump_request_alloc(bytes_of(&taken));
	if (!request)
		return -ENOMEM;
	ky_dump_request_reason(request, taken.reason);
	request->path = taken.path ? ky_dump_request_keep(request, taken.path) : NULL;
	request->write = taken.write;
	request->write_ctx = taken.write_ctx;
	request->done = taken.done;
	request->done_ctx = taken.done_ctx;
	request->is_waited_for = taken.flags & KYMO_DUMP_WAIT;
	request->is_last = taken.flags & KYMO_DUMP_STOP;
	request->from_ns = taken.from_ns;
	if (taken.last_ns)
		request->from_ns = taken.last_ns < now_ns ? now_ns - taken.last_ns : 0;
	request->due_ns = due_of(&taken, now_ns);
	/* Up to now is up to the newest record: a time of ours would cut off, by the error between
	 * two clocks, what was recorded just before. */
	request->to_ns = taken.to_ns ? taken.to_ns : taken.after_ns ? request->due_ns : 0;
	ky_dump_request_pair(request, "kymo.dump.reason", request->reason);
	if (request->is_last)
		ky_dump_request_pair(request, "kymo.dump.stopped", "1");
	if (taken.label)
		ky_dump_request_pair(request, "kymo.dump.label", taken.label);
	for (size_t i = 0; i < taken.metadata_count; i++)
		ky_dump_request_pair(request, taken.metadata[i].key, taken.metadata[i].value);
	*out = request;
	return 0;
}
