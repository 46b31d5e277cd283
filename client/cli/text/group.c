/* SPDX-License-Identifier: BSD-2-Clause */
#include "client/cli/text/group.h"

#include <string.h>

const char *cli_group(const char *digits, char *buf, size_t buf_bytes)
{
	size_t count = strlen(digits), used = 0;

	for (size_t i = 0; i < count && used + 2 < buf_bytes; i++) {
		if (i > 0 && (count - i) % 3 == 0)
			buf[used++] = ',';
		buf[used++] = digits[i];
	}
	buf[used] = '\0';
	return buf;
}
