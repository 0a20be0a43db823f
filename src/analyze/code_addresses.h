/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* code_addresses.h - every code address that the events of a trace hold: stacks of any event, the
 * program counters of crashes and stuck threads; each once, with the first and the last moment.
 *
 * Memory:  40 B an address, at most KY_ADDRESSES_MAX of them.
 * Threads: owner.
 */
#ifndef KY_ANALYZE_CODE_ADDRESSES_H
#define KY_ANALYZE_CODE_ADDRESSES_H

#include <stdbool.h>
#include <wire/trc_dec.h>

#define KY_ADDRESSES_MAX (1u << 23)

struct ky_code_address {
	uint64_t address, first_ns, last_ns; /* times 0: none of its events has one */
	uint64_t count;                      /* of mentions */
};

struct ky_code_addresses {
	struct ky_code_address *list;
	uint32_t count, capacity;
	uint32_t *slots; /* index + 1 */
	uint32_t slot_count;
	uint64_t refused_count; /* beyond the maximum */
};

/* Does a field hold code: a stack, or the program counter of a crash or a stuck thread? */
bool ky_code_field_is(const struct ky_schema *schema, uint16_t index);

/* Returns 0, -ENOMEM. */
int ky_code_addresses_event(struct ky_code_addresses *addresses, const struct ky_schema *schema,
			    const struct ky_value *values, uint64_t time_ns);
int ky_code_addresses_add(struct ky_code_addresses *addresses, uint64_t address, uint64_t time_ns);
void ky_code_addresses_release(struct ky_code_addresses *addresses);

#endif
