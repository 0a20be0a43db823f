/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <kymo/base.h>

#include <string.h>

const char *kymo_error_text(int code)
{
	const char *text;

	if (code >= 0)
		return "success";
	switch (code) {
#define ERROR_CASE(name, value, text)                                                              \
	case (value):                                                                              \
		return text;
		KYMO_ERRORS(ERROR_CASE)
#undef ERROR_CASE
	default:
		text = strerrordesc_np(-code);
		return text ? text : "unknown error";
	}
}
