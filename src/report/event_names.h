/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* event_names.h - the code addresses of an event by name, innermost function first.
 *
 * Errors: buf->failed.    Threads: owner.
 */
#ifndef KY_REPORT_EVENT_NAMES_H
#define KY_REPORT_EVENT_NAMES_H

#include <base/buf.h>
#include <read/event_stream.h>
#include <read/symbol_table.h>

/* ["inner","outer","main"] for a stack, 140523 ("function") for a program counter. Returns false,
 * and writes nothing, when the field holds no code. */
bool ky_event_names_text(struct ky_buf *out, struct ky_symbol_table *symbols,
			 const struct ky_event *event, uint16_t field);

/* ,"symbols":{"0x7f10":[{"name":"inner","file":"a.rs","line":3},{"name":"outer",...}],...}: every
 * address of the event once or more. Nothing for an event without any. */
void ky_event_names_json(struct ky_buf *out, struct ky_symbol_table *symbols,
			 const struct ky_event *event);

#endif
