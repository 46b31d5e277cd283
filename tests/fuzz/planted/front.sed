# SPDX-License-Identifier: BSD-2-Clause
# FILE: front/protocol/meta.c
# An opaque token of any length is copied.
s/if (token.bytes + 1 > OPAQUE_BYTES_MAX)/if (token.bytes > 255)/
