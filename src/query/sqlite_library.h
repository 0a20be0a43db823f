/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* sqlite_library.h - SQLite, loaded with the first query: no other command pays for it and for
 * libm (0.3 ms of each start, more than a tenth of `kymo --version`).
 *
 * The names of its functions are those pointers here. None may be called before. In place of
 * sqlite3.h.
 */
#ifndef KY_QUERY_SQLITE_LIBRARY_H
#define KY_QUERY_SQLITE_LIBRARY_H

#include <sqlite3.h>
#include <stdbool.h>

/* clang-format off */
#define KY_SQLITE_FUNCTIONS(X) \
	X(aggregate_context) X(close) X(column_blob) X(column_bytes) X(column_count) \
	X(column_double) X(column_int64) X(column_name) X(column_type) X(create_function_v2) \
	X(create_module_v2) X(db_config) X(declare_vtab) X(errmsg) X(error_offset) X(exec) \
	X(finalize) X(free) X(hard_heap_limit64) X(limit) X(mprintf) X(open_v2) X(prepare_v2) \
	X(progress_handler) X(result_double) X(result_error_nomem) X(result_int64) \
	X(result_null) X(result_text) X(set_authorizer) X(step) X(stmt_readonly) X(stricmp) \
	X(user_data) X(value_int64) X(value_numeric_type) X(value_text) X(value_type) \
	X(vfs_find) X(vfs_register) X(vtab_collation)
/* clang-format on */

extern struct ky_sqlite_library {
	/* A member's name takes no parentheses. NOLINTNEXTLINE(bugprone-macro-parentheses) */
#define KY_SQLITE_POINTER(name) __typeof__(&sqlite3_##name) name;
	KY_SQLITE_FUNCTIONS(KY_SQLITE_POINTER)
#undef KY_SQLITE_POINTER
} ky_sqlite_library;

#define sqlite3_aggregate_context ky_sqlite_library.aggregate_context
#define sqlite3_close ky_sqlite_library.close
#define sqlite3_column_blob ky_sqlite_library.column_blob
#define sqlite3_column_bytes ky_sqlite_library.column_bytes
#define sqlite3_column_count ky_sqlite_library.column_count
#define sqlite3_column_double ky_sqlite_library.column_double
#define sqlite3_column_int64 ky_sqlite_library.column_int64
#define sqlite3_column_name ky_sqlite_library.column_name
#define sqlite3_column_type ky_sqlite_library.column_type
#define sqlite3_create_function_v2 ky_sqlite_library.create_function_v2
#define sqlite3_create_module_v2 ky_sqlite_library.create_module_v2
#define sqlite3_db_config ky_sqlite_library.db_config
#define sqlite3_declare_vtab ky_sqlite_library.declare_vtab
#define sqlite3_errmsg ky_sqlite_library.errmsg
#define sqlite3_error_offset ky_sqlite_library.error_offset
#define sqlite3_exec ky_sqlite_library.exec
#define sqlite3_finalize ky_sqlite_library.finalize
#define sqlite3_free ky_sqlite_library.free
#define sqlite3_hard_heap_limit64 ky_sqlite_library.hard_heap_limit64
#define sqlite3_limit ky_sqlite_library.limit
#define sqlite3_mprintf ky_sqlite_library.mprintf
#define sqlite3_open_v2 ky_sqlite_library.open_v2
#define sqlite3_prepare_v2 ky_sqlite_library.prepare_v2
#define sqlite3_progress_handler ky_sqlite_library.progress_handler
#define sqlite3_result_double ky_sqlite_library.result_double
#define sqlite3_result_error_nomem ky_sqlite_library.result_error_nomem
#define sqlite3_result_int64 ky_sqlite_library.result_int64
#define sqlite3_result_null ky_sqlite_library.result_null
#define sqlite3_result_text ky_sqlite_library.result_text
#define sqlite3_set_authorizer ky_sqlite_library.set_authorizer
#define sqlite3_step ky_sqlite_library.step
#define sqlite3_stmt_readonly ky_sqlite_library.stmt_readonly
#define sqlite3_stricmp ky_sqlite_library.stricmp
#define sqlite3_user_data ky_sqlite_library.user_data
#define sqlite3_value_int64 ky_sqlite_library.value_int64
#define sqlite3_value_numeric_type ky_sqlite_library.value_numeric_type
#define sqlite3_value_text ky_sqlite_library.value_text
#define sqlite3_value_type ky_sqlite_library.value_type
#define sqlite3_vfs_find ky_sqlite_library.vfs_find
#define sqlite3_vfs_register ky_sqlite_library.vfs_register
#define sqlite3_vtab_collation ky_sqlite_library.vtab_collation

/* False: it is not installed, or lacks one of them. Threads: any, one at a time. */
bool ky_sqlite_library_load(void);

#endif
