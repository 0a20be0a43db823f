/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* stop_case.h - events of a process that was stopped, into a made trace. */
#ifndef KY_TEST_STOP_CASE_H
#define KY_TEST_STOP_CASE_H

#include "read_case.h"
#include <read/stops.h>

static inline void case_state(struct read_case *c, uint8_t change, uint64_t detail,
			      uint64_t after_ns, uint64_t by_ns, enum ky_state_source source)
{
	ky_trc_enc_event(&c->enc, KY_EV_PROCESS_STATE, by_ns);
	ky_trc_enc_u8(&c->enc, change);
	ky_trc_enc_varint(&c->enc, detail);
	ky_trc_enc_varint(&c->enc, after_ns);
	ky_trc_enc_varint(&c->enc, by_ns);
	ky_trc_enc_u8(&c->enc, (uint8_t)source);
}

static inline void case_throttled(struct read_case *c, uint64_t from_ns, uint64_t to_ns,
				  uint64_t ns)
{
	ky_trc_enc_event(&c->enc, KY_EV_THROTTLED, to_ns);
	ky_trc_enc_u8(&c->enc, 0);
	ky_trc_enc_varint(&c->enc, from_ns);
	ky_trc_enc_varint(&c->enc, to_ns);
	ky_trc_enc_varint(&c->enc, ns);
}

#endif
