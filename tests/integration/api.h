/* SPDX-License-Identifier: BSD-2-Clause */
/* api.h -- what the cases of api share. */
#ifndef TESTS_INTEGRATION_API_H
#define TESTS_INTEGRATION_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/kvd.h"

/* Of the kvd that was named, for the case that runs. */
extern kvd_client *client;
extern kvd_session *session;
extern const char *kvd_address, *shared_file;
extern uint64_t size;

#define CHECK(x)                                                                                   \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__, \
				#x, session ? kvd_session_error(session) : "");                    \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define KEY(text) session, text, strlen(text)

/* The value of `key` is this text; these bytes. */
bool is_value(const char *key, const char *want);
bool holds(const char *key, const uint8_t *want, size_t want_bytes);

/* `bytes` that differ by seed; the caller frees them. */
uint8_t *pattern(size_t bytes, unsigned seed);

/* api_changes.c */
void case_conditions(void);
void case_counters(void);
void case_append(void);
void case_append_limit(void);
void case_expiry(void);
void case_touch(void);
void case_expire_many(void);
void case_bad_input(void);

/* api_attributes.c */
void case_attributes(void);
void case_get_touch(void);
void case_signs(void);
void case_unix_time(void);
void case_flush_at(void);
void case_prepend(void);
void case_unsigned(void);
void case_submitted_attributes(void);

/* api_pieces.c */
void case_pieces(void);
void case_buffers(void);
void case_buffers_made(void);
void case_large(void);

/* api_flight.c */
void case_many(void);
void case_many_long(void);
void case_many_exist(void);
void case_one_doorbell(void);
void case_sessions(void);
void case_events(void);
void case_submits(void);

/* api_reads.c */
void case_reads(void);
void case_latest(void);

#endif
