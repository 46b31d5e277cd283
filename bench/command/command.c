/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/command/command.h"

#include <stdio.h>

int command_fail(int status, const struct err *err)
{
	fprintf(stderr, "kvbench: %s\n", err->text);
	return status;
}
