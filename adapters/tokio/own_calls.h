/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* own_calls.h - where the recorder is linked into the program whose slots it changes, its own calls
 * of the same functions must not lead to itself. This header is put in front of every C source of
 * such a build (cc -include): each of these functions then has another name to the linker, and
 * own_calls_<arch>.S continues to the function through a word that is never changed (got.c).
 *
 * The preload is an object of its own and needs none of it.
 */
#ifndef KY_TOKIO_OWN_CALLS_H
#define KY_TOKIO_OWN_CALLS_H

#include "calls.h"

/* Beside those of calls.h; what got.c knows by name. */
#define KY_TOKIO_OTHER_CALLS(CALL)                                                                 \
	CALL(epoll_wait)                                                                           \
	CALL(epoll_pwait)                                                                          \
	CALL(syscall)                                                                              \
	CALL(eventfd)                                                                              \
	CALL(write)                                                                                \
	CALL(eventfd_write)                                                                        \
	CALL(epoll_ctl)                                                                            \
	CALL(prctl)                                                                                \
	CALL(pthread_setname_np)                                                                   \
	CALL(pthread_create)                                                                       \
	CALL(sigaction)                                                                            \
	CALL(signal)                                                                               \
	CALL(close)                                                                                \
	CALL(ioctl)                                                                                \
	CALL(fcntl)                                                                                \
	CALL(dup2)                                                                                 \
	CALL(dup3)

#ifndef __ASSEMBLER__
#define KY_TOKIO_PRAGMA(text) _Pragma(#text)
#define KY_TOKIO_RENAME(name, other) KY_TOKIO_PRAGMA(redefine_extname name other)
#define KY_TOKIO_OTHER_CALL(name) KY_TOKIO_RENAME(name, ky_own_##name)
#define KY_TOKIO_OWN_CALL(name, number, reason, type, parameters, arguments)                       \
	KY_TOKIO_OTHER_CALL(name)
KY_TOKIO_CALLS(KY_TOKIO_OWN_CALL)
KY_TOKIO_OTHER_CALLS(KY_TOKIO_OTHER_CALL)
#undef KY_TOKIO_OWN_CALL
#undef KY_TOKIO_OTHER_CALL
#undef KY_TOKIO_RENAME
#undef KY_TOKIO_PRAGMA
#endif

#endif
