/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <string.h>
#include <wire/trc_state.h>

/* ---- fast: everything that can be touched lies inside the window ---- */

static inline void resolve_string(const struct ky_trc_dec *dec, struct ky_value *value, uint32_t id)
{
	const struct ky_id_entry *entry = ky_id_table_find(&dec->strings, id);

	value->pool_id = id;
	value->is_resolved = entry != NULL;
	value->text.bytes = entry ? entry->bytes : NULL;
	value->text.count = entry ? entry->count : 0;
}

static inline void resolve_stack(const struct ky_trc_dec *dec, struct ky_value *value, uint32_t id)
{
	const struct ky_id_entry *entry = ky_id_table_find(&dec->stacks, id);

	value->pool_id = id;
	value->is_resolved = entry != NULL;
	value->frames = entry ? entry->bytes : NULL;
	value->frame_count = entry ? entry->count : 0;
}

static void set_absent(struct ky_value *value)
{
	uint8_t type = value->type;

	memset(value, 0, sizeof(*value));
	value->type = type;
}

const uint8_t *ky_dec_values_fast(const struct ky_trc_dec *dec, const uint8_t *at,
				  const struct ky_schema_entry *entry)
{
	uint32_t count = entry->schema.field_count;

	for (uint32_t i = 0; i < count; i++) {
		struct ky_value *value = &entry->values[i];
		uint8_t op = entry->ops[i];

		if (op & KY_TYPE_OPTIONAL) {
			if (*at > 1)
				return NULL;
			if (!*at++) {
				set_absent(value);
				continue;
			}
			value->is_present = 1;
			value->is_resolved = 1;
			op &= (uint8_t)~KY_TYPE_OPTIONAL;
		}
		switch (op) {
		case KY_TYPE_VARINT:
			at = ky_fast_varint(at, &value->as.number);
			if (!at)
				return NULL;
			break;
		case KY_TYPE_U8:
			value->as.number = *at++;
			break;
		case KY_TYPE_U32:
			value->as.number = ky_get_u32(at);
			at += 4;
			break;
		case KY_TYPE_POOLED_STRING:
			resolve_string(dec, value, ky_get_u32(at));
			at += 4;
			break;
		case KY_TYPE_POOLED_STACK:
			resolve_stack(dec, value, ky_get_u32(at));
			at += 4;
			break;
		case KY_TYPE_BOOL:
			value->as.number = *at++ != 0;
			break;
		case KY_TYPE_U16:
			value->as.number = ky_get_u16(at);
			at += 2;
			break;
		default: /* I64, F64 */
			value->as.number = ky_get_u64(at);
			at += 8;
			break;
		}
	}
	return at;
}

/* ---- careful ---- */

static int read_varint(struct ky_trc_dec *dec, struct ky_in *in, uint64_t *out)
{
	int count = ky_varint_get(in->at, (size_t)(in->end - in->at), out);

	if (count < 0)
		return ky_dec_fail(dec, in, KYMO_E_CORRUPT, "a number does not fit 64 bits", 0);
	in->at += count;
	return count ? 0 : KYMO_E_TRUNCATED;
}

static int read_u32(struct ky_trc_dec *dec, struct ky_in *in, uint32_t *out)
{
	int err = ky_in_need(dec, in, 4);

	if (err)
		return err;
	*out = ky_get_u32(in->at);
	in->at += 4;
	return 0;
}

/* A count of `unit`-byte things, and the things. */
static int read_run(struct ky_trc_dec *dec, struct ky_in *in, uint32_t unit, uint32_t *count,
		    const uint8_t **bytes)
{
	int err = read_u32(dec, in, count);

	if (!err)
		err = ky_in_need(dec, in, (uint64_t)*count * unit);
	if (err)
		return err;
	*bytes = in->at;
	in->at += (uint64_t)*count * unit;
	return 0;
}

static int read_element_count(struct ky_trc_dec *dec, struct ky_in *in, uint32_t *count)
{
	int err = read_u32(dec, in, count);

	if (!err && *count > KY_TRC_CONTAINER_ELEMENTS_MAX) {
		in->at -= 4;
		return ky_dec_fail(dec, in, KYMO_E_LIMIT,
				   "a container of # elements is larger than the limit of 1000000",
				   *count);
	}
	return err;
}

static int read_type(struct ky_trc_dec *dec, struct ky_in *in, uint8_t *type)
{
	int err = ky_in_need(dec, in, 1);

	if (err)
		return err;
	/* The peer takes the optional bit of an element for nothing: no presence byte follows. */
	*type = *in->at & (uint8_t)~KY_TYPE_OPTIONAL;
	if (*type < KY_TYPE_I64 || *type > KY_TYPE_MAP)
		return ky_dec_fail(dec, in, KYMO_E_CORRUPT, "an element has the unknown type #",
				   *in->at);
	in->at++;
	return 0;
}

/* Kept raw, but walked to its end, so that ky_trc_walk_next meets nothing new. */
static int read_string_map(struct ky_trc_dec *dec, struct ky_in *in, struct ky_value *value)
{
	int err = read_element_count(dec, in, &value->frame_count);

	value->text.bytes = in->at;
	for (uint64_t left = 2 * (uint64_t)value->frame_count; left && !err; left--) {
		const uint8_t *bytes;
		uint32_t ignored;

		err = read_run(dec, in, 1, &ignored, &bytes);
	}
	value->text.count = (size_t)(in->at - value->text.bytes);
	return err;
}

static int read_fixed(struct ky_trc_dec *dec, struct ky_in *in, struct ky_value *value,
		      uint32_t bytes)
{
	int err = ky_in_need(dec, in, bytes);

	if (err)
		return err;
	value->as.number = 0;
	memcpy(&value->as.number, in->at, bytes);
	in->at += bytes;
	if (value->type == KY_TYPE_BOOL)
		value->as.number = value->as.number != 0;
	return 0;
}

static int read_pooled(struct ky_trc_dec *dec, struct ky_in *in, struct ky_value *value)
{
	uint32_t id;
	int err = read_u32(dec, in, &id);

	if (err)
		return err;
	if (value->type == KY_TYPE_POOLED_STRING)
		resolve_string(dec, value, id);
	else
		resolve_stack(dec, value, id);
	return 0;
}

/* Everything but LIST and MAP; value->type is set. */
static int read_scalar(struct ky_trc_dec *dec, struct ky_in *in, struct ky_value *value)
{
	uint32_t count;
	int err;

	switch (value->type) {
	case KY_TYPE_VARINT:
		return read_varint(dec, in, &value->as.number);
	case KY_TYPE_BOOL:
	case KY_TYPE_U8:
		return read_fixed(dec, in, value, 1);
	case KY_TYPE_U16:
		return read_fixed(dec, in, value, 2);
	case KY_TYPE_U32:
		return read_fixed(dec, in, value, 4);
	case KY_TYPE_I64:
	case KY_TYPE_F64:
		return read_fixed(dec, in, value, 8);
	case KY_TYPE_POOLED_STRING:
	case KY_TYPE_POOLED_STACK:
		return read_pooled(dec, in, value);
	case KY_TYPE_STACK:
		return read_run(dec, in, 8, &value->frame_count, &value->frames);
	case KY_TYPE_STRING_MAP:
		return read_string_map(dec, in, value);
	default: /* STRING, BYTES */
		err = read_run(dec, in, 1, &count, &value->text.bytes);
		value->text.count = err ? 0 : count;
		return err;
	}
}

/* Skips the elements of a list or map, whatever is nested in them. */
static int skip_elements(struct ky_trc_dec *dec, struct ky_in *in, uint8_t type, uint32_t count)
{
	uint64_t left[KY_TRC_CONTAINER_DEPTH_MAX];
	uint32_t depth = 0;
	int err = 0;

	left[depth++] = type == KY_TYPE_MAP ? 2 * (uint64_t)count : count;
	while (depth && !err) {
		struct ky_value element;
		uint32_t inner = 0;

		if (!left[depth - 1]) {
			depth--;
			continue;
		}
		left[depth - 1]--;
		err = read_type(dec, in, &element.type);
		if (err)
			break;
		if (element.type < KY_TYPE_LIST) {
			err = read_scalar(dec, in, &element);
			continue;
		}
		err = read_element_count(dec, in, &inner);
		if (err || !inner)
			continue;
		if (depth == KY_TRC_CONTAINER_DEPTH_MAX)
			return ky_dec_fail(dec, in, KYMO_E_LIMIT,
					   "containers are nested deeper than #",
					   KY_TRC_CONTAINER_DEPTH_MAX);
		left[depth++] = element.type == KY_TYPE_MAP ? 2 * (uint64_t)inner : inner;
	}
	return err;
}

/* LIST and MAP: kept raw, walked to the end as above. */
static int read_container(struct ky_trc_dec *dec, struct ky_in *in, struct ky_value *value)
{
	int err = read_element_count(dec, in, &value->frame_count);

	if (err)
		return err;
	value->text.bytes = in->at;
	err = skip_elements(dec, in, value->type, value->frame_count);
	value->text.count = (size_t)(in->at - value->text.bytes);
	return err;
}

static int read_value(struct ky_trc_dec *dec, struct ky_in *in, struct ky_value *value,
		      uint8_t type)
{
	memset(value, 0, sizeof(*value));
	value->type = type;
	value->is_present = 1;
	value->is_resolved = 1;
	if (type == KY_TYPE_LIST || type == KY_TYPE_MAP)
		return read_container(dec, in, value);
	return read_scalar(dec, in, value);
}

static int read_presence(struct ky_trc_dec *dec, struct ky_in *in, uint8_t *is_present)
{
	int err = ky_in_need(dec, in, 1);

	if (err)
		return err;
	if (*in->at > 1)
		return ky_dec_fail(dec, in, KYMO_E_CORRUPT,
				   "an optional field begins with #, neither 0 (absent) nor 1",
				   *in->at);
	*is_present = *in->at++;
	return 0;
}

int ky_dec_values(struct ky_trc_dec *dec, struct ky_in *in, struct ky_schema_entry *entry)
{
	for (uint32_t i = 0; i < entry->schema.field_count; i++) {
		struct ky_value *value = &entry->values[i];
		uint8_t is_present = 1;
		int err = 0;

		if (entry->ops[i] & KY_TYPE_OPTIONAL)
			err = read_presence(dec, in, &is_present);
		if (!err && is_present)
			err = read_value(dec, in, value, value->type);
		if (err)
			return err;
		if (!is_present)
			set_absent(value);
	}
	return 0;
}

/* ---- walking a container ---- */

void ky_trc_walk_begin(struct ky_trc_walk *walk, const struct ky_value *container)
{
	walk->at = container->text.bytes;
	walk->end = walk->at ? walk->at + container->text.count : walk->at;
	walk->left = container->frame_count;
	walk->type = container->type;
}

static int walk_value(struct ky_trc_dec *dec, struct ky_trc_walk *walk, struct ky_in *in,
		      struct ky_value *value)
{
	uint8_t type = KY_TYPE_STRING;
	int err = walk->type == KY_TYPE_STRING_MAP ? 0 : read_type(dec, in, &type);

	return err ? err : read_value(dec, in, value, type);
}

int ky_trc_walk_next(struct ky_trc_dec *dec, struct ky_trc_walk *walk, struct ky_value *key,
		     struct ky_value *value)
{
	struct ky_in in = {walk->at, walk->at, walk->end, UINT64_MAX};
	int err = 0;

	if (!walk->left)
		return 0;
	memset(key, 0, sizeof(*key));
	if (walk->type != KY_TYPE_LIST)
		err = walk_value(dec, walk, &in, key);
	if (!err)
		err = walk_value(dec, walk, &in, value);
	if (err)
		return KYMO_E_CORRUPT;
	walk->left--;
	walk->at = in.at;
	return 1;
}
