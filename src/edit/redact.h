/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* redact.h - texts of a trace that others shall not read, replaced while it is written anew.
 *
 * What is known to be harmless stays: a text field that kymo does not know, and a key of the
 * metadata that is none of its own, count as sensitive.
 *
 *   paths    home directories in any text, names of event types included: "~"
 *   args     metadata of the program and the user, reasons of dumps
 *   memory   the stack and the registers of a crash: they are emptied
 *   values   texts and bytes in fields of spans and of the program's own events; marks
 *   names    of functions, places, threads, spans, services, hosts, files: a keyed hash each, so
 *            that what was the same still is
 *
 * Invariants:  numbers, times and addresses stay; the same value gives the same result within one
 *              ky_redact, whatever event it stands in.
 * Memory:      one text.
 * Threads:     owner.
 */
#ifndef KY_EDIT_REDACT_H
#define KY_EDIT_REDACT_H

#include <base/buf.h>
#include <wire/trc_dec.h>

enum ky_redact_class {
	KY_REDACT_PATHS = 1u << 0,
	KY_REDACT_ARGS = 1u << 1,
	KY_REDACT_MEMORY = 1u << 2,
	KY_REDACT_VALUES = 1u << 3,
	KY_REDACT_NAMES = 1u << 4
};
#define KY_REDACT_LEVEL_ARGS ((uint32_t)(KY_REDACT_PATHS | KY_REDACT_ARGS | KY_REDACT_MEMORY))
#define KY_REDACT_LEVEL_VALUES (KY_REDACT_LEVEL_ARGS | (uint32_t)KY_REDACT_VALUES)
#define KY_REDACT_LEVEL_NAMES (KY_REDACT_LEVEL_VALUES | (uint32_t)KY_REDACT_NAMES)

#define KY_REDACT_CLASSES 5u

#define KY_REDACT_KEY_BYTES 16u

struct ky_redact {
	uint32_t classes; /* enum ky_redact_class */
	uint8_t key[KY_REDACT_KEY_BYTES];
	struct ky_buf text; /* of the last value; failed: it is not to be used */
};

/* key: from the system's random numbers. Returns 0 or -errno. */
int ky_redact_init(struct ky_redact *redact, uint32_t classes);
/* With a key that others keep: the same names give the same hashes with it. */
void ky_redact_init_key(struct ky_redact *redact, uint32_t classes,
			const uint8_t key[KY_REDACT_KEY_BYTES]);
void ky_redact_release(struct ky_redact *redact);

/* "args", "values" or "names". Returns the classes; 0: none of them. */
uint32_t ky_redact_level(const char *text);
/* Name of class 1 << number. */
const char *ky_redact_class_name(uint32_t number);

/* What stands for a value of an event: `value`, or `copy` with a text that is valid until the next
 * call. field: in the schema. Elements of a LIST or MAP are given one by one, as values. */
const struct ky_value *ky_redact_value(struct ky_redact *redact, const struct ky_schema *schema,
				       uint16_t field, const struct ky_value *value,
				       struct ky_value *copy);
/* What stands for a name, such as a function's or a service's; valid until the next call. */
struct ky_slice ky_redact_name(struct ky_redact *redact, struct ky_slice name);
/* What stands for the name of a type of events; valid until the next call. */
struct ky_slice ky_redact_type(struct ky_redact *redact, uint32_t event, const char *name,
			       size_t name_bytes);

/* What stands for a text that is in no event, such as a sentence about the trace: its home
 * directories are replaced. Valid until the next call; "" where memory is short, text.failed. */
const char *ky_redact_text(struct ky_redact *redact, const char *text);

#endif
