/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "trace_tally.h"

#include "cmocka_all.h"

#include <kymo/reader.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static uint64_t is_type(const struct kymo_event *event, const char *name)
{
	return event->type_bytes == strlen(name) &&
	       memcmp(event->type, name, event->type_bytes) == 0;
}

static void count(struct trace_tally *tally, const struct kymo_event *event)
{
	tally->ends += is_type(event, "PollEndEvent");
	tally->wakes += is_type(event, "WakeEventEvent");
	tally->triggers += is_type(event, "TriggerEvent");
	tally->stuck += is_type(event, "StuckThreadEvent");
	tally->open_polls += is_type(event, "OpenPollEvent");
	if (is_type(event, "LossEvent"))
		tally->lost += kymo_event_field(event, "record_count")->as_uint;
	if (is_type(event, "PollStartEvent")) {
		tally->polls++;
		tally->last_task = kymo_event_field(event, "task_id")->as_uint;
	}
}

void trace_tally_memory(struct trace_tally *tally, const uint8_t *bytes, size_t byte_count)
{
	const struct kymo_event *event;
	struct kymo_reader *reader;

	assert_int_equal(kymo_reader_open_memory(&reader, bytes, byte_count, NULL), 0);
	while (kymo_reader_next(reader, &event) == 1)
		count(tally, event);
	assert_null(kymo_reader_notice(reader, 0));
	kymo_reader_close(reader);
}

static uint8_t *read_whole(const char *path, size_t *byte_count)
{
	FILE *file = fopen(path, "rb");
	struct stat about;
	uint8_t *bytes;

	assert_non_null(file);
	assert_int_equal(fstat(fileno(file), &about), 0);
	*byte_count = (size_t)about.st_size;
	bytes = malloc(*byte_count + 1);
	assert_non_null(bytes);
	assert_int_equal(fread(bytes, 1, *byte_count, file), *byte_count);
	fclose(file);
	return bytes;
}

void trace_tally_file(struct trace_tally *tally, const char *path)
{
	size_t byte_count;
	uint8_t *bytes = read_whole(path, &byte_count);

	trace_tally_memory(tally, bytes, byte_count);
	free(bytes);
}

int trace_file_has_pair(const char *path, const char *key, const char *value)
{
	size_t byte_count, used = strlen(key);
	uint8_t *bytes = read_whole(path, &byte_count), pair[256];
	uint32_t value_bytes = (uint32_t)strlen(value);
	int has;

	assert_true(used + sizeof(value_bytes) + value_bytes <= sizeof(pair));
	memcpy(pair, key, used);
	memcpy(pair + used, &value_bytes, sizeof(value_bytes));
	used += sizeof(value_bytes);
	memcpy(pair + used, value, value_bytes);
	has = memmem(bytes, byte_count, pair, used + value_bytes) != NULL;
	free(bytes);
	return has;
}

int trace_file_has(const char *path, const char *text)
{
	size_t byte_count;
	uint8_t *bytes = read_whole(path, &byte_count);
	int has = memmem(bytes, byte_count, text, strlen(text)) != NULL;

	free(bytes);
	return has;
}
