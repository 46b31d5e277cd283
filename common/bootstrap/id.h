/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * id.h -- an id: its life, its socket, its device.
 *
 * What returns an int returns 0, or -1 and errno.
 */
#ifndef COMMON_BOOTSTRAP_ID_H
#define COMMON_BOOTSTRAP_ID_H

#include <stdint.h>
#include <sys/socket.h>
#include "common/bootstrap/impl.h"

struct id *bootstrap_id_new(struct rdma_event_channel *channel, void *context);
int bootstrap_id_create(const struct verbs *base, struct rdma_event_channel *channel,
			struct rdma_cm_id **id, void *context);
int bootstrap_id_destroy(struct rdma_cm_id *id);
int bootstrap_id_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t bytes);
int bootstrap_id_open(struct id *id); /* its device */
void bootstrap_id_show_path(struct id *id);
int bootstrap_id_watch(struct id *id, int op, uint32_t events);
void bootstrap_id_close(struct id *id); /* its socket */
int bootstrap_id_failed(struct id *id); /* -1: its socket is closed, errno stays */
void bootstrap_id_leave(struct id *id); /* the listener's HALF_OPEN ones */
void bootstrap_id_over(struct id *id, enum rdma_cm_event_type type, int status);
int bootstrap_socket_new(const struct sockaddr *address);
void bootstrap_socket_tune(int fd);
socklen_t bootstrap_address_bytes(const struct sockaddr *address);

#endif
