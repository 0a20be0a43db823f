/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* canonical < TRACE - the native half of the comparison: plain TRC in, canonical JSON out. */
#include <analyze/canonical.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	struct ky_byte_source source;
	struct ky_trace_options options = {0};
	struct ky_trace *trace;
	struct ky_buf in, out;
	static uint8_t part[65536];
	size_t count;

	ky_buf_init(&in, 0);
	ky_buf_init(&out, 0);
	while ((count = fread(part, 1, sizeof(part), stdin)) > 0)
		ky_buf_append(&in, part, count);
	if (in.failed || ky_byte_source_memory(&source, in.bytes, in.used, "trace") < 0)
		return 1;
	if (ky_symbol_table_open(&options.symbols, 0) < 0)
		return 1;
	if (ky_trace_open(&trace, &source, 1, &options) < 0)
		return 1;
	if (ky_canonical_json(&out, trace, options.symbols) < 0)
		return 1;
	fwrite(out.bytes, 1, out.used, stdout);
	ky_trace_close(trace);
	ky_symbol_table_close(options.symbols);
	source.close(source.ctx);
	ky_buf_release(&in);
	ky_buf_release(&out);
	return 0;
}
