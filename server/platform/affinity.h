/* SPDX-License-Identifier: BSD-2-Clause */
/* affinity.h -- threads and memory on the device's NUMA node. */
#ifndef SERVER_PLATFORM_AFFINITY_H
#define SERVER_PLATFORM_AFFINITY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The node of a device, by its name, or of the network interface behind it; NULL: it is no
 * hardware.  -1: none. */
int affinity_node(const char *device);

/*
 * Pins a thread, the number-th of `count`: to a core of its own where the node (-1: the
 * machine) has at least twice as many, otherwise to all of the node's, since a client's
 * thread would have to share it.  A failure is logged.  *text: which they are.
 */
void affinity_pin(pthread_t thread, int node, unsigned number, unsigned count, char *text,
		  size_t text_bytes);

/* Moves memory to the node, pages that were touched too.  A failure is logged.  False: there
 * is nothing to choose. */
bool affinity_bind(int node, void *memory, uint64_t bytes);

#endif
