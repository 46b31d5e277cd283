/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/clustered.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/auth/auth.h"
#include "common/clock.h"
#include "common/log.h"
#include "server/access/gate.h"
#include "server/cluster/link/key.h"
#include "server/cluster/shard/admin.h"
#include "server/cluster/shard/guest.h"
#include "server/cluster/shard/shard.h"
#include "server/durable/durable.h"
#include "server/host/options.h"
#include "server/table/table.h"
#include "server/worker/context.h"
#include "server/worker/request/completions.h"
#include "server/worker/worker.h"

static struct membership membership;
static struct link_key key;
static struct shard *shard;
static struct worker_guest guests[LAYOUT_WORKERS_MAX];
static char clients[RAILS_MAX * ADDR_TEXT_BYTES];

/* -------------------------------------------------------------------- the key */
static int read_key(const char *path, struct err *err)
{
	char text[AUTH_TEXT_BYTES + 2] = "";
	FILE *f = fopen(path, "re");
	size_t n;

	if (!f)
		return err_set_errno(err, -1, errno, "--cluster-key %s", path);
	n = fread(text, 1, sizeof text - 1, f);
	fclose(f);
	n = strcspn(text, "\r\n");
	if (!auth_from_text(text, n, key.secret.bytes)) {
		auth_wipe(text, sizeof text);
		return err_set(err, -1, "--cluster-key %s: it is no key: make one by \"head -c 32 "
			       "/dev/urandom | basenc --base64url | tr -d =\", and give it to all "
			       "members", path);
	}
	auth_wipe(text, sizeof text);
	auth_key_of(&key.secret, &key.key);
	return 0;
}

/*
 * No two connections of one id, of all members: what one is asked about another's must not be taken
 * for its own.  Before there is a locker, which gives them.
 */
static int begin_ids(struct server *s, struct err *err)
{
	uint64_t first;

	if (auth_init() || getrandom(&first, sizeof first, 0) != sizeof first)
		return err_set(err, -1, "no random numbers");
	atomic_store(&s->last_id, first >> 8);
	return 0;
}

int clustered_prepare(struct server *s, struct err *err)
{
	if (!s->options->cluster)
		return 0;
	if (begin_ids(s, err) || read_key(s->options->cluster_key, err))
		return -1;
	s->membership = &membership;
	s->hash_seed = key_hash_seed(&key);
	return 0;
}

/* -------------------------------------------------------------------- the workers */
static bool poll_guest(void *arg)
{
	return crew_poll(arg);
}

static void flush_guest(void *arg)
{
	crew_flush(arg);
}

static void changes_ended(void *arg)
{
	crew_copy(arg);
}

static void arm_guest(void *arg)
{
	crew_arm(arg);
}

static void guest_woken(void *arg)
{
	crew_woken(arg);
}

static void guest_leaves(void *arg)
{
	crew_leave(arg);
}

static bool guest_waits(void *arg)
{
	return crew_waits(arg);
}

static void wake(void *commands)
{
	commands_wake(commands);
}

static void invite_all(struct server *s)
{
	for (unsigned i = 0; i < s->worker_count; i++) {
		struct crew *c = shard_crew(shard, i);

		guests[i] = (struct worker_guest){ poll_guest, flush_guest, changes_ended, arm_guest,
						   guest_woken, guest_leaves, guest_waits,
						   crew_descriptor(c), c };
		worker_invite(s->worker[i], &guests[i]);
	}
}

/* -------------------------------------------------------------------- life */
static size_t status(void *arg, char *buf, size_t bytes)
{
	return shard_status(arg, buf, bytes);
}

static void figures(void *arg, struct cluster_figures *to)
{
	struct shard_figures f;

	shard_figures(arg, &f);
	*to = (struct cluster_figures){ f.epoch, f.in_sync, f.copies, f.lag_records, f.lease_left_ns,
					f.failovers, f.failover_ns, f.serves, f.is_reached, f.is_fit };
}

static size_t where(void *arg, struct cluster_where *to, char *buf, size_t bytes)
{
	struct shard_where w;
	size_t n = shard_where(arg, &w, buf, bytes);

	*to = (struct cluster_where){ w.epoch, w.heard_us, w.ports };
	return n;
}

static enum wire_status command(void *arg, const struct cluster_command *c, enum wire_backup *state,
				char *text, size_t text_bytes)
{
	struct admin_command ask = { .what = (enum admin_what)c->what, .id = c->id,
				     .copies = c->copies };

	static_assert((int)ADMIN_INIT == WIRE_CLUSTER_INIT &&
		      (int)ADMIN_PROMOTE == WIRE_CLUSTER_PROMOTE &&
		      (int)ADMIN_REMOVE == WIRE_CLUSTER_REMOVE &&
		      (int)ADMIN_FORCE == WIRE_CLUSTER_FORCE, "wire");
	if (!c->id || strlen(c->member) >= sizeof ask.member)
		return WIRE_EINVALID;
	strcpy(ask.member, c->member);
	switch (admin_command(arg, &ask, text, text_bytes)) {
	case ADMIN_NONE: return WIRE_EELSEWHERE;
	case ADMIN_ASKED:
	case ADMIN_RUNNING: *state = WIRE_BACKUP_RUNNING; break;
	case ADMIN_DONE: *state = WIRE_BACKUP_DONE; break;
	case ADMIN_FAILED: *state = WIRE_BACKUP_FAILED; break;
	}
	return WIRE_OK;
}

static void completed(void *arg, const struct durable_fate *f, uint64_t reign)
{
	const struct server *s = arg;
	const struct completion c = { .connection = f->connection, .secret = f->secret, .reign = reign,
				      .size = f->kept,
				      .fate = { f->request, WIRE_OK, f->version, f->value_bytes } };

	completions_note(s->completions, &c);
}

static void lacks(void *arg, uint64_t reign)
{
	const struct server *s = arg;

	completions_lack(s->completions, reign, clock_read_ns(CLOCK_BOOTTIME));
}

/* What clients ask of one member about another: their secrets. */
static int share(struct server *s, struct err *err)
{
	uint8_t worth[KEY_WORTH_BYTES];

	key_worth(&key, worth);
	gate_share_worth(s->gate, worth);
	auth_wipe(worth, sizeof worth);
	s->completions = completions_new();
	return s->completions ? 0 : err_set(err, -1, "no memory for completion records");
}

static struct addr listen_of(const struct server *s)
{
	struct addr listen = s->addr;

	if (s->options->cluster_listen)
		return s->options->cluster_addr;
	addr_set_port(&listen, 0);
	return listen;
}

int clustered_new(struct server *s, struct err *err)
{
	struct shard_options o = { .device = &s->device, .pd = s->rails[0].pd, .device_port = s->rails[0].port,
				   .clients = clients, .agreement = s->options->cluster, .key = key,
				   .copies = (unsigned)s->options->cluster_copies,
				   .store = s->store, .worker_count = s->worker_count, .wake = wake,
				   .reign = &membership.reign, .is_held = &membership.is_held,
				   .lease_until_ns = &membership.lease_until_ns,
				   .reader_until_ns = &membership.reader_until_ns,
				   .completed = completed, .lacks = lacks, .completed_arg = s };

	if (s->durable)
		o.incarnation = durable_incarnation(s->durable);

	if (!s->membership)
		return 0;
	o.listen = listen_of(s);
	if (share(s, err))
		return -1;
	for (unsigned i = 0; i < s->worker_count; i++) {
		o.workers[i] = worker_store(s->worker[i]);
		o.wake_args[i] = worker_commands(s->worker[i]);
	}
	if (shard_new(&o, &shard, err))
		return -1;
	invite_all(s);
	s->hooks.cluster = status;
	s->hooks.cluster_figures = figures;
	s->hooks.cluster_where = where;
	s->hooks.cluster_command = command;
	s->hooks.cluster_arg = shard;
	log_info("a member of the cluster at %s, by the name of %s", s->options->cluster,
		 shard_name(shard));
	return 0;
}

/* An address of each device. */
static void list_clients(const struct server *s)
{
	size_t used = (size_t)snprintf(clients, sizeof clients, "%s", s->addr.text);

	for (unsigned i = 1; i < s->rail_count; i++)
		used += (size_t)snprintf(clients + used, sizeof clients - used, ",%s",
					 s->rails[i].addr.text);
}

int clustered_start(struct server *s, struct err *err)
{
	if (!s->membership)
		return 0;
	list_clients(s);
	return shard_start(shard, err);
}

void clustered_stop(struct server *s)
{
	if (s->membership && shard)
		shard_stop(shard);
}

void clustered_delete(struct server *s)
{
	if (!s->membership)
		return;
	s->hooks.cluster = NULL;
	s->hooks.cluster_figures = NULL;
	s->hooks.cluster_where = NULL;
	s->hooks.cluster_command = NULL;
	/* First: it wakes those whose records it gives back. */
	durable_close(&s->durable);
	s->store->durable = NULL;
	shard_delete(&shard);
	completions_delete(&s->completions);
	auth_wipe(&key.secret, sizeof key.secret);
}
