/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/raw.h"

const char *const raw_names[RAW_OPS] = {
	[RAW_READ] = "READ",
	[RAW_WRITE] = "WRITE",
	[RAW_WRITE_WITH_IMM] = "WRITE_WITH_IMM",
	[RAW_CAS] = "CAS",
	[RAW_FADD] = "FADD",
	[RAW_SEND] = "SEND",
	[RAW_SEND_WITH_IMM] = "SEND_WITH_IMM",
};
