/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <read/container_text.h>

#include <base/json_write.h>
#include <base/text.h>

#define DIGITS 15u
#define DIGITS_SCALE 1e14 /* 10 to the power of DIGITS - 1 */
#define PLAIN_ZEROS_MAX 4 /* 0.00001 is 1e-05 */

struct open_level {
	struct ky_trc_walk walk;
	bool is_first;
};

static bool is_container(const struct ky_value *value)
{
	return value->type == KY_TYPE_LIST || value->type == KY_TYPE_MAP ||
	       value->type == KY_TYPE_STRING_MAP;
}

/* The digits of a number, the first one not 0, and the power of ten of the first one. */
static uint32_t digits_of(double value, char *digits, int *exponent)
{
	uint32_t count = DIGITS;
	uint64_t scaled;

	*exponent = 0;
	while (value >= 10) {
		value /= 10;
		++*exponent;
	}
	while (value < 1) {
		value *= 10;
		--*exponent;
	}
	scaled = (uint64_t)(value * DIGITS_SCALE + 0.5);
	if (scaled >= 10 * (uint64_t)DIGITS_SCALE) { /* 9.99.. was rounded up */
		scaled /= 10;
		++*exponent;
	}
	for (uint32_t i = DIGITS; i-- > 0; scaled /= 10)
		digits[i] = (char)('0' + scaled % 10);
	while (count > 1 && digits[count - 1] == '0')
		count--;
	return count;
}

/* Without printf, which the page has not. */
static void put_real(struct ky_buf *out, double value)
{
	char digits[DIGITS];
	uint32_t count;
	int exponent;

	if (value != value || value - value != 0) {
		ky_text(out, "null");
		return;
	}
	if (value < 0) {
		ky_text(out, "-");
		value = -value;
	}
	if (value == 0) {
		ky_text(out, "0");
		return;
	}
	count = digits_of(value, digits, &exponent);
	if (exponent < -PLAIN_ZEROS_MAX || exponent >= (int)DIGITS) {
		(void)ky_buf_append(out, digits, 1);
		if (count > 1)
			ky_text(out, ".");
		(void)ky_buf_append(out, digits + 1, count - 1);
		ky_text(out, exponent < 0 ? "e-" : "e");
		ky_text_u64(out, (uint64_t)(exponent < 0 ? -exponent : exponent));
		return;
	}
	if (exponent < 0)
		ky_text(out, "0.");
	for (int zeros = exponent + 1; zeros < 0; zeros++)
		ky_text(out, "0");
	for (uint32_t i = 0; i < count || (int)i <= exponent; i++) {
		if (exponent >= 0 && (int)i == exponent + 1)
			ky_text(out, ".");
		(void)ky_buf_append(out, i < count ? &digits[i] : "0", 1);
	}
}

static void put_scalar(struct ky_buf *out, const struct ky_value *value)
{
	switch (value->type) {
	case KY_TYPE_I64:
		ky_text(out, value->as.i64 < 0 ? "-" : "");
		ky_text_u64(out, value->as.i64 < 0 ? 0 - value->as.number : value->as.number);
		break;
	case KY_TYPE_F64:
		put_real(out, value->as.f64);
		break;
	case KY_TYPE_BOOL:
		ky_text(out, value->as.number ? "true" : "false");
		break;
	case KY_TYPE_STRING:
	case KY_TYPE_POOLED_STRING:
		if (value->is_resolved)
			ky_json_string(out, (const char *)value->text.bytes, value->text.count);
		else
			ky_text(out, "null");
		break;
	case KY_TYPE_VARINT:
	case KY_TYPE_U8:
	case KY_TYPE_U16:
	case KY_TYPE_U32:
		ky_text_u64(out, value->as.number);
		break;
	default:
		ky_text(out, "null");
	}
}

static void begin(struct ky_buf *out, struct open_level *level, const struct ky_value *container)
{
	ky_trc_walk_begin(&level->walk, container);
	level->is_first = true;
	ky_text(out, container->type == KY_TYPE_STRING_MAP ? "{" : "[");
}

/* After a value: the end of its pair. */
static void end_item(struct ky_buf *out, const struct open_level *level)
{
	if (level->walk.type == KY_TYPE_MAP)
		ky_text(out, "]");
}

/* Before a value: the comma, and the key of its pair. */
static void begin_item(struct ky_buf *out, struct open_level *level, const struct ky_value *key)
{
	if (!level->is_first)
		ky_text(out, ",");
	level->is_first = false;
	if (level->walk.type == KY_TYPE_LIST)
		return;
	if (level->walk.type == KY_TYPE_MAP)
		ky_text(out, "[");
	put_scalar(out, key); /* a container is none: null */
	ky_text(out, level->walk.type == KY_TYPE_MAP ? "," : ":");
}

bool ky_container_text(struct ky_buf *out, struct ky_trc_dec *dec, const struct ky_value *container)
{
	struct open_level levels[KY_TRC_CONTAINER_DEPTH_MAX + 1];
	size_t from = out->used;
	uint32_t depth = 0;

	begin(out, &levels[0], container);
	while (!out->failed && out->used - from <= KY_CONTAINER_TEXT_BYTES_MAX) {
		struct open_level *level = &levels[depth];
		struct ky_value key, item;

		if (ky_trc_walk_next(dec, &level->walk, &key, &item) <= 0) {
			ky_text(out, level->walk.type == KY_TYPE_STRING_MAP ? "}" : "]");
			if (depth-- == 0)
				return !out->failed &&
				       out->used - from <= KY_CONTAINER_TEXT_BYTES_MAX;
			end_item(out, &levels[depth]);
			continue;
		}
		begin_item(out, level, &key);
		if (is_container(&item) && depth < KY_TRC_CONTAINER_DEPTH_MAX) {
			begin(out, &levels[++depth], &item);
			continue;
		}
		put_scalar(out, &item);
		end_item(out, level);
	}
	return false;
}
