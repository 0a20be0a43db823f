/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <query/query_table.h>

#include <string.h>

static void put_number(struct ky_query_value *out, uint64_t number, uint8_t unit)
{
	out->type = KY_VALUE_NUMBER;
	out->number = (int64_t)(unit != KY_UNIT_ID && number > INT64_MAX ? INT64_MAX : number);
}

static void put_name(struct ky_query_value *out, const struct ky_trace *trace, uint32_t name)
{
	if (name == KY_NONE)
		return;
	out->type = KY_VALUE_TEXT;
	out->text = ky_trace_name(trace, name);
}

/* A value of up to 64 bits in its row. */
static uint64_t load(const struct ky_query_column *column, const uint8_t *at)
{
	uint64_t wide;
	uint32_t word;
	uint16_t half;

	switch (column->store) {
	case KY_STORE_U64:
	case KY_STORE_U64_OR:
	case KY_STORE_I64:
		memcpy(&wide, at, sizeof(wide));
		return wide;
	case KY_STORE_U8:
	case KY_STORE_BOOL:
	case KY_STORE_MASK8:
		return *at;
	case KY_STORE_U16_OR:
		memcpy(&half, at, sizeof(half));
		return half;
	default:
		memcpy(&word, at, sizeof(word));
		return word;
	}
}

static void put_index(const struct ky_query_source *source, const struct ky_query_column *column,
		      uint32_t index, struct ky_query_value *out)
{
	const struct ky_trace *trace = source->trace;

	if (column->store == KY_STORE_NAME) {
		put_name(out, trace, index);
	} else if (column->store == KY_STORE_WORKER) {
		if (index < trace->worker_count && !trace->workers[index].is_thread_lane)
			put_number(out, trace->workers[index].id, KY_UNIT_ID);
	} else if (index < trace->task_count) {
		if (column->store == KY_STORE_TASK)
			put_number(out, trace->tasks[index].id, KY_UNIT_ID);
		else
			put_name(out, trace, trace->tasks[index].name);
	}
}

void ky_query_value(const struct ky_query_source *source, const struct ky_query_column *column,
		    const void *row, struct ky_query_value *out)
{
	uint64_t number;

	memset(out, 0, sizeof(*out));
	if (column->store == KY_STORE_CALL) {
		column->call(source, row, out);
		return;
	}
	number = load(column, (const uint8_t *)row + column->offset);
	switch (column->store) {
	case KY_STORE_NAME:
	case KY_STORE_TASK:
	case KY_STORE_TASK_NAME:
	case KY_STORE_WORKER:
		put_index(source, column, (uint32_t)number, out);
		return;
	case KY_STORE_U64_OR:
	case KY_STORE_U32_OR:
	case KY_STORE_U16_OR:
		if (number != column->arg)
			put_number(out, number, column->unit);
		return;
	case KY_STORE_I32_OR:
		if ((uint32_t)number != (uint32_t)column->arg) {
			out->type = KY_VALUE_NUMBER;
			out->number = (int32_t)number;
		}
		return;
	case KY_STORE_I64:
		out->type = KY_VALUE_NUMBER;
		out->number = (int64_t)number;
		return;
	case KY_STORE_MASK:
	case KY_STORE_MASK8:
		put_number(out, (number & column->arg) != 0, column->unit);
		return;
	default:
		put_number(out, number, column->unit);
	}
}

uint32_t ky_query_array(const struct ky_query_table *table, const struct ky_trace *trace,
			const uint8_t **rows)
{
	uint32_t count;

	memcpy(rows, (const uint8_t *)trace + table->array_offset, sizeof(*rows));
	memcpy(&count, (const uint8_t *)trace + table->count_offset, sizeof(count));
	return count;
}

const char *ky_query_sql_type(const struct ky_query_column *column)
{
	if (column->unit == KY_UNIT_ANY)
		return "";
	return column->unit == KY_UNIT_TEXT || column->unit == KY_UNIT_SENTENCE ? "TEXT" :
										  "INTEGER";
}

const struct ky_query_table *ky_query_table_find(const char *name)
{
	for (uint32_t i = 0; i < ky_query_table_count; i++) {
		const char *at = ky_query_tables[i].name, *given = name;

		while (*at && (*at == *given || (*at == '_' && *given == '-'))) {
			at++;
			given++;
		}
		if (!*at && !*given)
			return &ky_query_tables[i];
	}
	return NULL;
}
