/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* trc_state.h - the decoder's inside, shared by trc_dec.c, trc_hot.c, trc_schema.c and trc_value.c
 * only.
 *
 * Invariants:  a frame is first checked to its end and only then takes effect, so a frame that was
 *              that the window ends early can be tried again with a longer one.
 */
#ifndef KY_WIRE_TRC_STATE_H
#define KY_WIRE_TRC_STATE_H

#include <base/bytes.h>
#include <kymo/base.h>
#include <wire/trc_dec.h>
#include <wire/trc_pool.h>

/* One distinct (name, has_timestamp, fields); a second one with the same body exists only where a
 * stream registers it under several ids. Allocated in one piece, freed with the decoder. */
struct ky_schema_entry {
	struct ky_schema schema; /* first: frames lend it */
	struct ky_value *values; /* reused by every event; what is constant is set once */
	uint8_t *ops;            /* per field: its type byte */
	uint64_t fast_bytes_max; /* what the fast way may touch; 0: a field is of variable length */
	struct ky_slice body;    /* of the schema frame, after the type id */
	uint64_t hash;
	struct ky_schema_entry *next;      /* in the hash chain: another body */
	struct ky_schema_entry *next_same; /* same body, another id */
	/* Of the first entry of a body: which of them this stream takes next. */
	struct ky_schema_entry *cursor;
	uint64_t cursor_generation;
	uint8_t has_annotations;
	uint8_t is_hot; /* see struct ky_hot_event */
};

#define KY_SCHEMA_CHAINS 1024u

struct ky_schema_registry {
	struct ky_schema_entry **by_type; /* 65,536, of this stream */
	uint16_t *bound;                  /* type ids of this stream */
	uint32_t bound_count;
	uint32_t entry_count;
	uint32_t serial_count;
	uint64_t bytes_used;
	uint64_t generation; /* number of the stream */
	struct ky_schema_entry *chains[KY_SCHEMA_CHAINS];
};

struct ky_trc_dec {
	struct ky_trc_limits limits;
	uint64_t base_ns;
	uint64_t offset;      /* of the next frame in the input */
	uint32_t empty_count; /* frames in a row that brought nothing */
	uint8_t has_header;
	int failed;
	uint64_t error_offset;
	char error[200];
	struct ky_arena arena;
	struct ky_id_table strings;
	struct ky_id_table stacks;
	struct ky_schema_registry schemas;
};

/* The part of a frame that is still to be read. */
struct ky_in {
	const uint8_t *begin; /* of the frame */
	const uint8_t *at;
	const uint8_t *end; /* of the window */
	uint64_t bytes_max; /* of the frame */
};

/* Records the first error. '#' in the sentence stands for the number. Returns code. */
int ky_dec_fail(struct ky_trc_dec *dec, const struct ky_in *in, int code, const char *sentence,
		uint64_t number);

/* 0 when count bytes are there; else KYMO_E_TRUNCATED, KYMO_E_LIMIT when no window holds them. */
static inline int ky_in_need(struct ky_trc_dec *dec, const struct ky_in *in, uint64_t count)
{
	if (__builtin_expect(count <= (uint64_t)(in->end - in->at), 1))
		return 0;
	count += (uint64_t)(in->at - in->begin);
	if (count <= in->bytes_max)
		return KYMO_E_TRUNCATED;
	return ky_dec_fail(dec, in, KYMO_E_LIMIT,
			   "a frame of at least # bytes is longer than the limit", count);
}

/* trc_schema.c */
int ky_schemas_open(struct ky_schema_registry *registry, uint32_t schemas_max);
void ky_schemas_close(struct ky_schema_registry *registry);
void ky_schemas_reset(struct ky_schema_registry *registry); /* a new stream */
int ky_dec_schema(struct ky_trc_dec *dec, struct ky_in *in, struct ky_frame *frame);
int ky_dec_annotations(struct ky_trc_dec *dec, struct ky_in *in, struct ky_frame *frame);

/* Up to 8 bytes of a number at once; 9 and 10 the slow way. NULL: it does not fit 64 bits.
 * The caller has checked that KY_VARINT_BYTES_MAX bytes are there. */
static inline const uint8_t *ky_fast_varint(const uint8_t *at, uint64_t *value)
{
	uint64_t word, stops;
	unsigned int bytes;
	int count;

	if (__builtin_expect(*at < 0x80, 1)) {
		*value = *at;
		return at + 1;
	}
	word = ky_get_u64(at);
	stops = ~word & UINT64_C(0x8080808080808080);
	if (__builtin_expect(stops != 0, 1)) {
		bytes = ((unsigned int)__builtin_ctzll(stops) >> 3) + 1;
		word &= (stops ^ (stops - 1)) & UINT64_C(0x7f7f7f7f7f7f7f7f);
		/* 7-bit groups side by side: in pairs, in fours, all eight. */
		word = (word & UINT64_C(0x007f007f007f007f)) |
		       (word & UINT64_C(0x7f007f007f007f00)) >> 1;
		word = (word & UINT64_C(0x00003fff00003fff)) |
		       (word & UINT64_C(0x3fff00003fff0000)) >> 2;
		word = (word & UINT64_C(0x000000000fffffff)) |
		       (word & UINT64_C(0x0fffffff00000000)) >> 4;
		*value = word;
		return at + bytes;
	}
	count = ky_varint_get(at, KY_VARINT_BYTES_MAX, value);
	return count > 0 ? at + count : NULL;
}

/* trc_value.c. After the values; NULL: something is wrong and the careful way will say what. The
 * caller has checked that entry->fast_bytes_max bytes are there. */
const uint8_t *ky_dec_values_fast(const struct ky_trc_dec *dec, const uint8_t *at,
				  const struct ky_schema_entry *entry);
/* The careful way. Returns 0 or an error. */
int ky_dec_values(struct ky_trc_dec *dec, struct ky_in *in, struct ky_schema_entry *entry);

#endif
