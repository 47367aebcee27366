/* SPDX-License-Identifier: MIT */
#include "files/write_all.h"

#include <errno.h>
#include <unistd.h>

bool write_all(int fd, const void *bytes, size_t size)
{
	for (size_t done = 0; done < size;) {
		const ssize_t part = write(fd, (const char *)bytes + done, size - done);
		if (part < 0 && errno == EINTR)
			continue;
		if (part < 0)
			return false;
		done += (size_t)part;
	}
	return true;
}
