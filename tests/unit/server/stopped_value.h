/* SPDX-License-Identifier: BSD-2-Clause */
/* stopped_value.h -- values that say what they are: each begins with its id. */
#ifndef TESTS_UNIT_SERVER_STOPPED_VALUE_H
#define TESTS_UNIT_SERVER_STOPPED_VALUE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* id >> 20 is a number, the rest the length. */
static inline uint64_t stopped_id(uint64_t number, uint64_t bytes)
{
	return number << 20 | bytes;
}

static inline uint8_t stopped_byte(uint64_t id, size_t i)
{
	return (uint8_t)((id >> 20) * 151 + i * 7 + (i >> 8));
}

static inline size_t stopped_make(uint64_t id, uint8_t *value)
{
	size_t bytes = id & 0xfffff;

	for (size_t i = 0; i < bytes; i++)
		value[i] = stopped_byte(id, i);
	memcpy(value, &id, sizeof id);
	return bytes;
}

/* The id of a whole value; 1 if it is not one. */
static inline uint64_t stopped_id_of(const uint8_t *value, size_t bytes)
{
	uint64_t id;

	if (bytes < sizeof id)
		return 1;
	memcpy(&id, value, sizeof id);
	for (size_t i = sizeof id; i < bytes; i++)
		if (value[i] != stopped_byte(id, i))
			return 1;
	return bytes == (id & 0xfffff) ? id : 1;
}

#endif
