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

/* Whole names: a program may well be called tower_limits or futures_demo. */
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
	"futures_channel::",
	"futures_concurrency::",
	"futures_core::",
	"futures_executor::",
	"futures_intrusive::",
	"futures_io::",
	"futures_lite::",
	"futures_sink::",
	"futures_task::",
	"futures_timer::",
	"futures_util::",
	"hyper::",
	"hyper_util::",
	"tower::",
	"tower_http::",
	"tower_layer::",
	"tower_service::",
	"tower_sessions::",
	"tracing::",
	"tracing_appender::",
	"tracing_core::",
	"tracing_futures::",
	"tracing_log::",
	"tracing_opentelemetry::",
	"tracing_serde::",
	"tracing_subscriber::",
	"axum::",
	"axum_core::",
	"h2::",
	"tonic::",
	"rustls::",
	"reqwest::",
	"rayon::",
	"rayon_core::",
	"parking_lot::",
	"parking_lot_core::",
	"crossbeam::",
	"crossbeam_channel::",
	"crossbeam_deque::",
	"crossbeam_epoch::",
	"crossbeam_queue::",
	"crossbeam_skiplist::",
	"crossbeam_utils::",
	"once_cell::",
	"pin_project::",
	"pin_project_internal::",
	"pin_project_lite::",
	"async_stream::",
	"async_trait::",
	"bytes::",
	"http::",
	"http_body::",
	"http_body_util::",
	"httparse::",
	"hashbrown::",
	"serde::",
	"serde_core::",
	"serde_json::",
	"serde_path_to_error::",
	"serde_urlencoded::",
	"serde_yaml::",
	"event_listener::",
	"event_listener_strategy::",
	"backtrace::",
	"indexmap::",
	"flume::",
	"async_channel::",
	"async_lock::",
	"kanal::",
	"deadpool::",
	"bb8::",
	"r2d2::",
	"sqlx::",
	"sqlx_core::",
	"sqlx_mysql::",
	"sqlx_postgres::",
	"sqlx_sqlite::",
	"dashmap::",
	"moka::",
	"lock_api::",
	"arc_swap::",
	"regex::",
	"regex_automata::",
	"regex_lite::",
	"regex_syntax::",
	"fancy_regex::",
	"aho_corasick::",
	"memchr::",
	"sha2::",
	"digest::",
	"ring::",
	"rand::",
	"rand_chacha::",
	"rand_core::",
	"rand_xoshiro::",
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
