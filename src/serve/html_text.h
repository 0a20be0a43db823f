/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* html_text.h - untrusted text inside a page.
 *
 * Errors:  out->failed.     Threads: any.
 */
#ifndef KY_SERVE_HTML_TEXT_H
#define KY_SERVE_HTML_TEXT_H

#include <base/buf.h>

/* As text and as the value of an attribute. */
void ky_html_text(struct ky_buf *out, const char *text);
/* As the value of a key of an address. */
void ky_html_query(struct ky_buf *out, const char *text);

#endif
