/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* key_process.h - keys that a program prints: credential_process of a profile.
 *
 * Source:   AWS SDKs and Tools reference, "Process credential provider".
 * Invariants:  no shell: words between blanks, with quotes and backslashes as a shell has them, and
 *           nothing is expanded. It has KY_KEY_PROCESS_LIMIT_NS and KY_KEY_PROCESS_BYTES_MAX of
 *           output, and its process group ends with it.
 * Secrets:  its output is in one buffer, which its user wipes, and its standard error goes nowhere:
 *           programs print keys there, too.
 * Threads:  any.
 */
#ifndef KY_SEND_KEY_PROCESS_H
#define KY_SEND_KEY_PROCESS_H

#include <base/buf.h>

#define KY_KEY_PROCESS_LIMIT_NS UINT64_C(30000000000)
#define KY_KEY_PROCESS_BYTES_MAX 65536u
#define KY_KEY_PROCESS_WORDS_MAX 64u

/* Cuts a text into its words, in place. Returns how many; 0: none, more than words_max, or a quote
 * without its end. */
size_t ky_key_process_split(char *text, char **words, size_t words_max);

/* limit_ns: 0: KY_KEY_PROCESS_LIMIT_NS. out: never moved. Returns 0 and all that it printed;
 * -ENOENT and why (KY_HTTP_ERROR_BYTES); -ENOMEM. */
int ky_key_process_run(struct ky_buf *out, const char *command, uint64_t limit_ns, char *why);

#endif
