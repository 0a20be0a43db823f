/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* calls.h - functions of the C library that may block, through the slots of objects that contain
 * Tokio: what a poll must not do. Everything that Rust's standard library calls, and what C code in
 * the same object likes to. The name, the system call that it makes (-1: several), what its
 * arguments and its result say (blocking.c), result, parameters.
 *
 * Not here: what never waits for others (mmap, close of a file), and functions whose callers depend
 * on the stack (vfork).
 */
#ifndef KY_TOKIO_CALLS_H
#define KY_TOKIO_CALLS_H

/* clang-format off */
#define KY_TOKIO_CALLS(CALL)                                                                       \
	CALL(nanosleep, SYS_clock_nanosleep, PLAIN, int,                                           \
	     (const struct timespec *a, struct timespec *b), (a, b))                               \
	CALL(clock_nanosleep, SYS_clock_nanosleep, PLAIN, int,                                     \
	     (clockid_t a, int b, const struct timespec *c, struct timespec *d), (a, b, c, d))     \
	CALL(usleep, SYS_clock_nanosleep, PLAIN, int, (useconds_t a), (a))                         \
	CALL(sleep, SYS_clock_nanosleep, PLAIN, unsigned int, (unsigned int a), (a))               \
	CALL(pause, SYS_pause, PLAIN, int, (void), ())                                             \
	CALL(poll, SYS_poll, POLL, int, (struct pollfd *a, nfds_t b, int c), (a, b, c))            \
	CALL(ppoll, SYS_ppoll, POLL, int,                                                          \
	     (struct pollfd *a, nfds_t b, const struct timespec *c, const sigset_t *d),            \
	     (a, b, c, d))                                                                         \
	CALL(select, SYS_select, CHECKED, int,                                                     \
	     (int a, fd_set *b, fd_set *c, fd_set *d, struct timeval *e), (a, b, c, d, e))         \
	CALL(read, SYS_read, IN, ssize_t, (int a, void *b, size_t c), (a, b, c))                   \
	CALL(readv, SYS_readv, IN_VECTOR, ssize_t,                                                 \
	     (int a, const struct iovec *b, int c), (a, b, c))                                     \
	CALL(pread, SYS_pread64, FILE_IO, ssize_t, (int a, void *b, size_t c, off_t d),            \
	     (a, b, c, d))                                                                         \
	CALL(pread64, SYS_pread64, FILE_IO, ssize_t, (int a, void *b, size_t c, off64_t d),        \
	     (a, b, c, d))                                                                         \
	CALL(writev, SYS_writev, OUT, ssize_t, (int a, const struct iovec *b, int c),              \
	     (a, b, c))                                                                            \
	CALL(pwrite, SYS_pwrite64, FILE_IO, ssize_t, (int a, const void *b, size_t c, off_t d),    \
	     (a, b, c, d))                                                                         \
	CALL(pwrite64, SYS_pwrite64, FILE_IO, ssize_t,                                             \
	     (int a, const void *b, size_t c, off64_t d), (a, b, c, d))                            \
	CALL(recv, SYS_recvfrom, IN_FLAGS, ssize_t, (int a, void *b, size_t c, int d),             \
	     (a, b, c, d))                                                                         \
	CALL(recvfrom, SYS_recvfrom, IN_FLAGS, ssize_t,                                            \
	     (int a, void *b, size_t c, int d, struct sockaddr *e, socklen_t *f),                  \
	     (a, b, c, d, e, f))                                                                   \
	CALL(recvmsg, SYS_recvmsg, IN_MESSAGE, ssize_t,                                            \
	     (int a, struct msghdr *b, int c), (a, b, c))                                          \
	CALL(send, SYS_sendto, OUT_FLAGS, ssize_t, (int a, const void *b, size_t c, int d),        \
	     (a, b, c, d))                                                                         \
	CALL(sendto, SYS_sendto, OUT_FLAGS, ssize_t,                                               \
	     (int a, const void *b, size_t c, int d, const struct sockaddr *e, socklen_t f),       \
	     (a, b, c, d, e, f))                                                                   \
	CALL(sendmsg, SYS_sendmsg, OUT_MESSAGE, ssize_t, (int a, const struct msghdr *b, int c),   \
	     (a, b, c))                                                                            \
	CALL(sendfile, SYS_sendfile, OUT, ssize_t, (int a, int b, off_t *c, size_t d),             \
	     (a, b, c, d))                                                                         \
	CALL(sendfile64, SYS_sendfile, OUT, ssize_t, (int a, int b, off64_t *c, size_t d),         \
	     (a, b, c, d))                                                                         \
	CALL(accept, SYS_accept, ACCEPT, int, (int a, struct sockaddr *b, socklen_t *c),           \
	     (a, b, c))                                                                            \
	CALL(accept4, SYS_accept4, ACCEPT, int,                                                    \
	     (int a, struct sockaddr *b, socklen_t *c, int d), (a, b, c, d))                       \
	CALL(connect, SYS_connect, CONNECT, int, (int a, const struct sockaddr *b, socklen_t c),   \
	     (a, b, c))                                                                            \
	CALL(getaddrinfo, -1, PLAIN, int,                                                          \
	     (const char *a, const char *b, const struct addrinfo *c, struct addrinfo **d),        \
	     (a, b, c, d))                                                                         \
	CALL(open, SYS_openat, OPENS, int, (const char *a, int b, mode_t c), (a, b, c))            \
	CALL(open64, SYS_openat, OPENS, int, (const char *a, int b, mode_t c), (a, b, c))          \
	CALL(fsync, SYS_fsync, FILE, int, (int a), (a))                                            \
	CALL(fdatasync, SYS_fdatasync, FILE, int, (int a), (a))                                    \
	CALL(flock, SYS_flock, FILE, int, (int a, int b), (a, b))                                  \
	CALL(rename, SYS_rename, CHECKED, int, (const char *a, const char *b), (a, b))             \
	CALL(unlink, SYS_unlink, CHECKED, int, (const char *a), (a))                               \
	CALL(ftruncate64, SYS_ftruncate, FILE, int, (int a, off64_t b), (a, b))                    \
	CALL(opendir, SYS_openat, OPENDIR, DIR *, (const char *a), (a))                            \
	CALL(readdir64, SYS_getdents64, PLAIN, struct dirent64 *, (DIR *a), (a))                   \
	CALL(waitpid, SYS_wait4, CHECKED, pid_t, (pid_t a, int *b, int c), (a, b, c))              \
	CALL(waitid, SYS_waitid, CHECKED, int, (idtype_t a, id_t b, siginfo_t *c, int d),          \
	     (a, b, c, d))                                                                         \
	CALL(pthread_mutex_lock, SYS_futex, FUTEX, int, (pthread_mutex_t *a), (a))                 \
	CALL(pthread_rwlock_rdlock, SYS_futex, FUTEX, int, (pthread_rwlock_t *a), (a))             \
	CALL(pthread_rwlock_wrlock, SYS_futex, FUTEX, int, (pthread_rwlock_t *a), (a))             \
	CALL(pthread_cond_wait, SYS_futex, FUTEX, int,                                             \
	     (pthread_cond_t *a, pthread_mutex_t *b), (a, b))                                      \
	CALL(pthread_cond_timedwait, SYS_futex, FUTEX, int,                                        \
	     (pthread_cond_t *a, pthread_mutex_t *b, const struct timespec *c), (a, b, c))         \
	CALL(pthread_join, SYS_futex, THREAD, int, (pthread_t a, void **b), (a, b))                \
	CALL(sem_wait, SYS_futex, FUTEX, int, (sem_t *a), (a))
/* clang-format on */

#endif
