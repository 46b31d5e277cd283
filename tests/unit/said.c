/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/said.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

static int memory = -1, terminal = -1;
static char text[65537];

void said_begin(void)
{
	memory = memfd_create("said", MFD_CLOEXEC);
	terminal = dup(2);
	assert_true(memory >= 0 && terminal >= 0);
	assert_int_equal(dup2(memory, 2), 2);
}

static void read_text(void)
{
	ssize_t bytes = pread(memory, text, sizeof text - 1, 0);

	text[bytes > 0 ? bytes : 0] = '\0';
	assert_true(bytes >= 0);
}

const char *said_end(void)
{
	assert_int_equal(dup2(terminal, 2), 2);
	close(terminal);
	read_text();
	close(memory);
	return text;
}

unsigned said_so_far(const char *with)
{
	read_text();
	return said_lines(with);
}

unsigned said_lines(const char *with)
{
	size_t bytes = strlen(with);
	unsigned lines = 0;

	for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
		const char *at = strstr(line, with);
		lines += at && at + bytes <= line + strcspn(line, "\n");
		if (!line[strcspn(line, "\n")])
			break;
	}
	return lines;
}
