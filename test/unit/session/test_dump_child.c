/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Dumps in processes of their own: what they are called, and what is reported of each. */
#include "../../lib/cmocka_all.h"
#include "../../lib/ring_builder.h"
#include "../../lib/temp_tree.h"

#include <base/alloc.h>
#include <errno.h>
#include <session/dump_child.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define NS UINT64_C(2000000000)

static struct test_ring ring;
static struct ky_agent_options options;
static struct ky_dump_child child;
static struct ky_rule rule = {.kind = KY_RULE_POLL, .threshold = 1, .name = "poll"};
static char folder[64], output[80];
static struct ky_agent_event *seen; /* shared with the children; its texts are not */

static void on_event(void *ctx, const struct ky_agent_event *event)
{
	(void)ctx;
	assert_string_equal(event->rule, "poll");
	*seen = *event;
}

static int set_up(void **state)
{
	struct test_writer writer;

	(void)state;
	if (temp_tree_make(folder, sizeof(folder)) != 0)
		return -1;
	(void)snprintf(output, sizeof(output), "%s/traces/", folder);
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	test_ring_open(&ring, 8);
	test_writer_open(&writer, &ring, 101, NS);
	test_poll(&writer, NS + 10, 1, 0);
	test_poll_end(&writer, NS + 20, 0);
	options = (struct ky_agent_options){.event = on_event};
	options.output.directory = output;
	options.output.compressor = ky_compressor_none;
	options.output.metadata[0] = (struct kymo_key_value){"deploy", "seven"};
	options.output.metadata_count = 1;
	child = (struct ky_dump_child){
		.options = &options,
		.ring = {.fd = -1, .image = ring.image, .image_bytes = ring.image_bytes},
		.pid = 42,
		.service = "shop",
		.source = "test",
		.is_dead = true,
	};
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	test_ring_close(&ring);
	munmap(seen, sizeof(*seen));
	return temp_tree_remove(folder);
}

static int made(const char *path, uint64_t *bytes)
{
	const struct ky_dump_maker maker = ky_dump_child_maker(&child);
	const struct ky_firing firing = {.rule = &rule, .value = 2, .monotonic_ns = NS + 20};
	struct ky_dump_request *request;
	int err;

	assert_int_equal(ky_dump_request_firing(&request, &firing, path), 0);
	err = maker.make(maker.ctx, request);
	if (err == KY_DUMP_IS_MADE_ELSEWHERE)
		err = maker.is_made(maker.ctx, request, true);
	*bytes = request->result.bytes_written;
	ky_free(request);
	return err;
}

static void dump_child__writes_the_dump_beside_the_traces(void **state)
{
	const char *path = ky_dump_child_path(&child, 3);
	struct stat about;
	uint64_t bytes;

	(void)state;
	assert_memory_equal(path + strlen(folder), "/traces.dumps/shop-42-", 22);
	assert_string_equal(path + strlen(path) - 6, "-3.trc");
	assert_int_equal(made(path, &bytes), 0);
	assert_int_equal(stat(path, &about), 0);
	assert_int_equal(bytes, about.st_size);
	assert_int_equal(seen->kind, KY_AGENT_DUMP_MADE);
	assert_int_equal(seen->pid, 42);
	assert_true(seen->count > 0);
}

static void dump_child__takes_the_directory_that_was_chosen(void **state)
{
	char chosen[80];

	(void)state;
	(void)snprintf(chosen, sizeof(chosen), "%s/d", folder);
	options.triggers.dump_directory = chosen;
	assert_memory_equal(ky_dump_child_path(&child, 1) + strlen(folder), "/d/shop-42-", 11);
}

static void dump_child__reports_a_dump_that_fails(void **state)
{
	char path[100];
	uint64_t bytes;

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/none/a.trc", folder);
	assert_int_equal(made(path, &bytes), -EIO);
	assert_int_equal(bytes, 0);
	assert_int_equal(seen->kind, KY_AGENT_DUMP_FAILED);
	assert_int_equal(seen->error, -ENOENT);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(dump_child__writes_the_dump_beside_the_traces),
		CASE(dump_child__takes_the_directory_that_was_chosen),
		CASE(dump_child__reports_a_dump_that_fails),
	};

	return cmocka_run_group_tests_name("dump_child", tests, NULL, NULL);
}
