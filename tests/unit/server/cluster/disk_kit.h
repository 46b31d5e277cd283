/* SPDX-License-Identifier: BSD-2-Clause */
/* disk_kit.h -- behind replica_kit.h: one of the members has a disk; and carol, who is that one after a restart. */
#ifndef TESTS_UNIT_SERVER_CLUSTER_DISK_KIT_H
#define TESTS_UNIT_SERVER_CLUSTER_DISK_KIT_H

#include "server/cluster/record/records.h"
#include "tests/unit/server/cluster/replica_kit.h"

#define DISK_CLUSTER 7u

extern char disk_folder[64], disk_copy_folder[80];
extern struct durable *disk;
extern struct kit_member c;

/* That member's, which begins to write with disk_start(). */
void disk_fill(struct kit_member *m);
void disk_start(void);
/* Its machine goes: what is on the disk stays. */
void disk_end(struct kit_member *m);
void disk_remove_folder(void);
/* Also after a test that failed in the middle: what is on its way to the disk comes back. */
int disk_teardown(void **state);

/* Carol, of what the folder has; and her end. */
void disk_restart_from(const char *dir);
void disk_stop(void);
unsigned disk_open_records(void);
/* The primary says so of the only record that is open. */
void disk_decide(enum records_fate fate, uint64_t epoch);
/* Bert is restarted as carol, with k=one, and behind it open k=two or its removal. */
void disk_change_and_restart(bool is_removal);

#endif
