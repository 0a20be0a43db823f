/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/alloc.h>
#include <base/hash.h>
#include <cli/code_addresses.h>
#include <errno.h>
#include <string.h>

void ky_code_addresses_release(struct ky_code_addresses *addresses)
{
	ky_free(addresses->list);
	ky_free(addresses->slots);
	memset(addresses, 0, sizeof(*addresses));
}

static int grow_list(struct ky_code_addresses *addresses)
{
	uint32_t capacity = addresses->capacity ? addresses->capacity * 2 : 1024;
	struct ky_code_address *grown;

	if (addresses->count < addresses->capacity)
		return 0;
	grown = ky_realloc(addresses->list, capacity * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	addresses->list = grown;
	addresses->capacity = capacity;
	return 0;
}

static int grow_slots(struct ky_code_addresses *addresses)
{
	uint32_t count = addresses->slot_count ? addresses->slot_count * 2 : 4096;
	uint32_t *slots;

	if (addresses->slot_count && addresses->count < addresses->slot_count / 2)
		return 0;
	slots = ky_alloc(count * sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (uint32_t i = 0; i < addresses->count; i++) {
		uint64_t at = ky_hash_number(addresses->list[i].address);

		while (slots[at & (count - 1)])
			at++;
		slots[at & (count - 1)] = i + 1;
	}
	ky_free(addresses->slots);
	addresses->slots = slots;
	addresses->slot_count = count;
	return 0;
}

static void widen(struct ky_code_address *entry, uint64_t time_ns)
{
	entry->count++;
	if (!time_ns)
		return;
	if (!entry->first_ns || time_ns < entry->first_ns)
		entry->first_ns = time_ns;
	if (time_ns > entry->last_ns)
		entry->last_ns = time_ns;
}

int ky_code_addresses_add(struct ky_code_addresses *addresses, uint64_t address, uint64_t time_ns)
{
	uint64_t at = ky_hash_number(address);
	uint32_t *slot;

	if (!address)
		return 0;
	if (grow_slots(addresses) || grow_list(addresses))
		return -ENOMEM;
	for (;; at++) {
		slot = &addresses->slots[at & (addresses->slot_count - 1)];
		if (!*slot)
			break;
		if (addresses->list[*slot - 1].address == address) {
			widen(&addresses->list[*slot - 1], time_ns);
			return 0;
		}
	}
	if (addresses->count == KY_ADDRESSES_MAX) {
		addresses->refused_count++;
		return 0;
	}
	memset(&addresses->list[addresses->count], 0, sizeof(*addresses->list));
	addresses->list[addresses->count].address = address;
	widen(&addresses->list[addresses->count], time_ns);
	*slot = ++addresses->count;
	return 0;
}

/* Registers are a list of words like a stack, but no code. */
static bool is_code(const struct ky_schema *schema, uint16_t index)
{
	return schema->event != KY_EV_CRASH || index != schema->slot_of[KY_F_CRASH_registers];
}

static int add_number(struct ky_code_addresses *addresses, const struct ky_schema *schema,
		      const struct ky_value *values, uint32_t field, uint64_t time_ns)
{
	uint8_t slot = schema->slot_of[field];

	if (slot == 0xff || !values[slot].is_present)
		return 0;
	return ky_code_addresses_add(addresses, values[slot].as.number, time_ns);
}

int ky_code_addresses_event(struct ky_code_addresses *addresses, const struct ky_schema *schema,
			    const struct ky_value *values, uint64_t time_ns)
{
	int err = 0;

	if (schema->event == KY_EV_CRASH)
		err = add_number(addresses, schema, values, KY_F_CRASH_pc, time_ns);
	else if (schema->event == KY_EV_STUCK_THREAD)
		err = add_number(addresses, schema, values, KY_F_STUCK_THREAD_pc, time_ns);
	for (uint16_t i = 0; i < schema->field_count && !err; i++) {
		const struct ky_value *value = &values[i];

		if (!value->is_present || !is_code(schema, i) ||
		    !(value->type == KY_TYPE_STACK ||
		      (value->type == KY_TYPE_POOLED_STACK && value->is_resolved)))
			continue;
		for (uint32_t j = 0; j < value->frame_count && !err; j++) {
			uint64_t frame;

			memcpy(&frame, value->frames + 8 * (size_t)j, sizeof(frame));
			err = ky_code_addresses_add(addresses, frame, time_ns);
		}
	}
	return err;
}
