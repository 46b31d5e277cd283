/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * log.h -- whether the database's logs are whole, before it reads them.
 *
 * RocksDB has a mode for each taste, but none that tells a log whose end is torn,
 * which is what a crash leaves, from one that is damaged: they refuse both, or pass over
 * what follows in silence.
 */
#ifndef SERVER_DURABLE_LOG_H
#define SERVER_DURABLE_LOG_H

#include <stdint.h>

#include "common/err.h"

enum log_state {
	LOG_WHOLE,
	LOG_TORN,    /* the last record is not whole: its write was not acknowledged */
	LOG_DAMAGED, /* records begin behind one that is not whole */
};

struct log_look {
	enum log_state state;
	uint64_t newest;    /* number of the newest log; 0: there is none */
	char where[64];     /* file and offset of the first bad record */
};

/* Reads all logs of the folder.  0, or -1 after setting err. */
int log_look(const char *dir, struct log_look *look, struct err *err);

#endif
