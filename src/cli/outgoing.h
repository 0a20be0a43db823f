/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* outgoing.h - what the program makes of each segment before a destination gets it: names of code,
 * then redaction.
 * Threads: of the sender.
 */
#ifndef KY_CLI_OUTGOING_H
#define KY_CLI_OUTGOING_H

#include <send/segment_copy.h>

struct ky_outgoing_choice {
	uint32_t classes; /* enum ky_redact_class */
	bool is_named;
};

/* choice: outlives the filter. */
struct ky_segment_filter ky_outgoing_filter(struct ky_outgoing_choice *choice);

#endif
