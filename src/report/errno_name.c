/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/errno_name.h>

#include <errno.h>
#include <stdio.h>

#define NAME(number)                                                                               \
	{                                                                                          \
		number, #number                                                                    \
	}

static const struct {
	int number;
	const char *name;
} names[] = {
	NAME(EPERM),        NAME(ENOENT),      NAME(EINTR),        NAME(EIO),
	NAME(ENXIO),        NAME(EBADF),       NAME(EAGAIN),       NAME(ENOMEM),
	NAME(EACCES),       NAME(EFAULT),      NAME(EBUSY),        NAME(EEXIST),
	NAME(ENODEV),       NAME(ENOTDIR),     NAME(EISDIR),       NAME(EINVAL),
	NAME(ENFILE),       NAME(EMFILE),      NAME(ENOTTY),       NAME(ETXTBSY),
	NAME(EFBIG),        NAME(ENOSPC),      NAME(ESPIPE),       NAME(EROFS),
	NAME(EMLINK),       NAME(EPIPE),       NAME(EDEADLK),      NAME(ENAMETOOLONG),
	NAME(ENOSYS),       NAME(ELOOP),       NAME(EPROTO),       NAME(ENOTSOCK),
	NAME(EMSGSIZE),     NAME(EOPNOTSUPP),  NAME(EADDRINUSE),   NAME(EADDRNOTAVAIL),
	NAME(ENETDOWN),     NAME(ENETUNREACH), NAME(ENETRESET),    NAME(ECONNABORTED),
	NAME(ECONNRESET),   NAME(ENOBUFS),     NAME(EISCONN),      NAME(ENOTCONN),
	NAME(ESHUTDOWN),    NAME(ETIMEDOUT),   NAME(ECONNREFUSED), NAME(EHOSTDOWN),
	NAME(EHOSTUNREACH), NAME(EALREADY),    NAME(EINPROGRESS),  NAME(ESTALE),
	NAME(EDQUOT),       NAME(ECANCELED),
};

const char *ky_errno_name(char *cell, uint32_t number)
{
	for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if ((uint32_t)names[i].number == number) {
			(void)snprintf(cell, KY_ERRNO_NAME_BYTES, "%s", names[i].name);
			return cell;
		}
	}
	(void)snprintf(cell, KY_ERRNO_NAME_BYTES, "error %u", number);
	return cell;
}
