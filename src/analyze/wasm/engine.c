/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/wasm/engine.h>

#include <analyze/canonical.h>
#include <base/alloc.h>
#include <kymo/base.h>
#include <base/text.h>
#include <read/trace.h>

#define MEMORY_BYTES_MAX (UINT64_C(3) << 30)

static struct ky_trace *trace;
static struct ky_symbol_table *symbols;
static struct ky_buf result;

uint8_t *kymo_wasm_alloc(uint32_t bytes)
{
	return ky_alloc(bytes);
}

void kymo_wasm_free(uint8_t *memory)
{
	ky_free(memory);
}

static void clear(void)
{
	ky_buf_release(&result);
	ky_buf_init(&result, 0);
}

int32_t kymo_wasm_open(const uint8_t *bytes, uint32_t byte_count)
{
	char error[512];
	struct ky_trace_options options = {
		.memory_bytes_max = MEMORY_BYTES_MAX,
		.errbuf = error,
		.errbuf_bytes = sizeof(error),
	};
	struct ky_byte_source source;
	int code;

	clear();
	ky_trace_close(trace);
	trace = NULL;
	ky_symbol_table_close(symbols);
	symbols = NULL;
	code = ky_symbol_table_open(&symbols, 0);
	if (code < 0)
		return code;
	options.symbols = symbols;
	code = ky_byte_source_memory(&source, bytes, byte_count, "trace");
	if (code < 0)
		return code;
	code = ky_trace_open(&trace, &source, 1, &options);
	source.close(source.ctx);
	if (code < 0)
		ky_text(&result, error);
	return code;
}

int32_t kymo_wasm_canonical(void)
{
	clear();
	if (!trace)
		return KYMO_E_CLOSED;
	return ky_canonical_json(&result, trace, symbols);
}

const uint8_t *kymo_wasm_result(void)
{
	return result.bytes;
}

uint32_t kymo_wasm_result_bytes(void)
{
	return (uint32_t)result.used;
}
