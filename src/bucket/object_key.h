/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* object_key.h - what the name of an object in a bucket says of the trace in it.
 *
 * The forms are those of send/layout.h, below any prefix; a key of another form has its name alone.
 * Input:   untrusted. Pure. Threads: any.
 */
#ifndef KY_BUCKET_OBJECT_KEY_H
#define KY_BUCKET_OBJECT_KEY_H

#include <stdbool.h>
#include <stdint.h>

enum ky_object_form {
	KY_OBJECT_PLAIN, /* a trace by its ending: nothing else is known */
	KY_OBJECT_DIAL9, /* one gzip member: read whole */
	KY_OBJECT_KYMO
};

#define KY_OBJECT_SERVICE_BYTES 64u
#define KY_OBJECT_HOST_BYTES 128u
#define KY_OBJECT_RUN_BYTES 96u

struct ky_object_key {
	enum ky_object_form form;
	char service[KY_OBJECT_SERVICE_BYTES], host[KY_OBJECT_HOST_BYTES];
	char run[KY_OBJECT_RUN_BYTES]; /* of one process: BOOT-PID-START, or dial9's boot id */
	uint64_t start_unix_ns;        /* 0: not known */
	uint64_t end_unix_ns;          /* 0: not known */
	uint64_t number;               /* of the segment in its run */
};

/* False: by its name it is no trace. */
bool ky_object_key_read(struct ky_object_key *out, const char *key);

/* What follows "service=" in a key, up to a slash or its end. out: KY_OBJECT_SERVICE_BYTES. False:
 * it is no value of ours. */
bool ky_object_service_read(char *out, const char *value);

/* Of an object that names a long segment (send/layout.h): whose it is, the hour in which it began,
 * and how many hours it lasts at most. */
struct ky_object_long {
	char service[KY_OBJECT_SERVICE_BYTES];
	uint64_t hour_unix_ns;
	uint64_t hours; /* 2 to KY_OBJECT_HOURS_MAX */
};
#define KY_OBJECT_HOURS_MAX 65536u

/* False: it is none. */
bool ky_object_long_read(struct ky_object_long *out, const char *key);

#endif
