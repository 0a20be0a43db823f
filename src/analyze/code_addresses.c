/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/alloc.h>
#include <base/hash.h>
#include <analyze/code_addresses.h>
#include <errno.h>
#include <string.h>

void ky_code_addresses_release(struct ky_code_addresses *addresses)
{
	ky_free(addresses->list);
	ky_free(addresses->slots);
	memset(addresses, 0, sizeof(*addresses));
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
	if (grow_slots(addresses) || ky_grow(&addresses->list, &addresses->capacity,
					     addresses->count + 1, sizeof(*addresses->list)))
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

bool ky_code_field_is(const struct ky_schema *schema, uint16_t index)
{
	uint8_t type = schema->fields[index].type & (uint8_t)~KY_TYPE_OPTIONAL;

	if (schema->event == KY_EV_CRASH && index == schema->slot_of[KY_F_CRASH_pc])
		return true;
	if (schema->event == KY_EV_STUCK_THREAD && index == schema->slot_of[KY_F_STUCK_THREAD_pc])
		return true;
	/* Registers are a list of words like a stack, but no code. */
	if (schema->event == KY_EV_CRASH && index == schema->slot_of[KY_F_CRASH_registers])
		return false;
	return type == KY_TYPE_STACK || type == KY_TYPE_POOLED_STACK;
}

static int add_stack(struct ky_code_addresses *addresses, const struct ky_value *value,
		     uint64_t time_ns)
{
	int err = 0;

	for (uint32_t i = 0; i < value->frame_count && !err; i++) {
		uint64_t frame;

		memcpy(&frame, value->frames + 8 * (size_t)i, sizeof(frame));
		err = ky_code_addresses_add(addresses, frame, time_ns);
	}
	return err;
}

int ky_code_addresses_event(struct ky_code_addresses *addresses, const struct ky_schema *schema,
			    const struct ky_value *values, uint64_t time_ns)
{
	int err = 0;

	for (uint16_t i = 0; i < schema->field_count && !err; i++) {
		const struct ky_value *value = &values[i];

		if (!value->is_present || !ky_code_field_is(schema, i))
			continue;
		if (value->type != KY_TYPE_STACK && value->type != KY_TYPE_POOLED_STACK)
			err = ky_code_addresses_add(addresses, value->as.number, time_ns);
		else if (value->type == KY_TYPE_STACK || value->is_resolved)
			err = add_stack(addresses, value, time_ns);
	}
	return err;
}
