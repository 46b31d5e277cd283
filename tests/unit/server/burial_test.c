/* SPDX-License-Identifier: BSD-2-Clause */
/* server/host: how a connection ends: what is destroyed, in which order, and who is ended for what. */
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/lock/locker.h"
#include "server/worker/fate.h"
#include "server/worker/request/completions.h"
#include "tests/unit/said.h"
#include "tests/unit/server/arrival_kit.h"

#define MS 1000000ull

static struct store store[3];
static struct locker_note *dead;
static const struct fate_ring *kept;
static struct fates_forgotten forgotten;
static struct completions *lacking;
static uint64_t lack_until_ns;

void __wrap_locker_dead(struct locker *locker, struct locker_note **note);
struct fates_forgotten __wrap_fates_keep(struct fates *fates, uint64_t connection_id, uint64_t reign,
					 struct fate_ring *ring);
void __wrap_completions_lack(struct completions *c, uint64_t reign, uint64_t until_ns);

void __wrap_locker_dead(struct locker *locker, struct locker_note **note)
{
	assert_ptr_equal(locker, server[0].locker);
	assert_int_equal(qps, 0);  /* nothing that it sent takes effect any more */
	assert_null(deleted);
	dead = *note;
	free(*note);
	*note = NULL;
}

struct fates_forgotten __wrap_fates_keep(struct fates *fates, uint64_t connection_id, uint64_t reign,
					 struct fate_ring *ring)
{
	assert_ptr_equal(fates, server[0].fates);
	assert_int_equal(connection_id, 9);
	assert_int_equal(reign, 3);
	assert_int_equal(qps, 0);
	kept = ring;
	return forgotten;
}

void __wrap_completions_lack(struct completions *c, uint64_t reign, uint64_t until_ns)
{
	assert_int_equal(reign, forgotten.reign);
	lacking = c;
	lack_until_ns = until_ns;
}

/* One of 192.0.2.9 that the worker is done with. */
static struct conn *ended(unsigned i)
{
	struct conn *c = come(i, 0, 0);

	qps = 1;
	deleted = disconnected = NULL;
	dead = NULL;
	kept = NULL;
	burial_order(c);
	return c;
}

static bool is_woken(int fd)
{
	eventfd_t value;

	return !eventfd_read(fd, &value);
}

/* ------------------------------------------------------------------------ buried */

static void test_buried(void **state)
{
	const struct locker_note *note = ended(0)->lock_note;

	(void)state;
	assert_int_equal(server[0].conn_count, 1);
	burial_all(&host);
	assert_ptr_equal(disconnected, &ids[0]);
	assert_ptr_equal(deleted, &ids[0]);
	assert_int_equal(qps, 0);
	assert_ptr_equal(dead, note);
	assert_null(kept);
	assert_int_equal(server[0].conn_count, 0);
	assert_null(server[0].conns);
	assert_int_equal(worker[0].conns.load, 0);
	assert_int_equal(worker[0].conns.places, 0);
	assert_false(is_woken(host.done_fd));
	assert_null(host.done);
	burial_all(&host); /* none */

	struct conn *c = ended(1);
	free(c->lock_note); /* without a locker there is none */
	c->lock_note = NULL;
	server[0].locker = NULL;
	burial_all(&host);
	assert_null(dead);
	assert_ptr_equal(deleted, &ids[1]);
}

static void test_several(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++)
		burial_order(come(i, i % 2, 0));
	struct conn *stays = come(3, 0, 0);
	assert_true(is_woken(host.done_fd));
	assert_int_equal(eventfd_write(host.done_fd, 1), 0);
	server[0].locker = NULL;
	for (unsigned i = 0; i < 3; i++) {
		free(((struct conn *)ids[i].context)->lock_note);
		((struct conn *)ids[i].context)->lock_note = NULL;
	}
	burial_all(&host);
	assert_int_equal(server[0].conn_count, 1);
	assert_ptr_equal(server[0].conns, stays);
	assert_int_equal(worker[0].conns.load + worker[2].conns.load, 1);
	assert_int_equal(worker[1].conns.load, 0);
}

/* What became of its changes is kept; what is forgotten for it a cluster's next primary must know. */
static void test_fates(void **state)
{
	static struct completions *const completions = (struct completions *)store;
	struct fate_ring *ring = (struct fate_ring *)ids;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct conn *c = ended(0);
		c->connection_id = 9;
		c->sendq.reign = 3;
		c->sendq.fate = ring;
		server[0].completions = i ? completions : NULL;
		forgotten = (struct fates_forgotten){ .reign = i == 2 ? 0 : 2, .until_ns = 77 };
		lacking = NULL;
		burial_all(&host);
		assert_ptr_equal(kept, ring);
		assert_ptr_equal(lacking, i == 1 ? completions : NULL);
	}
	assert_int_equal(lack_until_ns, 77);
}

/* One that can't be drained: its queue pair first, the rest when its worker gave it back again. */
static void test_given_up(void **state)
{
	struct conn *c = ended(0);

	(void)state;
	c->is_given_up = true;
	is_woken(worker[0].commands.wake_fd);
	burial_all(&host);
	assert_int_equal(qps, 0);
	assert_null(c->qp);
	assert_null(deleted);
	assert_null(dead);
	assert_ptr_equal(disconnected, &ids[0]);
	assert_true(c->is_cut_off);
	assert_true(is_woken(worker[0].commands.wake_fd));
	assert_int_equal(worker[0].conns.load, 0);
	assert_int_equal(server[0].conn_count, 1);
	disconnected = NULL;
	burial_order(c);
	burial_all(&host);
	assert_null(disconnected);
	assert_ptr_equal(deleted, &ids[0]);
	assert_int_equal(worker[0].conns.load, 0);
	assert_int_equal(server[0].conn_count, 0);
}

/* Who waited for its place gets it. */
static void test_for_others(void **state)
{
	(void)state;
	for (unsigned i = 0; i < ALL_MAX; i++)
		come(i, 0, 0)->state = i ? CONN_READY : CONN_NEW;
	server[0].pending = 0;
	ask(id_of(8, 0), 32, 0);
	expect_waiting();
	qps = 1;
	burial_order(ids[0].context);
	deleted = NULL;
	burial_all(&host);
	assert_ptr_equal(accepted, &ids[8]);
}

/* -------------------------------------------------------------------- looked after */

/* The drops of a look at that time. */
static unsigned look_at(uint64_t ns)
{
	unsigned before = drops;

	now_ns = ns;
	host.looked_ns = 0;
	burial_look(&host);
	return drops - before;
}

/* A command to tell of its denial, or none. */
static bool is_told(const struct conn *c)
{
	struct command *command = commands_take(&worker[0].commands);

	if (!command)
		return false;
	assert_int_equal(command->kind, CMD_DENY);
	assert_int_equal(command->connection, c->number);
	assert_null(command->next);
	free(command);
	return true;
}

static void test_silent(void **state)
{
	const uint64_t begin_ns = 100 * S;

	(void)state;
	now_ns = begin_ns;
	struct conn *c = come(0, 0, TEAM), *ready = come(1, 0, 0);
	ready->state = CONN_READY;
	assert_int_equal(look_at(begin_ns + 10 * S), 0);
	assert_int_equal(look_at(begin_ns + 10 * S + 1), 1);
	assert_ptr_equal(dropped, c);
	assert_string_equal(why, "it said nothing for 10 s after it connected");
	assert_int_equal(look_at(begin_ns + 20 * S), 0); /* it is dropped once */
}

static void test_denied(void **state)
{
	const uint64_t denied_ns = 100 * S;
	struct conn *c = come(0, 0, 0);

	(void)state;
	free(commands_take(&worker[0].commands)); /* it was adopted */
	c->state = CONN_DENIED;
	c->since_ns = 99 * S;
	c->denied_ns = denied_ns;
	c->denial = WIRE_EDENIED;
	assert_int_equal(look_at(denied_ns + S), 0);
	assert_false(is_told(c));
	assert_int_equal(look_at(denied_ns + S + 1), 0);
	assert_true(is_told(c));
	assert_int_equal(look_at(denied_ns + 2 * S), 0);
	assert_false(is_told(c)); /* once */
	assert_int_equal(look_at(denied_ns + 2 * S + 1), 1);
	assert_string_equal(why, "its hello proved nothing");
	c->disconnected = false;
	c->denial = WIRE_EBUSY;
	assert_int_equal(look_at(denied_ns + 3 * S), 1);
	assert_string_equal(why, "its user has as many connections as one may have");
	assert_false(is_told(c));
}

static void test_stuck(void **state)
{
	const uint64_t stuck_ns = 100 * S;
	struct conn *c = come(0, 0, 0);

	(void)state;
	c->state = CONN_READY;
	c->sendq.stuck_ns = stuck_ns;
	assert_int_equal(look_at(stuck_ns - 1), 0); /* its worker's clock may be ahead */
	assert_int_equal(look_at(stuck_ns + 10 * S), 0);
	assert_int_equal(look_at(stuck_ns + 10 * S + 1), 1);
	assert_ptr_equal(dropped, c);
	assert_string_equal(why, "it took none of its replies for 10 s");
}

/* Four times a second; the clocks of all namespaces, and those that wait in vain. */
static void test_look(void **state)
{
	(void)state;
	now_ns = 100 * S;
	for (unsigned i = 0; i < ALL_MAX; i++)
		come(i, 0, 0)->state = CONN_READY;
	((struct conn *)ids[0].context)->disconnected = true;
	ask(id_of(8, 0), 32, 0);
	slept_ns = 7;
	look_at(now_ns);
	assert_int_equal(host.looked_ns, now_ns);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(store[i].slept_ns, 7);
	slept_ns = 8;
	now_ns += 250 * MS - 1;
	burial_look(&host);
	assert_int_equal(store[0].slept_ns, 7);
	now_ns++;
	burial_look(&host);
	assert_int_equal(store[0].slept_ns, 8);
	assert_int_equal(store[2].slept_ns, 0);
	expect_waiting();
	said_begin();
	look_at(now_ns + 4 * S);
	said_end();
	expect_refused(&ids[8], WIRE_REFUSED_CONNECTIONS, ALL_MAX);
}

/* ------------------------------------------------------------------------- group */

static int make(void **state)
{
	memset(store, 0, sizeof store);
	slept_ns = 0;
	arrival_make(state);
	for (unsigned i = 0; i < 3; i++)
		server[i].store = &store[i];
	host.done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return host.done_fd < 0;
}

static int unmake(void **state)
{
	close(host.done_fd);
	return arrival_unmake(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, make, unmake)
		CASE(test_buried), CASE(test_several), CASE(test_fates), CASE(test_given_up),
		CASE(test_for_others), CASE(test_silent), CASE(test_denied), CASE(test_stuck),
		CASE(test_look),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
