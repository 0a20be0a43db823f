/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/runtime_facts.h>

#include <base/json_write.h>
#include <string.h>

const char *ky_runtime_kind(uint8_t flavor)
{
	static const char *const words[] = {NULL, "multi-thread", "current-thread"};

	return flavor < sizeof(words) / sizeof(*words) ? words[flavor] : NULL;
}

void ky_runtime_facts(const struct ky_trace *trace, uint32_t runtime, struct ky_runtime_facts *out)
{
	*out = (struct ky_runtime_facts){0};
	for (uint32_t i = 0; i < trace->worker_count; i++) {
		const struct ky_worker *worker = &trace->workers[i];
		const char *name;
		size_t at = 0;

		if (worker->runtime != runtime || worker->is_thread_lane || !worker->is_worker)
			continue;
		out->worker_count++;
		name = ky_trace_name(trace, ky_trace_thread_name(trace, worker->tid));
		if (!*name)
			continue;
		if (!out->thread_prefix) {
			out->thread_prefix = name;
			out->prefix_bytes = strlen(name);
			continue;
		}
		while (at < out->prefix_bytes && name[at] == out->thread_prefix[at])
			at++;
		out->prefix_bytes = at;
	}
}

static void text_or_null(struct ky_buf *out, const char *key, const char *text, size_t bytes)
{
	if (!bytes) {
		ky_json_null(out, key);
		return;
	}
	ky_json_key(out, key);
	ky_json_string(out, text, bytes);
}

void ky_runtimes_json(struct ky_buf *out, const struct ky_trace *trace)
{
	ky_json_open(out, "runtimes", "[");
	for (uint32_t i = 0; i < trace->runtime_count; i++) {
		const struct ky_trace_runtime *runtime = &trace->runtimes[i];
		const char *kind = ky_runtime_kind(runtime->flavor);
		struct ky_runtime_facts facts;

		ky_runtime_facts(trace, i, &facts);
		ky_json_open(out, NULL, "{");
		ky_json_number(out, "id", runtime->id);
		if (runtime->name == KY_NONE)
			ky_json_null(out, "name");
		else
			ky_json_text(out, "name", ky_trace_name(trace, runtime->name));
		text_or_null(out, "kind", kind, kind ? strlen(kind) : 0);
		ky_json_number(out, "workers", facts.worker_count);
		text_or_null(out, "thread_prefix", facts.thread_prefix, facts.prefix_bytes);
		ky_json_number(out, "copy", runtime->copy_index);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
}
