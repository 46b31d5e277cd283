/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * note.h -- what a member's disk keeps of a stripe: its latest record, and what the record's keys
 * were before.  So after a restart it is open again, and can be taken back (doc/cluster.md, 3).
 *
 * A record is open on the disk until one comes behind it in its stripe, or until it was seen
 * (durable_seen()).  One of several stripes has a note in each: it is open while all of them name
 * it.
 */
#ifndef SERVER_CLUSTER_NOTE_NOTE_H
#define SERVER_CLUSTER_NOTE_NOTE_H

#include "server/durable/queue.h"

#define NOTE_MAX LAYOUT_TXN_KEYS_MAX

struct note {
	uint64_t version; /* of the record: which change it is */
	uint64_t before;  /* of the one that was applied last in this stripe before; 0: none */
	uint64_t reign, number; /* number 0: it is applied, and all known */
	unsigned stripe_count;
	uint32_t stripes[NOTE_MAX]; /* of the whole record, each once */
	unsigned count;             /* its keys in this stripe */
	struct durable_record keys[NOTE_MAX]; /* as they were; version 0: not there.  Expiry: of the disk's clock */
};

size_t note_bytes(const struct note *note);
/* So many bytes. */
void note_write(const struct note *note, char *to);
/* Its number and reign become these, as they are known later. */
void note_number(char *bytes, uint64_t reign, uint64_t number);
/* Keys and values stay where they are.  False: it can't be one. */
bool note_read(const char *bytes, size_t length, struct note *note);

#endif
