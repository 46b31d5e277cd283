/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sequence.h -- the numbers of records that a run inserts, and which of them are
 * there: the newest number up to which every insert has been answered.
 * Any thread may call.
 */
#ifndef BENCH_WORKLOAD_SEQUENCE_H
#define BENCH_WORKLOAD_SEQUENCE_H

#include <stdint.h>

/* Inserts under way at once, at most; threads times depth stay below it. */
#define SEQUENCE_WINDOW (1u << 20)

struct sequence;

/* first: the number of the first insert.  NULL: no memory. */
struct sequence *sequence_new(uint64_t first);
void sequence_delete(struct sequence **sequence);

/* The number for a new record. */
uint64_t sequence_next(struct sequence *s);

/* The insert of a number was answered. */
void sequence_acknowledge(struct sequence *s, uint64_t number);

/* The newest number n such that all inserts up to n were answered; first - 1
 * at the beginning. */
uint64_t sequence_newest(const struct sequence *s);

#endif
