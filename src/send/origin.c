/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <send/origin.h>

#include <base/alloc.h>
#include <base/bytes.h>
#include <errno.h>
#include <fcntl.h>
#include <nettle/hmac.h>
#include <send/sigv4.h>
#include <ship/disk.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME ".send-key"
#define MODE 0600
#define WINDOW_BYTES (64u << 10)

static int read_keys(struct ky_origin_keys *out, int service_fd)
{
	int fd = openat(service_fd, NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), err = 0;
	struct stat about;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &about) != 0)
		err = -errno;
	else if (!S_ISREG(about.st_mode) || about.st_uid != geteuid() || about.st_mode & 077)
		err = -EPERM;
	else if (about.st_size != sizeof(*out) || pread(fd, out, sizeof(*out), 0) != sizeof(*out))
		err = -EBADMSG;
	close(fd);
	return err;
}

/* It has its name when it is whole; of two that make one the first stays. */
static int make_keys(int service_fd)
{
	struct ky_origin_keys keys;
	char part[40];
	int fd, err = 0;

	if (getrandom(&keys, sizeof(keys), 0) != (ssize_t)sizeof(keys))
		return -EIO;
	snprintf(part, sizeof(part), NAME ".%ld", (long)getpid());
	(void)unlinkat(service_fd, part, 0); /* of a process that was killed here */
	fd = openat(service_fd, part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, MODE);
	if (fd < 0)
		return -errno;
	err = ky_disk_write_all(fd, (const uint8_t *)&keys, sizeof(keys));
	if (!err && fsync(fd) != 0)
		err = -errno;
	close(fd);
	if (!err && linkat(service_fd, part, service_fd, NAME, 0) != 0 && errno != EEXIST)
		err = renameat(service_fd, part, service_fd, NAME) == 0 ? 0 : -errno;
	(void)unlinkat(service_fd, part, 0);
	return err;
}

int ky_origin_keys_read(struct ky_origin_keys *out, int service_fd)
{
	int err = read_keys(out, service_fd);

	if (err == -ENOENT)
		err = make_keys(service_fd);
	else
		return err;
	return err ? err : read_keys(out, service_fd);
}

int ky_origin_make(char out[KY_ORIGIN_BYTES], const struct ky_origin_keys *keys, int fd,
		   uint32_t settings)
{
	uint8_t *window = ky_alloc(WINDOW_BYTES), digest[SHA256_DIGEST_SIZE];
	struct hmac_sha256_ctx hmac;
	off_t at = 0;
	ssize_t got;

	_Static_assert(2 * SHA256_DIGEST_SIZE + 1 == KY_ORIGIN_BYTES, "two digits a byte");
	if (!window)
		return -ENOMEM;
	hmac_sha256_set_key(&hmac, sizeof(keys->origin), keys->origin);
	ky_put_u32(window, settings);
	hmac_sha256_update(&hmac, 4, window);
	while ((got = pread(fd, window, WINDOW_BYTES, at)) > 0) {
		hmac_sha256_update(&hmac, (size_t)got, window);
		at += got;
	}
	if (got < 0)
		at = -errno;
	ky_free(window);
	if (got < 0)
		return (int)at;
	hmac_sha256_digest(&hmac, sizeof(digest), digest);
	ky_sigv4_hex(out, digest, sizeof(digest));
	return 0;
}
