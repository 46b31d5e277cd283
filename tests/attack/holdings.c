/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the software device hands to a peer: no memory of kvd's regions before its queue
 * pair has a right to one, and none that it could write where the right is READ; not
 * even by asking the kernel for more than the device does.
 */
#include "tests/attack/holdings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct holdings {
	unsigned readable, writable;
};

static void die(const char *what, const char *when)
{
	fprintf(stderr, "attack: %s %s\n", what, when);
	exit(1);
}

/* A mapping of memory that a peer registered: can it be made writable? */
static bool can_be_written(void *at)
{
	if (mprotect(at, 4096, PROT_READ | PROT_WRITE))
		return false;
	mprotect(at, 4096, PROT_READ);
	return true;
}

/* Of what others registered, by the name that the device gives it; own memory in this
 * program is none of the device's. */
static struct holdings look(void)
{
	struct holdings h = { 0, 0 };
	char line[512], rights[8];
	unsigned long begin;
	FILE *f = fopen("/proc/self/maps", "re");

	if (!f)
		die("can't read", "/proc/self/maps");
	while (fgets(line, sizeof line, f)) {
		if (!strstr(line, "/memfd:softverbs-mem") ||
		    sscanf(line, "%lx-%*x %7s", &begin, rights) != 2)
			continue;
		if (rights[1] == 'w' || can_be_written((void *)begin))
			h.writable++;
		else
			h.readable++;
	}
	fclose(f);
	return h;
}

static void expect(struct holdings want, const char *when)
{
	struct holdings has = look();

	if (has.readable == want.readable && has.writable == want.writable)
		return;
	fprintf(stderr, "attack: %u regions to read and %u to write %s, where it should be %u and %u\n",
		has.readable, has.writable, when, want.readable, want.writable);
	exit(1);
}

void holdings_try(struct raw *raw, const struct credentials *reader,
		  const struct credentials *writer, const struct wire_welcome *known)
{
	struct raw_conn c;

	expect((struct holdings){ 0, 0 }, "before there is a connection");
	raw_connect_well(raw, &c);
	if (!raw_reach(&c, IBV_WR_RDMA_READ, known->table_addr, known->table_rkey, 8))
		die("a READ succeeds", "before the hello");
	expect((struct holdings){ 0, 0 }, "before the hello");
	raw_hang_up(&c);

	raw_enter(raw, &c, reader);
	if (raw_reach(&c, IBV_WR_RDMA_READ, known->table_addr, known->table_rkey, 8))
		die("a reader's READ fails", "after the hello");
	if (!raw_reach(&c, IBV_WR_ATOMIC_CMP_AND_SWP, known->lock_addr, known->lock_rkey, 8))
		die("a reader's CAS succeeds", "");
	struct holdings has = look();
	if (!has.readable || has.writable)
		die("a reader holds what they could write, or nothing", "");
	raw_hang_up(&c);

	raw_enter(raw, &c, writer);
	if (raw_reach(&c, IBV_WR_RDMA_READ, known->table_addr, known->table_rkey, 8) ||
	    raw_reach(&c, IBV_WR_ATOMIC_FETCH_AND_ADD, known->lock_addr, known->lock_rkey, 8))
		die("a writer's rights fail", "");
	has = look();
	if (!has.readable || has.writable != 1)
		die("a writer holds more to write than the locks, or less", "");
	printf("no region before the hello; a reader's %u can't be written, of a writer's only the locks\n",
	       has.readable);
	raw_hang_up(&c);
}
