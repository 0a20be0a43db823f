/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/export_file.h>

#include <cli/bucket_input.h>
#include <cli/cli.h>
#include <errno.h>
#include <ship/disk_room.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static struct ky_s3_upload *open_upload;    /* atomic */
static volatile sig_atomic_t ending_signal; /* 0: none */

static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
#define ENDING_COUNT (sizeof(ending) / sizeof(ending[0]))

static void stop_upload(int number)
{
	struct ky_s3_upload *upload = __atomic_load_n(&open_upload, __ATOMIC_SEQ_CST);

	ending_signal = number;
	if (upload)
		ky_s3_upload_stop(upload);
}

static void handle_signals(void (*handler)(int))
{
	struct sigaction before, action = {.sa_handler = handler};

	for (size_t i = 0; i < ENDING_COUNT; i++)
		if (sigaction(ending[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			(void)sigaction(ending[i], &action, NULL);
}

static int open_bucket(struct ky_export_file *out, bool may_replace, const char *type)
{
	int result = ky_s3_upload_open(&out->upload, out->name, type, may_replace, out->why);

	if (result)
		return result;
	__atomic_store_n(&open_upload, out->upload, __ATOMIC_SEQ_CST);
	handle_signals(stop_upload);
	return 0;
}

int ky_export_file_open(struct ky_export_file *out, const char *name, bool may_replace,
			bool is_gzip, const char *type)
{
	int result;

	*out = (struct ky_export_file){.name = name, .file.fd = -1};
	result = ky_bucket_is_path(name) ?
			 open_bucket(out, may_replace, is_gzip ? "application/gzip" : type) :
			 ky_out_file_open(&out->file, name, may_replace);
	if (result)
		return result;
	out->factory = ky_compressor_none;
	if (is_gzip)
		ky_compressor_gzip(&out->factory, 6);
	result = out->factory.open(&out->factory, &out->compressor);
	return result ? ky_export_file_close(out, NULL, result) : 0;
}

static int write_bytes(void *ctx, const uint8_t *bytes, size_t count)
{
	struct ky_export_file *out = ctx;

	return out->upload ? ky_s3_upload_write(out->upload, bytes, count) :
			     ky_out_file_write(&out->file, bytes, count);
}

int ky_export_file_pass_on(void *ctx, struct ky_buf *bytes)
{
	struct ky_export_file *out = ctx;
	int result = out->compressor.write(out->compressor.self, bytes->bytes, bytes->used,
					   write_bytes, out);

	ky_buf_clear(bytes);
	return result;
}

static int close_upload(struct ky_export_file *out, int result)
{
	if (!result)
		result = ky_s3_upload_commit(out->upload);
	(void)snprintf(out->why, sizeof(out->why), "%s", ky_s3_upload_why(out->upload));
	ky_s3_upload_close(out->upload, out->why);
	__atomic_store_n(&open_upload, NULL, __ATOMIC_SEQ_CST);
	handle_signals(SIG_DFL);
	out->upload = NULL;
	if (result && ending_signal)
		(void)raise(ending_signal);
	return result;
}

int ky_export_file_close(struct ky_export_file *out, struct ky_buf *bytes, int result)
{
	if (!result && bytes && bytes->used)
		result = ky_export_file_pass_on(out, bytes);
	if (!result)
		result = out->compressor.finish(out->compressor.self, write_bytes, out);
	if (out->compressor.close)
		out->compressor.close(out->compressor.self);
	if (out->upload)
		return close_upload(out, result);
	if (!result)
		return ky_out_file_commit(&out->file);
	ky_out_file_abort(&out->file);
	return result;
}

int ky_export_file_say(const struct ky_export_file *out, int result)
{
	char room[KY_DISK_ROOM_BYTES];

	if (result == -EEXIST)
		ky_cli_error("%s: exists; replace it with --force", out->name);
	else if (result == -ENOMEM)
		ky_cli_error("out of memory");
	else if (ky_bucket_is_path(out->name))
		ky_cli_error("%s: %s", out->name, out->why);
	else
		ky_cli_error("%s: cannot be written: %s", out->name,
			     ky_disk_room_text(room, out->name, result));
	return KY_EXIT_TROUBLE;
}
