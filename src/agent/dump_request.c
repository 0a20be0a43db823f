/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <agent/dump_request.h>

#include <base/alloc.h>
#include <base/file_name.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FIRING_TEXT_BYTES 1024u

const char *ky_dump_request_keep(struct ky_dump_request *request, const char *text)
{
	size_t bytes = strlen(text) + 1;
	char *at = request->texts + request->text_bytes;

	if (bytes > request->text_bytes_max - request->text_bytes)
		return "";
	memcpy(at, text, bytes);
	request->text_bytes += bytes;
	return at;
}

void ky_dump_request_pair(struct ky_dump_request *request, const char *key, const char *value)
{
	struct ky_cut_pair *pair = &request->pairs[request->pair_count];

	if (request->pair_count == KY_DUMP_PAIRS_MAX)
		return;
	pair->key = ky_dump_request_keep(request, key);
	pair->value = ky_dump_request_keep(request, value);
	request->pair_count++;
}

struct ky_dump_request *ky_dump_request_alloc(size_t text_bytes)
{
	struct ky_dump_request *request = ky_alloc(sizeof(*request) + text_bytes);

	if (!request)
		return NULL;
	request->text_bytes_max = text_bytes;
	request->result.size = sizeof(request->result);
	return request;
}

void ky_dump_request_reason(struct ky_dump_request *request, const char *reason)
{
	char *out = request->reason;

	(void)snprintf(out, sizeof(request->reason), "%.*s", (int)sizeof(request->reason) - 1,
		       reason && reason[0] ? reason : "request");
	for (; *out; out++)
		if (!ky_is_file_name_byte(*out))
			*out = '_';
}

int ky_dump_request_firing(struct ky_dump_request **out, const struct ky_firing *firing,
			   const char *path)
{
	struct ky_dump_request *request = ky_dump_request_alloc(FIRING_TEXT_BYTES +
								(path ? strlen(path) + 1 : 0));
	const struct ky_rule *rule = firing->rule;
	char text[256];

	*out = NULL;
	if (!request)
		return -ENOMEM;
	(void)snprintf(text, sizeof(text), "trigger-%s", rule->name);
	ky_dump_request_reason(request, text);
	ky_dump_request_pair(request, "kymo.dump.reason", path ? text : request->reason);
	request->path = path ? ky_dump_request_keep(request, path) : NULL;
	request->rule = ky_dump_request_keep(request, rule->name);
	if (rule->last_ns && rule->last_ns < firing->monotonic_ns)
		request->from_ns = firing->monotonic_ns - rule->last_ns;
	request->due_ns = firing->monotonic_ns + rule->after_ns;
	request->to_ns = rule->after_ns ? request->due_ns : 0;
	request->is_firing = true;
	request->note_count = firing->note_count < KY_STUCK_NOTES ? firing->note_count :
								    KY_STUCK_NOTES;
	if (request->note_count)
		memcpy(request->notes, firing->notes,
		       request->note_count * sizeof(request->notes[0]));
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
		       rule->kind == KY_RULE_ERRORS ? "per second" : ky_rule_unit(rule));
	(void)ky_rule_format(rule, request->trigger.rule, sizeof(request->trigger.rule));
	(void)ky_rule_format(rule, text, sizeof(text));
	ky_dump_request_pair(request, "kymo.trigger.rule", text);
	(void)ky_rule_value_text(rule, firing->value, text, sizeof(text));
	ky_dump_request_pair(request, "kymo.trigger.value", text);
	request->value = request->pairs[request->pair_count - 1].value;
	*out = request;
	return 0;
}

void ky_dump_request_cut(const struct ky_dump_request *request, struct ky_cut_options *cut)
{
	cut->from_ns = request->from_ns;
	cut->to_ns = request->to_ns;
	cut->pairs = request->pairs;
	cut->pair_count = request->pair_count;
	cut->stuck = request->notes;
	cut->stuck_count = request->note_count;
	cut->triggers = &request->trigger;
	cut->trigger_count = request->is_firing;
}
