/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/crate_name.h>

#include <base/text.h>

#include <stddef.h>

static bool is_letter(char byte)
{
	return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
	       (byte >= '0' && byte <= '9') || byte == '_';
}

static const char *skip_type(const char *at)
{
	for (;;) {
		if (*at == '<' || *at == '&' || *at == '(' || *at == '*')
			at++;
		else if (ky_text_begins(at, "_<")) /* as older compilers have it */
			at += 2;
		else if (ky_text_begins(at, "mut ") || ky_text_begins(at, "dyn "))
			at += 4;
		else if (ky_text_begins(at, "const "))
			at += 6;
		else
			return at;
	}
}

const char *ky_crate_name_begin(const char *name)
{
	const char *at, *end;

	/* Without a crate in front it is a parameter, or one of the language's own. */
	for (;;) {
		at = skip_type(name);
		end = at;
		while (is_letter(*end))
			end++;
		if (!ky_text_begins(end, " as "))
			return at;
		name = end + 4;
	}
}

/* With "_" at its end: all of a family, such as tower_http and tower_service. */
static const char *const libraries[] = {
	"std::",
	"core::",
	"alloc::",
	"tokio::",
	"tokio_util::",
	"tokio_stream::",
	"tokio_rustls::",
	"mio::",
	"futures::",
	"futures_",
	"hyper::",
	"hyper_util::",
	"tower::",
	"tower_",
	"tracing::",
	"tracing_",
	"axum::",
	"axum_core::",
	"h2::",
	"tonic::",
	"rustls::",
	"reqwest::",
	"rayon::",
	"rayon_core::",
	"parking_lot::",
	"parking_lot_",
	"crossbeam::",
	"crossbeam_",
	"once_cell::",
	"pin_project::",
	"pin_project_",
	"async_stream::",
	"async_trait::",
	"bytes::",
	"http::",
	"http_body::",
	"http_body_",
	"httparse::",
	"hashbrown::",
	"serde::",
	"serde_",
	"event_listener",
	"backtrace::",
	"indexmap::",
	"flume::",
	"async_channel::",
	"async_lock::",
	"kanal::",
	"deadpool::",
	"bb8::",
	"r2d2::",
	"sqlx",
	"dashmap::",
	"moka::",
	"lock_api::",
	"arc_swap::",
	"regex::",
	"regex_",
	"fancy_regex::",
	"aho_corasick::",
	"memchr::",
	"sha2::",
	"digest::",
	"ring::",
	"rand::",
	"rand_",
	"smallvec::",
	"slab::",
	"env_logger::",
	"socket2::",
	"concurrent_queue::",
	"ahash::",
};

bool ky_crate_name_is_library(const char *name)
{
	const char *at = ky_crate_name_begin(name);

	/* Reserved for compilers and libraries, such as __rust_try; a slice is the language's. */
	if (ky_text_begins(at, "__") || *at == '[')
		return true;
	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
		if (ky_text_begins(at, libraries[i]))
			return true;
	return false;
}

bool ky_crate_name_is_runtime_task(const char *name)
{
	return ky_text_contains(name, "::worker::Launch::launch");
}
