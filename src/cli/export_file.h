/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* export_file.h - where an export goes: a file, standard output, or an object of a bucket; packed
 * where its name says so.
 *
 * Signals: while an object is open SIGINT, SIGTERM and SIGHUP stop it, so that no part of it stays
 *          in the bucket; ky_export_file_close() then ends the process by that signal.
 * Threads: owner; one object at a time.
 */
#ifndef KY_CLI_EXPORT_FILE_H
#define KY_CLI_EXPORT_FILE_H

#include <base/buf.h>
#include <send/s3_upload.h>
#include <ship/compressor.h>
#include <ship/out_file.h>

struct ky_export_file {
	const char *name; /* s3://BUCKET/KEY, a path, "-" */
	struct ky_out_file file;
	struct ky_s3_upload *upload; /* NULL: it is a file */
	struct ky_compressor_factory factory;
	struct ky_compressor compressor;
	char why[KY_S3_UPLOAD_WHY_BYTES]; /* of an object */
};

/* type: of the content. Returns 0, or what ky_export_file_say() takes. */
int ky_export_file_open(struct ky_export_file *out, const char *name, bool may_replace,
			bool is_gzip, const char *type);
/* As struct ky_export's flush: takes the bytes, and clears them. */
int ky_export_file_pass_on(void *ctx, struct ky_buf *bytes);
/* result: of what was done until now; an error leaves nothing behind. bytes: the last ones. Returns
 * result, or an error of its own. */
int ky_export_file_close(struct ky_export_file *out, struct ky_buf *bytes, int result);

/* Says what went wrong. Returns KY_EXIT_TROUBLE. */
int ky_export_file_say(const struct ky_export_file *out, int result);

#endif
