/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/platform/sd_notify.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/log.h"

/* 0 if it is not such a path; '@' stands for the zero byte of an abstract name. */
static socklen_t address_of(const char *path, struct sockaddr_un *sun)
{
	size_t bytes = strlen(path);

	*sun = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if ((path[0] != '/' && path[0] != '@') || bytes < 2 || bytes >= sizeof sun->sun_path)
		return 0;
	memcpy(sun->sun_path, path, bytes);
	if (path[0] == '@')
		sun->sun_path[0] = '\0';
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes);
}

void notify_manager(const char *format, ...)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un sun;
	char text[512];
	va_list args;

	if (!path || !*path)
		return;
	va_start(args, format);
	int n = vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (n < 0)
		return;
	size_t bytes = (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
	socklen_t length = address_of(path, &sun);
	int fd = length ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) : -1;
	if (fd < 0 || sendto(fd, text, bytes, MSG_NOSIGNAL, (struct sockaddr *)&sun, length) < 0)
		log_warn("can't tell the service manager at NOTIFY_SOCKET=%s: %s", path,
			 length ? strerror(errno) : "it is no path of a socket");
	if (fd >= 0)
		close(fd);
}
