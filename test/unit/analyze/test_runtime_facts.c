/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../read/read_case.h"

#include <analyze/runtime_facts.h>

static void runtime_event(struct read_case *c, uint64_t id, const char *name, uint8_t kind)
{
	uint32_t text = case_text(c, name);

	ky_trc_enc_event(&c->enc, KY_EV_RUNTIME, 1000);
	ky_trc_enc_varint(&c->enc, id);
	ky_trc_enc_u32(&c->enc, text);
	ky_trc_enc_u8(&c->enc, kind);
	ky_trc_enc_u8(&c->enc, 0);
}

static void worker_event(struct read_case *c, uint64_t id, uint64_t runtime, uint32_t tid)
{
	ky_trc_enc_event(&c->enc, KY_EV_WORKER, 1000);
	ky_trc_enc_varint(&c->enc, id);
	ky_trc_enc_opt_varint(&c->enc, true, runtime);
	ky_trc_enc_opt_varint(&c->enc, true, id);
	ky_trc_enc_u32(&c->enc, tid);
	ky_trc_enc_u8(&c->enc, 1);
	ky_trc_enc_u8(&c->enc, 0);
	ky_trc_enc_varint(&c->enc, 7 + id);
	ky_trc_enc_opt_varint(&c->enc, false, 0);
	ky_trc_enc_opt_varint(&c->enc, false, 0);
}

static void thread_event(struct read_case *c, uint32_t tid, const char *name)
{
	uint32_t text = case_text(c, name);

	ky_trc_enc_event(&c->enc, KY_EV_THREAD, 1000);
	ky_trc_enc_u32(&c->enc, tid);
	ky_trc_enc_u32(&c->enc, text);
	ky_trc_enc_varint(&c->enc, 900);
	ky_trc_enc_u8(&c->enc, 0);
}

static void runtime_facts__count_workers_and_compare_their_names(void **state)
{
	struct ky_runtime_facts facts;
	struct read_case c;
	struct ky_buf json;

	(void)state;
	case_begin(&c);
	runtime_event(&c, 0, "shop", 1);
	runtime_event(&c, 1, "", 2);
	runtime_event(&c, 2, "", 9); /* of a later version */
	worker_event(&c, 0, 0, 11);
	worker_event(&c, 1, 0, 12);
	worker_event(&c, 2, 0, 13); /* its thread has no name */
	worker_event(&c, 3, 1, 14);
	thread_event(&c, 11, "shop-1");
	thread_event(&c, 12, "shop-22");
	thread_event(&c, 14, "main");
	case_poll(&c, 2000, 3000, 0, 7);
	case_open(&c);
	ky_runtime_facts(c.trace, 0, &facts);
	assert_int_equal(facts.worker_count, 3);
	assert_int_equal(facts.prefix_bytes, 5);
	assert_memory_equal(facts.thread_prefix, "shop-", 5);
	ky_buf_init(&json, 0);
	ky_runtimes_json(&json, c.trace);
	assert_int_equal(json.failed, 0);
	ky_buf_append(&json, "", 1);
	assert_string_equal((const char *)json.bytes,
			    "\"runtimes\":["
			    "{\"id\":0,\"name\":\"shop\",\"kind\":\"multi-thread\",\"workers\":3,"
			    "\"thread_prefix\":\"shop-\",\"copy\":0},"
			    "{\"id\":1,\"name\":null,\"kind\":\"current-thread\",\"workers\":1,"
			    "\"thread_prefix\":\"main\",\"copy\":0},"
			    "{\"id\":2,\"name\":null,\"kind\":null,\"workers\":0,"
			    "\"thread_prefix\":null,\"copy\":0}]");
	ky_buf_release(&json);
	case_finish(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(runtime_facts__count_workers_and_compare_their_names),
	};

	return cmocka_run_group_tests_name("runtime_facts", tests, NULL, NULL);
}
