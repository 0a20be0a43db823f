/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/upload_run.h>

#include <base/json_write.h>
#include <base/now.h>
#include <base/out_text.h>
#include <cli/cli.h>
#include <send/sent_text.h>
#include <errno.h>
#include <kymo/base.h>
#include <malloc.h>
#include <send/push_stage.h>
#include <sys/resource.h>
#include <unistd.h>

#define WINDOW_BYTES_MIN (128 << 10)

void ky_upload_set_up(void)
{
	/* A freed window goes back at once: what glibc would keep is as much as all else. */
	(void)mallopt(M_MMAP_THRESHOLD, WINDOW_BYTES_MIN);
	(void)setpriority(PRIO_PROCESS, 0, 10);
}

static void say(void *ctx, const char *text)
{
	(void)ctx;
	ky_cli_notice("%s", text);
}

/* One that is asked again within the time that is left. */
static bool wait_for(struct ky_sender *sender, uint64_t end_ns)
{
	uint64_t due_ns = ky_sender_due_ns(sender), now_ns = ky_now_ns(CLOCK_MONOTONIC);

	if (due_ns >= end_ns || now_ns >= end_ns)
		return false;
	if (due_ns > now_ns)
		ky_sleep_ns(due_ns - now_ns);
	return true;
}

static void print_json(const struct ky_sender_totals *totals, struct ky_buf *out)
{
	ky_json_open(out, NULL, "{");
	ky_json_text(out, "to", totals->name);
	ky_json_number(out, "sent", totals->taken_count);
	ky_json_number(out, "sent_bytes", totals->taken_bytes);
	ky_json_number(out, "left", totals->waiting_count);
	ky_json_number(out, "left_bytes", totals->waiting_bytes);
	ky_json_number(out, "refused", totals->refused_count);
	ky_json_number(out, "runs_elsewhere", totals->elsewhere_count);
	ky_json_text_or_null(out, "reason", totals->reason[0] ? totals->reason : NULL);
	ky_json_close(out, "}");
	ky_out_text(out, "\n");
}

static void print_line(struct ky_buf *out, const struct ky_sender_totals *totals)
{
	ky_sent_text(out, totals);
	ky_out_text(out, "\n");
}

static int report(const struct ky_destinations *destinations, const struct ky_sender *sender,
		  bool is_json)
{
	struct ky_sender_totals totals;
	int code = KY_EXIT_OK;
	struct ky_buf out;

	ky_buf_init(&out, 0);
	for (uint32_t i = 0; i < destinations->count; i++) {
		ky_sender_totals(sender, i, &totals);
		if (is_json)
			print_json(&totals, &out);
		else if (!ky_cli_is_quiet())
			print_line(&out, &totals);
		if (totals.waiting_count || totals.elsewhere_count || totals.reason[0])
			code = KY_EXIT_TROUBLE;
		if (totals.elsewhere_count)
			ky_cli_error("%s: another process sends %llu of the runs", totals.name,
				     (unsigned long long)totals.elsewhere_count);
		if (totals.waiting_count)
			ky_sent_say(ky_cli_error, ky_sent_left_text, &totals);
	}
	if (ky_cli_print(&out))
		code = KY_EXIT_TROUBLE;
	ky_buf_release(&out);
	return code;
}

int ky_upload_run(const struct ky_destinations *destinations, struct ky_sender *sender,
		  const char *what, bool is_json)
{
	uint64_t end_ns = ky_now_ns(CLOCK_MONOTONIC) + destinations->timeout_ns;
	int err;

	ky_sender_finish_at(sender, end_ns);
	do {
		err = ky_sender_pass(sender);
	} while (!err && wait_for(sender, end_ns));
	if (err == -ENOENT && access(what, F_OK) == 0) {
		ky_cli_error("%s: no run of `kymo run` and no dump is in there", what);
		return KY_EXIT_TROUBLE;
	}
	if (err == -EINVAL) {
		ky_cli_error("%s: a file of such a name is not sent; give it another", what);
		return KY_EXIT_TROUBLE;
	}
	if (err) {
		ky_cli_error("%s: %s", what, kymo_error_text(err));
		return KY_EXIT_TROUBLE;
	}
	return report(destinations, sender, is_json);
}

struct ky_sender *ky_upload_open(struct ky_destinations *destinations,
				 struct ky_sender_options *options)
{
	struct ky_sender *sender;

	options->say = say;
	ky_destinations_make(destinations, options);
	if (ky_sender_open(&sender, options) == 0)
		return sender;
	ky_cli_error("no memory");
	return NULL;
}

int ky_upload_check_dump(const struct ky_destinations *destinations, const char *what)
{
	for (uint32_t i = 0; i < destinations->count; i++)
		if (!destinations->are_commands[i] && ky_push_stage_is(destinations->words[i])) {
			ky_cli_error("%s: a dump is not sent to a receiver, which would count its "
				     "polls twice; `kymo export --push` sends one",
				     what);
			return KY_EXIT_USAGE;
		}
	return KY_EXIT_OK;
}

int ky_upload_dump(struct ky_destinations *destinations, const char *path, bool is_json)
{
	struct ky_sender_options options = {.dumps = path};
	struct ky_sender *sender;
	int code;

	ky_upload_set_up();
	sender = ky_upload_open(destinations, &options);
	if (!sender)
		return KY_EXIT_TROUBLE;
	code = ky_upload_run(destinations, sender, path, is_json);
	ky_sender_close(sender);
	return code;
}
