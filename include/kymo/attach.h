/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* attach.h - the protocol between `kymo attach` and the library that it loads into a process.
 *
 * `kymo attach` puts one block into memory of the process, and a thread of its own making there
 * loads the library and calls kymo_attach(block). That thread blocks all signals and ends when the
 * call returns; the block goes with it.
 *
 * Invariants:  nothing of the program is changed before `answer` says KYMO_ATTACH_GO: a `kymo
 *              attach` that was killed leaves a library that does nothing. After that the action is
 *              carried out whether `kymo attach` still runs or not.
 *
 * An application has no use for this header.
 */
#ifndef KYMO_ATTACH_H
#define KYMO_ATTACH_H

#include <kymo/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KYMO_ATTACH_VERSION 2u
#define KYMO_ATTACH_TEXT_BYTES 512u
#define KYMO_ATTACH_PATH_BYTES 1024u
#define KYMO_ATTACH_SERVICE_BYTES 64u
#define KYMO_ATTACH_FUNCTION "kymo_attach"

enum kymo_attach_action {
	KYMO_ATTACH_START = 1, /* find the tables, open the recorder, patch */
	KYMO_ATTACH_STOP = 2   /* restore every word, close the recorder */
};

enum kymo_attach_state {
	KYMO_ATTACH_BORN = 0,
	KYMO_ATTACH_LOAD_FAILED = 1, /* `message` is the loader's own sentence */
	KYMO_ATTACH_READY = 2,       /* the library is there and waits for GO */
	KYMO_ATTACH_DONE = 3         /* `result` and `text` are there */
};

enum kymo_attach_answer {
	KYMO_ATTACH_NO_ANSWER = 0,
	KYMO_ATTACH_GO = 1,
	KYMO_ATTACH_LEAVE = 2 /* the block may go */
};

struct kymo_attach_block {
	/* Used by the code that carries the thread; see src/attach/stub_x86_64.S. */
	uint64_t functions[8];
	uint64_t thread;
	uint64_t message;     /* address of the loader's sentence */
	uint64_t pause[2];    /* seconds, nanoseconds between two readings of `answer` */
	uint32_t is_back;     /* the borrowed thread is on its way back */
	int32_t create_error; /* errno of the thread that could not be made */
	uint32_t reads_max;   /* of `answer` */
	uint32_t version;     /* KYMO_ATTACH_VERSION */
	/* Between the library and `kymo attach`. Words: one writer each, release and acquire. */
	uint32_t state;        /* enum kymo_attach_state */
	uint32_t answer;       /* enum kymo_attach_answer */
	int32_t result;        /* 0, -errno, KYMO_E_* */
	uint32_t action;       /* enum kymo_attach_action */
	uint32_t is_streaming; /* 1: a recorder process drains it; 0: flight */
	uint32_t gates;        /* 0: default */
	uint64_t ring_bytes;   /* 0: default */
	uint64_t session;      /* of the ring's header */
	char function[16];     /* KYMO_ATTACH_FUNCTION */
	char service[KYMO_ATTACH_SERVICE_BYTES];
	char ring_directory[KYMO_ATTACH_PATH_BYTES]; /* "": default */
	char library[KYMO_ATTACH_PATH_BYTES];
	char text[KYMO_ATTACH_TEXT_BYTES]; /* one word and a sentence, as of a status file */
	uint32_t sample_hz;                /* it samples itself at this rate; 0: it does not */
	uint32_t reserved;                 /* 0 */
};

/* Exported by libkymo-preload.so alone. */
KYMO_API void kymo_attach(struct kymo_attach_block *block);

#ifdef __cplusplus
}
#endif

#endif
