/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* events.c - events of the application's own, from one list of their fields.
 *
 *   events [DIRECTORY]      leaves a trace below DIRECTORY (default ./kymo-traces)
 *   kymo events --type OrderPlaced DIRECTORY
 */
#include <kymo/event.h>
#include <kymo/recorder.h>
#include <stdio.h>

#define ORDERS 100

/* A list of fields may be part of another one. */
#define PLACE(FIELD) FIELD(country, interned, "") FIELD(zip, opt_u64, "")
#define ORDER(FIELD)                                                                               \
	FIELD(id, u64, "")                                                                         \
	FIELD(price, f64, "EUR")                                                                   \
	FIELD(balance, i64, "EUR")                                                                 \
	FIELD(is_gift, bool, "")                                                                   \
	FIELD(note, opt_string, "")                                                                \
	FIELD(items, list_u64, "")                                                                 \
	FIELD(tags, list_string, "")                                                               \
	FIELD(weights, map_f64, "kg")                                                              \
	PLACE(FIELD)

KYMO_EVENT(order_placed, "OrderPlaced", ORDER)

static void place(uint64_t id)
{
	static const uint64_t items[] = {1001, 1002, 1003};
	static const char *const tags[] = {"new", "say \"hi\""}, *const parts[] = {"box", "lid"};
	static const double weights[] = {1.5, 0.25};
	const struct order_placed event = {
		.id = id,
		.price = (double)id / 4,
		.balance = -(int64_t)id,
		.is_gift = id % 2 == 0,
		.note = id % 3 ? NULL : "by hand",
		.items = {items, (uint32_t)id % 4},
		.tags = {tags, 2},
		.weights = {parts, weights, 2},
		.country = "de",
		.zip = {id % 5 == 0, 10115},
	};

	order_placed_record(&event);
}

int main(int argc, char **argv)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct kymo_recorder *recorder;
	char sentence[256] = "";
	int err;

	options.trace_directory = argc > 1 ? argv[1] : NULL;
	options.service = "events";
	options.flags = KYMO_RECORDER_STREAM;
	options.errbuf = sentence;
	options.errbuf_bytes = sizeof(sentence);
	if (kymo_recorder_open(&recorder, &options)) {
		fprintf(stderr, "events: %s\n", sentence);
		return 1;
	}
	for (uint64_t id = 0; id < ORDERS; id++)
		place(id);
	err = kymo_recorder_close(recorder);
	if (err)
		fprintf(stderr, "events: the trace is incomplete: %s\n", kymo_error_text(err));
	return err != 0;
}
