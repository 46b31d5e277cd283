/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/access/gate.h"

#include <errno.h>
#include <libgen.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "common/log.h"
#include "server/access/seats.h"

struct gate {
	char line[256];
	const char *path; /* of the users file, or NULL */
	int watch_fd;     /* inotify, or -1 */
	char base[256];   /* name of the file in its folder */

	pthread_mutex_t lock;
	struct users *users; /* or NULL */
	struct seats seats;
	struct gate_rkeys rkeys;
	uint8_t worth_key[crypto_shorthash_KEYBYTES]; /* of gate_secret() */
	struct auth_key nobody; /* checked for a name that is none */
};

/* ------------------------------------------------------------ start and end */

/* The folder is watched: a file that is replaced is another one. */
static int watch(struct gate *g, struct err *err)
{
	char path[4096], copy[4096];

	if (snprintf(path, sizeof path, "%s", g->path) >= (int)sizeof path)
		return err_set(err, -1, "--users: the path is too long");
	memcpy(copy, path, sizeof copy);
	if (snprintf(g->base, sizeof g->base, "%s", basename(copy)) >= (int)sizeof g->base)
		return err_set(err, -1, "--users: the name is too long");
	g->watch_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (g->watch_fd < 0 ||
	    inotify_add_watch(g->watch_fd, dirname(path), IN_CLOSE_WRITE | IN_MOVED_TO) < 0)
		log_warn("can't watch %s (%s): send SIGHUP after a change of it", g->path,
			 strerror(errno));
	return 0;
}

/* Who may come without having to prove who they are. */
static int check_open(struct gate *g, const struct gate_config *k, struct err *err)
{
	if (g->path) {
		snprintf(g->line, sizeof g->line, "%u user%s of %s may connect", g->users->count,
			 g->users->count == 1 ? "" : "s", g->path);
		return 0;
	}
	if (k->is_local) {
		snprintf(g->line, sizeof g->line, "no users: every process of this user on this machine "
			 "may read and change everything");
		return 0;
	}
	if (!addr_is_loopback(&k->addr) && !k->insecure)
		return err_set(err, -1,
			       "without users anybody who reaches %s could read and change everything: make "
			       "some ('kvd init --users FILE', then 'kvd --users FILE'), or say --insecure",
			       k->addr.text);
	snprintf(g->line, sizeof g->line, "INSECURE: no users: anybody who reaches %s may read and change "
		 "everything", k->addr.text);
	return 0;
}

int gate_new(const struct gate_config *config, struct gate **gate, struct err *err)
{
	struct gate *g = calloc(1, sizeof *g);
	struct auth_secret unused;

	if (!g)
		return err_set(err, -1, "out of memory");
	g->watch_fd = -1;
	g->path = config->users;
	g->seats.max = config->users ? config->user_connections : 0;
	pthread_mutex_init(&g->lock, NULL);
	*gate = g;
	if (auth_init())
		return err_set(err, -1, "libsodium does not start: no source of random numbers");
	if (g->path && config->insecure)
		return err_set(err, -1, "--users and --insecure exclude each other");
	crypto_shorthash_keygen(g->worth_key);
	auth_new(&unused, &g->nobody);
	auth_wipe(&unused, sizeof unused);
	if (g->path && (users_load(g->path, &g->users, err) || watch(g, err)))
		return -1;
	return check_open(g, config, err);
}

void gate_delete(struct gate **gate)
{
	struct gate *g = *gate;

	if (!g)
		return;
	if (g->watch_fd >= 0)
		close(g->watch_fd);
	users_delete(&g->users);
	seats_free(&g->seats);
	pthread_mutex_destroy(&g->lock);
	free(g);
	*gate = NULL;
}

bool gate_has_users(const struct gate *g)
{
	return g->path;
}

const char *gate_line(const struct gate *g)
{
	return g->line;
}

/* -------------------------------------------------------------------- proofs */

static void fill_exchange(const struct gate *g, const struct handshake *h,
			  const struct wire_request *hello, const uint8_t *name,
			  struct wire_signed *text, struct auth_exchange *x)
{
	*text = (struct wire_signed){
		.value_addr = hello->value_addr,
		.value_checksum = hello->value_checksum,
		.value_rkey = hello->value_rkey,
		.depth = h->depth,
		.space = h->space,
		.name_bytes = hello->key_bytes,
	};
	memcpy(text->name, name, hello->key_bytes);
	*x = (struct auth_exchange){
		.server = g->users->key,
		.version = WIRE_VERSION,
		.client_qpn = h->client_qpn,
		.server_qpn = h->server_qpn,
		.hello = text,
		.hello_bytes = sizeof *text,
	};
	memcpy(x->client_nonce, h->client_nonce, sizeof x->client_nonce);
	memcpy(x->server_nonce, h->server_nonce, sizeof x->server_nonce);
}

static bool is_user(const struct user *user, const struct auth_key *key, enum role role)
{
	return user && user->role == role && auth_key_equal(&user->key, key);
}

static bool admit_user(struct gate *g, struct handshake *h, const struct wire_request *hello,
		       const uint8_t *name, const uint8_t *proof)
{
	struct wire_signed text;
	struct auth_exchange x;
	struct user user = { .key = g->nobody };

	if (hello->key_bytes == 0 || hello->key_bytes > WIRE_NAME_BYTES_MAX ||
	    hello->value_bytes != WIRE_PROOF_BYTES)
		return false;
	pthread_mutex_lock(&g->lock);
	const struct user *found = users_find(g->users, (const char *)name, hello->key_bytes);
	if (found)
		user = *found;
	fill_exchange(g, h, hello, name, &text, &x);
	pthread_mutex_unlock(&g->lock);
	/* The same work whether there is such a user, and such a namespace, or not. */
	bool good = auth_check_client(&x, &user.key, proof) && user.role != ROLE_NONE && !h->nowhere;
	if (!good)
		return false;
	pthread_mutex_lock(&g->lock);
	found = users_find(g->users, user.name, strlen(user.name));
	good = is_user(found, &user.key, user.role);
	if (good) {
		h->user = user;
		h->admitted = true;
	}
	pthread_mutex_unlock(&g->lock);
	return good;
}

bool gate_admit(struct gate *g, struct handshake *h, const struct wire_request *hello,
		const uint8_t *name, const uint8_t *proof)
{
	if (!gate_has_users(g)) {
		h->user.role = ROLE_ADMIN;
		return true;
	}
	return admit_user(g, h, hello, name, proof);
}

bool gate_take_seat(struct gate *g, struct handshake *h)
{
	if (!h->admitted)
		return true;
	pthread_mutex_lock(&g->lock);
	h->seated = seats_take(&g->seats, h->user.name);
	pthread_mutex_unlock(&g->lock);
	return h->seated;
}

void gate_leave_seat(struct gate *g, struct handshake *h)
{
	if (!h->seated)
		return;
	pthread_mutex_lock(&g->lock);
	seats_leave(&g->seats, h->user.name);
	h->seated = false;
	pthread_mutex_unlock(&g->lock);
}

unsigned gate_seats(const struct gate *g)
{
	return g->seats.max;
}

bool gate_still_admits(struct gate *g, const struct handshake *h)
{
	pthread_mutex_lock(&g->lock);
	bool gone = h->admitted && !is_user(users_find(g->users, h->user.name, strlen(h->user.name)),
					    &h->user.key, h->user.role);
	pthread_mutex_unlock(&g->lock);
	return !gone;
}

void gate_set_rkeys(struct gate *g, const struct gate_rkeys *rkeys)
{
	pthread_mutex_lock(&g->lock);
	g->rkeys = *rkeys;
	pthread_mutex_unlock(&g->lock);
}

void gate_user_name(struct gate *g, const struct handshake *h, char name[AUTH_NAME_BYTES_MAX + 1])
{
	pthread_mutex_lock(&g->lock);
	memcpy(name, h->user.name, AUTH_NAME_BYTES_MAX + 1);
	pthread_mutex_unlock(&g->lock);
}

void gate_share_worth(struct gate *g, const uint8_t key[GATE_WORTH_BYTES])
{
	static_assert(GATE_WORTH_BYTES == crypto_shorthash_KEYBYTES, "worth");
	memcpy(g->worth_key, key, GATE_WORTH_BYTES);
}

uint64_t gate_secret(const struct gate *g, const struct user *user, uint64_t secret)
{
	uint8_t text[sizeof secret + sizeof user->name] = { 0 };
	uint64_t worth;

	memcpy(text, &secret, sizeof secret);
	memcpy(text + sizeof secret, user->name, sizeof user->name);
	crypto_shorthash((uint8_t *)&worth, text, sizeof text, g->worth_key);
	return worth;
}

size_t gate_welcome(struct gate *g, const struct handshake *h, const struct wire_request *hello,
		    const uint8_t *proof, struct wire_welcome *welcome, uint8_t *payload)
{
	struct auth_secret secret;
	struct wire_signed text;
	struct auth_exchange x;

	welcome->role = h->user.role;
	pthread_mutex_lock(&g->lock);
	welcome->table_rkey = g->rkeys.table[h->rail];
	welcome->lock_rkey = h->user.role >= ROLE_WRITE && !h->rail ? g->rkeys.lock : 0;
	if (g->users) {
		fill_exchange(g, h, hello, (const uint8_t *)h->user.name, &text, &x);
		secret = g->users->secret;
	}
	pthread_mutex_unlock(&g->lock);
	memcpy(payload, welcome, sizeof *welcome);
	if (!gate_has_users(g))
		return sizeof *welcome;
	auth_prove_server(&x, proof, welcome, sizeof *welcome, &secret, payload + sizeof *welcome);
	auth_wipe(&secret, sizeof secret);
	return sizeof *welcome + WIRE_PROOF_BYTES;
}

/* -------------------------------------------------------------------- reload */

int gate_fd(const struct gate *g)
{
	return g->watch_fd;
}

bool gate_touched(struct gate *g)
{
	char buf[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	bool touched = false;
	ssize_t n;

	while ((n = read(g->watch_fd, buf, sizeof buf)) > 0) {
		for (char *at = buf; at < buf + n;) {
			const struct inotify_event *e = (const struct inotify_event *)at;
			touched |= (e->mask & IN_Q_OVERFLOW) ||
				   (e->len && strcmp(e->name, g->base) == 0);
			at += sizeof *e + e->len;
		}
	}
	return touched;
}

/* Somebody lost something: their key, their role, or all of it. */
static bool any_revoked(const struct users *old, const struct users *now)
{
	for (unsigned i = 0; i < old->count; i++) {
		const struct user *u = &old->user[i];
		if (!is_user(users_find(now, u->name, strlen(u->name)), &u->key, u->role))
			return true;
	}
	return !auth_key_equal(&old->key, &now->key);
}

enum gate_change gate_reload(struct gate *g, unsigned *user_count)
{
	struct users *now, *old;
	struct err err;

	if (!g->path)
		return GATE_SAME;
	if (users_load(g->path, &now, &err)) {
		log_error("%s: the users stay as they were", err.text);
		return GATE_SAME;
	}
	pthread_mutex_lock(&g->lock);
	old = g->users;
	g->users = now;
	pthread_mutex_unlock(&g->lock);
	bool revoked = any_revoked(old, now);
	users_delete(&old);
	*user_count = now->count;
	return revoked ? GATE_REVOKED : GATE_CHANGED;
}
