/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <export/export.h>

#include <export/proto.h>
#include <string.h>

/* push/v1/push.proto of Pyroscope and Parca, types/v1 LabelPair */
enum push_field {
	REQUEST_SERIES = 1,
	SERIES_LABELS = 1,
	SERIES_SAMPLES = 2,
	SAMPLE_PROFILE = 1,
	LABEL_NAME = 1,
	LABEL_VALUE = 2
};

static void put_label(struct ky_buf *series, struct ky_buf *label, const char *name,
		      const char *value)
{
	if (!value || !*value)
		return;
	ky_proto_text(label, LABEL_NAME, name);
	ky_proto_text(label, LABEL_VALUE, value);
	ky_proto_message(series, SERIES_LABELS, label);
}

int ky_export_pprof_series(struct ky_buf *out, const struct ky_export *export)
{
	/* With the types of their values these are the names that Pyroscope lists. */
	static const char *const names[] = {"process_cpu", "off_cpu", "waiting", "memory"};
	const struct ky_trace *trace = export->trace;
	const char *service = ky_trace_metadata(trace, "service");
	struct ky_buf profile, sample, series;
	int result;

	ky_buf_init(&profile, 0);
	ky_buf_init(&sample, 0);
	ky_buf_init(&series, 0);
	result = ky_export_pprof(&profile, export);
	put_label(&series, &sample, "__name__", names[export->kind]);
	put_label(&series, &sample, "service_name",
		  service && *service ? service : "unknown_service");
	put_label(&series, &sample, "host_name", ky_trace_metadata(trace, "host"));
	put_label(&series, &sample, "process_pid", ky_trace_metadata(trace, "pid"));
	ky_proto_message(&sample, SAMPLE_PROFILE, &profile);
	ky_proto_message(&series, SERIES_SAMPLES, &sample);
	if (!result)
		ky_proto_message(out, REQUEST_SERIES, &series);
	ky_buf_release(&profile);
	ky_buf_release(&sample);
	ky_buf_release(&series);
	return result ? result : out->failed;
}
