/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <serve/html_text.h>

#include <base/out_text.h>
#include <stdint.h>
#include <string.h>

void ky_html_text(struct ky_buf *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '&')
			ky_out_text(out, "&amp;");
		else if (*text == '<')
			ky_out_text(out, "&lt;");
		else if (*text == '"')
			ky_out_text(out, "&quot;");
		else if ((uint8_t)*text < ' ' || *text == 127)
			ky_out_text(out, " ");
		else
			(void)ky_buf_append(out, text, 1);
	}
}

void ky_html_query(struct ky_buf *out, const char *text)
{
	for (; *text; text++)
		if (strchr("-_.~", *text) || (*text >= '0' && *text <= '9') ||
		    (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z'))
			(void)ky_buf_append(out, text, 1);
		else
			ky_out_format(out, "%%%02X", (unsigned)(uint8_t)*text);
}
