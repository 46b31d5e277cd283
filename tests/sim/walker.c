/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The clients of a walk: one makes a change, in which kvd is stopped at one access to
 * memory; the other reads all the while, or takes the lock of what is being changed.
 */
#include <poll.h>
#include <stdio.h>

#include "tests/sim/client.h"
#include "tests/sim/world.h"

#define LOOKS 10 /* a millisecond from one to the next: kvd finishes what it was at */

static void put_all(void)
{
	for (int i = 0; i < board->plan.keys; i++)
		do_put((uint64_t)i);
}

/* One change; kvd is stopped in it.  Who is to go on meanwhile is there before: a kvd that is stopped lets
 * nobody in. */
void walk_change(void *number)
{
	connect_to_kvd((int)(intptr_t)number, false);
	put_all();
	do_deed(board->plan.walk_deed); /* whatever is made on first use, is */
	if (board->plan.walk_locks)
		put_all();
	if (board->plan.walk_absent)
		do_del(0);
	while (!board->is_beside)
		poll(NULL, 0, 1);
	sim->walk_left = (uint64_t)board->plan.operations;
	do_deed(board->plan.walk_deed);
	sim->walk_left = 0;
	board->walked = true;
	do_get(0);
	hang_up();
}

/* GETs all the while: they need nobody. */
void walk_read(void *number)
{
	connect_to_kvd((int)(intptr_t)number, false);
	while (!board->walked) {
		for (int i = 0; i < board->plan.keys; i++) {
			bool stopped = board->is_stopped;
			do_get((uint64_t)i);
			board->read_stopped += stopped && board->is_stopped;
		}
		board->is_beside = true;
		if (board->logged[self.number] > LOG_MAX - 50)
			poll(NULL, 0, 1);
		if (board->logged[self.number] > LOG_MAX - 10)
			break;
	}
	hang_up();
}

/* ------------------------------------------------------------------- locks */

/* What the change may touch. */
static unsigned keys_of(enum deed deed, struct kvd_key *keys, char (*names)[32])
{
	unsigned n = deed == DEED_TRANSFER ? ACCOUNTS : 1;

	for (unsigned i = 0; i < n; i++) {
		int bytes = deed == DEED_TRANSFER ? account_name(names[i], i)
			    : deed == DEED_UPDATE ? sprintf(names[i], "counter") : name_of(names[i], i);
		keys[i] = (struct kvd_key){ names[i], (size_t)bytes };
	}
	return n;
}

/* 0: it is not there. */
static uint64_t version_under(kvd_lock_t *lock, const struct kvd_key *key)
{
	uint64_t version = 0;
	size_t bytes;
	int rc = kvd_locked_get(lock, key->data, key->bytes, self.value, sizeof self.value, &bytes,
				&version);

	if (rc < 0)
		sim_judge(SIM_WRONG, "GET under a lock: %s: %s", kvd_strerror(rc),
			  kvd_session_error(self.session));
	return rc == KVD_OK ? version : 0;
}

/* As most clients do it, if it is one key: the GET right behind the compare-and-swap. */
static kvd_lock_t *take(const struct kvd_key *keys, unsigned n, uint64_t *versions)
{
	kvd_lock_t *lock = NULL;
	size_t bytes;
	int rc = n > 1 ? kvd_lock(self.session, keys, n, -1, &lock)
		       : kvd_lock_get(self.session, keys[0].data, keys[0].bytes, -1, self.value,
				      sizeof self.value, &bytes, &versions[0], &lock);

	if (rc < 0)
		sim_judge(SIM_WRONG, "lock: %s: %s", kvd_strerror(rc), kvd_session_error(self.session));
	for (unsigned i = 0; n > 1 && i < n; i++)
		versions[i] = version_under(lock, &keys[i]);
	if (rc == KVD_NOT_FOUND)
		versions[0] = 0;
	return lock;
}

/* Nothing that others change takes effect from grant to release. */
void walk_lock(void *number)
{
	struct kvd_key keys[ACCOUNTS];
	char names[ACCOUNTS][32];
	uint64_t versions[ACCOUNTS] = { 0 };
	unsigned n = keys_of(board->plan.walk_deed, keys, names);
	size_t bytes;

	connect_to_kvd((int)(intptr_t)number, false);
	for (unsigned i = 0; i < n; i++) /* the mirror learns where it is */
		kvd_get(self.session, keys[i].data, keys[i].bytes, self.value, sizeof self.value, &bytes,
			NULL);
	board->is_beside = true;
	while (!board->is_stopped && !board->walked)
		poll(NULL, 0, 1);
	kvd_lock_t *lock = take(keys, n, versions);
	board->granted = true;
	for (unsigned look = 0; look < LOOKS; look++) {
		poll(NULL, 0, 1);
		for (unsigned i = 0; i < n; i++)
			if (version_under(lock, &keys[i]) != versions[i])
				sim_judge(SIM_WRONG, "somebody changed '%s' under a lock", names[i]);
	}
	kvd_unlock(&lock);
	hang_up();
}
