/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/text.h"

#include <string.h>

size_t text_length(const uint8_t *at, size_t left)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t length = at[0] < 0x80 ? 1 : at[0] >> 5 == 6 ? 2 : at[0] >> 4 == 14 ? 3 :
			at[0] >> 3 == 30 ? 4 : 0;
	uint32_t point;

	if (length == 1)
		return at[0] >= ' ' && at[0] != 0x7f;
	if (length == 0 || length > left)
		return 0;
	point = at[0] & (0x7fu >> length);
	for (size_t i = 1; i < length; i++) {
		if (at[i] >> 6 != 2)
			return 0;
		point = point << 6 | (at[i] & 0x3f);
	}
	if (point < least[length] || point < 0xa0 || point > 0x10ffff || point >> 11 == 0x1b)
		return 0;
	return length;
}

void text_tame(char *text)
{
	char *end = text + strlen(text);

	while (text < end) {
		size_t length = text_length((const uint8_t *)text, (size_t)(end - text));
		if (!length)
			*text = *text == '\n' || *text == '\t' ? ' ' : '?';
		text += length ? length : 1;
	}
}
