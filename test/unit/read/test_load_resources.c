/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the process used, as events of five kinds report it: rows of one shape, by time. */
#include "read_case.h"

#include <wire/resource_area.h>

#define MS UINT64_C(1000000)

static struct read_case c;

static int setup(void **state)
{
	(void)state;
	case_begin(&c);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	case_finish(&c);
	return 0;
}

static void open_all(void)
{
	assert_int_equal(case_try_open(&c, c.buf.used, NULL), 0);
}

/* Fields from `first` on have the values 100, 101, ..; of those with a bit in `absent`, none. */
static void put_optional(uint32_t first, uint32_t count, uint32_t absent)
{
	for (uint32_t i = first; i < count; i++)
		ky_trc_enc_opt_varint(&c.enc, !(absent >> i & 1), 100 + i);
}

static void usage__has_its_fields_in_the_order_of_the_values(void **state)
{
	const struct ky_trace_resource *row;

	(void)state;
	ky_trc_enc_event(&c.enc, KY_EV_RESOURCE_USAGE, 5 * MS);
	for (uint32_t i = 0; i <= KY_USAGE_INVOLUNTARY; i++)
		ky_trc_enc_varint(&c.enc, 100 + i);
	put_optional(KY_USAGE_RSS, KY_USAGE_FD_LIMIT + 1, 1u << KY_USAGE_FDS);
	open_all();
	assert_int_equal(c.trace->resource_count, 1);
	row = &c.trace->resources[0];
	assert_int_equal(row->kind, KY_RESOURCE_USAGE);
	assert_int_equal(row->time_ns, 5 * MS);
	assert_int_equal(row->address, KY_NONE);
	for (uint32_t i = 0; i <= KY_USAGE_FD_LIMIT; i++)
		assert_true(row->values[i] == (i == KY_USAGE_FDS ? UINT64_MAX : 100 + i));
}

/* Externally some cannot be read at all. */
static void usage__in_part_is_the_same_kind(void **state)
{
	(void)state;
	ky_trc_enc_event(&c.enc, KY_EV_PARTIAL_USAGE, 5 * MS);
	put_optional(0, KY_USAGE_FD_LIMIT + 1, 1u << KY_USAGE_USER_NS | 1u << KY_USAGE_BLOCKS_IN);
	open_all();
	assert_int_equal(c.trace->resources[0].kind, KY_RESOURCE_USAGE);
	for (uint32_t i = 0; i <= KY_USAGE_FD_LIMIT; i++)
		assert_true(
			c.trace->resources[0].values[i] ==
			(i == KY_USAGE_USER_NS || i == KY_USAGE_BLOCKS_IN ? UINT64_MAX : 100 + i));
}

/* After the level, or the scope. */
static void cgroup_and_pressure__have_level_and_scope(void **state)
{
	const struct ky_trace_resource *row;

	(void)state;
	ky_trc_enc_event(&c.enc, KY_EV_CGROUP_USAGE, 5 * MS);
	ky_trc_enc_u8(&c.enc, 3);
	put_optional(0, KY_CGROUP_OOM_KILLS + 1, 1u << KY_CGROUP_MEMORY_LIMIT);
	ky_trc_enc_event(&c.enc, KY_EV_PRESSURE, 6 * MS);
	ky_trc_enc_u8(&c.enc, 1);
	put_optional(0, KY_PRESSURE_IO_FULL + 1, 1u << KY_PRESSURE_CPU_FULL);
	open_all();
	assert_int_equal(c.trace->resource_count, 2);
	row = &c.trace->resources[0];
	assert_int_equal(row->kind, KY_RESOURCE_CGROUP);
	assert_int_equal(row->scope, 3);
	assert_true(row->values[KY_CGROUP_CPU_NS] == 100);
	assert_true(row->values[KY_CGROUP_MEMORY_LIMIT] == UINT64_MAX);
	assert_true(row->values[KY_CGROUP_OOM_KILLS] == 100 + KY_CGROUP_OOM_KILLS);
	assert_true(row->values[KY_CGROUP_OOM_KILLS + 1] == UINT64_MAX);
	row = &c.trace->resources[1];
	assert_int_equal(row->kind, KY_RESOURCE_PRESSURE);
	assert_int_equal(row->scope, 1);
	assert_true(row->values[KY_PRESSURE_CPU_SOME] == 100);
	assert_true(row->values[KY_PRESSURE_CPU_FULL] == UINT64_MAX);
	assert_true(row->values[KY_PRESSURE_IO_FULL] == 100 + KY_PRESSURE_IO_FULL);
}

static void listener__has_its_address_and_each_value_by_its_name(void **state)
{
	const struct ky_trace_resource *row;

	(void)state;
	ky_trc_enc_event(&c.enc, KY_EV_TCP_ACCEPT_QUEUE, 5 * MS);
	ky_trc_enc_varint(&c.enc, 11);
	ky_trc_enc_varint(&c.enc, 12);
	ky_trc_enc_u8(&c.enc, 6);
	ky_trc_enc_text(&c.enc, "::1", 3);
	ky_trc_enc_u16(&c.enc, 8080);
	ky_trc_enc_u32(&c.enc, 13);
	ky_trc_enc_u32(&c.enc, 128);
	ky_trc_enc_opt_varint(&c.enc, false, 0);
	ky_trc_enc_event(&c.enc, KY_EV_LISTEN_DROPS, 6 * MS);
	ky_trc_enc_varint(&c.enc, 21);
	ky_trc_enc_varint(&c.enc, 22);
	open_all();
	assert_int_equal(c.trace->resource_count, 2);
	row = &c.trace->resources[0];
	assert_int_equal(row->kind, KY_RESOURCE_LISTENER);
	assert_int_equal(row->scope, 6);
	assert_string_equal(ky_trace_name(c.trace, row->address), "::1");
	assert_true(row->values[KY_LISTENER_COOKIE] == 11);
	assert_true(row->values[KY_LISTENER_INODE] == 12);
	assert_true(row->values[KY_LISTENER_PORT] == 8080);
	assert_true(row->values[KY_LISTENER_PENDING] == 13);
	assert_true(row->values[KY_LISTENER_LIMIT] == 128);
	assert_true(row->values[KY_LISTENER_DROPS] == UINT64_MAX);
	row = &c.trace->resources[1];
	assert_int_equal(row->kind, KY_RESOURCE_DROPS);
	assert_true(row->values[0] == 21 && row->values[1] == 22);
	assert_true(row->values[2] == UINT64_MAX);
}

static void put_drops(uint64_t ns, uint64_t count)
{
	ky_trc_enc_event(&c.enc, KY_EV_LISTEN_DROPS, ns);
	ky_trc_enc_varint(&c.enc, count);
	ky_trc_enc_varint(&c.enc, 0);
}

/* Files come in any order; of one moment, in the order of writing. */
static void rows__ascend_by_time_from_any_order(void **state)
{
	(void)state;
	put_drops(50 * MS, 1);
	put_drops(20 * MS, 2);
	put_drops(50 * MS, 3);
	put_drops(10 * MS, 4);
	put_drops(30 * MS, 5);
	open_all();
	assert_int_equal(c.trace->resource_count, 5);
	for (uint32_t i = 0; i < 5; i++) {
		static const uint32_t order[] = {4, 2, 5, 1, 3};

		assert_true(c.trace->resources[i].values[0] == order[i]);
	}
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(usage__has_its_fields_in_the_order_of_the_values),
		CASE(usage__in_part_is_the_same_kind),
		CASE(cgroup_and_pressure__have_level_and_scope),
		CASE(listener__has_its_address_and_each_value_by_its_name),
		CASE(rows__ascend_by_time_from_any_order),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
