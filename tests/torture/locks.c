/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * locks ADDR CASE [SIZE]
 *
 * Locks among processes that keep them, lose them, wait for them and leave them
 * alone, one case at a time.  Exits with 0 if all was as <kvd.h> says.
 */
#include "tests/torture/locks.h"

const char *server;
struct stage *stage;
unsigned size;
const struct kvd_key key = { "the key", 7 };

kvd_lock_t *lock_key(kvd_session *s)
{
	kvd_lock_t *lock;

	expect_result(s, kvd_lock(s, &key, 1, -1, &lock), KVD_OK, "lock");
	return lock;
}

void finish(const pid_t *pid, unsigned count)
{
	bool ok = true;

	for (unsigned i = 0; i < count; i++)
		ok &= ended_well(pid[i]);
	check(ok, "a process failed");
}

uint64_t reconnects(kvd_session *s)
{
	struct kvd_counters c;

	kvd_session_counters(s, &c);
	return c.reconnects;
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "fair", case_fair },
	{ "turns", case_turns },
	{ "killed", case_killed },
	{ "stopped", case_stopped },
	{ "stopped_plain", case_stopped_plain },
	{ "idle", case_idle },
	{ "exclusion", case_exclusion },
	{ "try", case_try },
	{ "many", case_many },
	{ "depth", case_depth },
	{ "restart", case_restart },
};

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: locks ADDR CASE [SIZE]\n");
		return 2;
	}
	server = argv[1];
	size = argc > 3 ? (unsigned)atoi(argv[3]) : 1;
	stage = shared_new(sizeof *stage);
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		if (strcmp(cases[i].name, argv[2]) != 0)
			continue;
		cases[i].run();
		return 0;
	}
	fprintf(stderr, "locks: no case %s\n", argv[2]);
	return 2;
}
