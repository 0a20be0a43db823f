/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <agent/dump_request.h>

#include <base/alloc.h>
#include <base/file_name.h>
#include <errno.h>
#include <record/emit/options.h>
#include <stdio.h>
#include <string.h>

#define FIRING_TEXT_BYTES 1024u

static const char *keep(struct ky_dump_request *request, const char *text)
{
	size_t bytes = strlen(text) + 1;
	char *at = request->texts + request->text_bytes;

	if (bytes > request->text_bytes_max - request->text_bytes)
		return "";
	memcpy(at, text, bytes);
	request->text_bytes += bytes;
	return at;
}

static void add_pair(struct ky_dump_request *request, const char *key, const char *value)
{
	struct ky_cut_pair *pair = &request->pairs[request->pair_count];

	if (request->pair_count == KY_DUMP_PAIRS_MAX)
		return;
	pair->key = keep(request, key);
	pair->value = keep(request, value);
	request->pair_count++;
}

static struct ky_dump_request *allocate(size_t text_bytes)
{
	struct ky_dump_request *request = ky_alloc(sizeof(*request) + text_bytes);

	if (!request)
		return NULL;
	request->text_bytes_max = text_bytes;
	request->result.size = sizeof(request->result);
	return request;
}

/* Part of a file name, though never its start. */
static void set_reason(struct ky_dump_request *request, const char *reason)
{
	char *out = request->reason;

	(void)snprintf(out, sizeof(request->reason), "%.*s", (int)sizeof(request->reason) - 1,
		       reason && reason[0] ? reason : "request");
	for (; *out; out++)
		if (!ky_is_file_name_byte(*out))
			*out = '_';
}

static int take(struct kymo_dump_options *out, const struct kymo_dump_options *options)
{
	size_t size = options ? options->size : 0;

	memset(out, 0, sizeof(*out));
	if (options && size < sizeof(options->size))
		return -EINVAL;
	for (size_t at = sizeof(*out); at < size; at++)
		if (((const uint8_t *)options)[at])
			return -E2BIG;
	if (options)
		memcpy(out, options, size < sizeof(*out) ? size : sizeof(*out));
	return 0;
}

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
	int err = take(&taken, options);

	*out = NULL;
	if (!err)
		err = check(&taken);
	/* Nothing can be in it. */
	if (!err && taken.from_ns > due_of(&taken, now_ns))
		err = -EINVAL;
	if (err)
		return err;
	request = allocate(bytes_of(&taken));
	if (!request)
		return -ENOMEM;
	set_reason(request, taken.reason);
	request->path = taken.path ? keep(request, taken.path) : NULL;
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
	add_pair(request, "kymo.dump.reason", request->reason);
	if (request->is_last)
		add_pair(request, "kymo.dump.stopped", "1");
	if (taken.label)
		add_pair(request, "kymo.dump.label", taken.label);
	for (size_t i = 0; i < taken.metadata_count; i++)
		add_pair(request, taken.metadata[i].key, taken.metadata[i].value);
	*out = request;
	return 0;
}

static const char *unit_of(enum ky_rule_kind kind)
{
	switch (kind) {
	case KY_RULE_POLL:
	case KY_RULE_WAKE:
	case KY_RULE_STALL:
	case KY_RULE_RUNNABLE:
	case KY_RULE_SPAN:
		return "ns";
	case KY_RULE_QUEUE:
	case KY_RULE_TASKS:
		return "tasks";
	case KY_RULE_CPU:
	case KY_RULE_THROTTLED:
		return "percent";
	case KY_RULE_RSS:
		return "bytes";
	case KY_RULE_ERRORS:
		return "per second";
	case KY_RULE_COUNTER:
		break;
	}
	return "";
}

int ky_dump_request_firing(struct ky_dump_request **out, const struct ky_firing *firing)
{
	struct ky_dump_request *request = allocate(FIRING_TEXT_BYTES);
	const struct ky_rule *rule = firing->rule;
	char text[256];

	*out = NULL;
	if (!request)
		return -ENOMEM;
	(void)snprintf(text, sizeof(text), "trigger-%s", rule->name);
	set_reason(request, text);
	if (rule->last_ns && rule->last_ns < firing->monotonic_ns)
		request->from_ns = firing->monotonic_ns - rule->last_ns;
	request->due_ns = firing->monotonic_ns + rule->after_ns;
	request->to_ns = rule->after_ns ? request->due_ns : 0;
	request->is_firing = true;
	request->note_count = firing->note_count < KY_STUCK_NOTES ? firing->note_count :
								    KY_STUCK_NOTES;
	memcpy(request->notes, firing->notes, request->note_count * sizeof(request->notes[0]));
	request->trigger = (struct ky_trigger_note){
		.monotonic_ns = firing->monotonic_ns,
		.value = firing->value,
		.threshold = rule->threshold,
		.task = firing->task,
		.tid = firing->tid,
		.suppressed_count = firing->suppressed_count,
		.late_count = firing->late_count,
	};
	(void)snprintf(request->trigger.unit, sizeof(request->trigger.unit), "%s",
		       unit_of(rule->kind));
	(void)ky_rule_format(rule, request->trigger.rule, sizeof(request->trigger.rule));
	add_pair(request, "kymo.dump.reason", request->reason);
	(void)ky_rule_format(rule, text, sizeof(text));
	add_pair(request, "kymo.trigger.rule", text);
	(void)ky_rule_value_text(rule, firing->value, text, sizeof(text));
	add_pair(request, "kymo.trigger.value", text);
	*out = request;
	return 0;
}
