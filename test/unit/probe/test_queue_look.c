/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Looks at accept queues between readings. A real socket: /proc/PID/net has no cookies, by which
 * one is asked for. */
#include "../../lib/cmocka_all.h"

#include <netinet/in.h>
#include <probe/resource_source.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)
#define START (100 * SECOND)

static struct ky_resource_source source;
static struct ky_proc_reader reader;
static _Alignas(8) uint8_t area[KY_RESOURCE_AREA_BYTES];

static bool put(void *ctx, uint64_t offset, const void *bytes, size_t count)
{
	(void)ctx;
	memcpy(area + offset, bytes, count);
	return true;
}

/* Of the last row about a queue. UINT64_MAX: there is none. */
static uint64_t pending(void)
{
	for (uint64_t at = source.claim_index; at-- > 0;) {
		const struct ky_resource_entry *entry =
			(const void *)(area + ky_resource_entry_offset(at));

		if (entry->row.kind == KY_RESOURCE_LISTENER)
			return entry->row.values[KY_LISTENER_PENDING];
	}
	return UINT64_MAX;
}

static int open_listener(struct sockaddr_in *address)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t bytes = sizeof(*address);

	memset(address, 0, bytes);
	address->sin_family = AF_INET;
	address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)address, bytes), 0);
	assert_int_equal(listen(fd, 4), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)address, &bytes), 0);
	return fd;
}

/* The last part of a handshake may be on its way when connect() is back. */
static void look_until(uint64_t count)
{
	while (pending() != count)
		ky_resource_look(&source, source.look_ns);
}

static void look__has_a_row_where_the_length_changed(void **state)
{
	struct sockaddr_in address;
	int fd = open_listener(&address), caller = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint64_t rows;

	(void)state;
	ky_resource_look(&source, START); /* no reading yet: whose they are is unknown */
	assert_int_equal(source.claim_index, 0);
	ky_resource_step(&source, &reader, SECOND, START);
	assert_int_equal(pending(), 0);
	rows = source.claim_index;
	source.is_idle = false;
	ky_resource_look(&source, START + 1);
	assert_int_equal(connect(caller, (struct sockaddr *)&address, sizeof(address)), 0);
	ky_resource_look(&source, source.look_ns - 1); /* too soon */
	assert_int_equal(source.claim_index, rows);
	look_until(1);
	assert_int_equal(source.claim_index, rows + 1);
	ky_resource_look(&source, source.look_ns);
	assert_int_equal(source.claim_index, rows + 1);
	close(accept(fd, NULL, NULL));
	source.is_idle = true;
	ky_resource_look(&source, source.look_ns);
	assert_int_equal(source.claim_index, rows + 1);
	source.is_idle = false;
	look_until(0);
	assert_int_equal(source.claim_index, rows + 2);
	close(caller);
	close(fd);
}

static int setup(void **state)
{
	(void)state;
	source.put = put;
	source.is_own = true;
	ky_proc_reader_open(&reader, NULL, NULL, 0, 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ky_proc_reader_close(&reader);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(look__has_a_row_where_the_length_changed, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
