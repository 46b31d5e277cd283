/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * attack -- tries to get at kvd's memory on bare verbs.
 *
 *	attack ADDR:PORT snapshot CREDENTIALS FILE	table and locks, by one who may READ
 *	attack ADDR:PORT matrix VICTIM READER		every request, region, phase and rkey
 *	attack ADDR:PORT holdings VICTIM READER		what the software device hands over
 *	attack ADDR:PORT replay VICTIM			recorded and borrowed handshakes
 *	attack ADDR:PORT guess N SEED PROCESSES [VICTIM [WHO]]
 *							rkeys out of the air, at the victim's
 *							addresses, as nobody or as WHO
 *	attack ADDR:PORT hoard N PROCESSES WHO KEY FILE
 *							N GETs by message of a long value, which
 *							it neither READs nor gives back
 *	attack ADDR:PORT swell N PROCESSES WHO KEY
 *							N appends of a byte to a long value, and
 *							as many touches of it
 *	attack ADDR:PORT pace WHO KEY FILE		no attack: a user's PUTs, one after the
 *							other, until FILE is there, and how long
 *							they took
 *	attack ADDR:PORT revoked VICTIM OTHER		until VICTIM is removed, and after
 *	attack ADDR:PORT/A across ADDR:PORT/B A B	a user of A: with B's rkeys on A's queue
 *							pairs, and at B's door
 *	attack ADDR:PORT rails ADDR:PORT		two devices of one kvd without users: with the
 *							rkeys of one on queue pairs of the other
 *	attack ADDR:PORT crowd N PROCESSES WHO FILE	N connections, every other one silent,
 *							until FILE is there; WHO -: all silent
 *	attack ADDR:PORT strangers N USERS WHO FILE	USERS connections that are proved, then N
 *							that say nothing and come again as they
 *							are ended, until FILE is there
 *	attack ADDR:PORT greedy WHO KEY			more changes of a locked key than credits
 *	attack ADDR:PORT unlock WHO KEY			takes somebody's lock away, by its word;
 *							WHO -: where there are no users
 *	attack ADDR:PORT mute WHO			many requests, no room for the replies
 *	attack ADDR:PORT saturate WHO FILE		40 that list keys, a flood of requests, two
 *							that take no replies, until FILE is there
 *	attack ADDR:PORT words WHO own|nobody FILE	that in all lock words, until FILE is
 *							there; WHO -: where there are no users
 *	attack ADDR:PORT passers FILE			strangers who come and go, until
 *							FILE is there
 *	attack ADDR:PORT mutes N M ping|keys WHO FILE	N connections with M requests each, no
 *							room for the replies, until FILE is there
 *	attack ADDR:PORT listers N WHO FILE		N connections that list keys, until FILE
 *							is there
 *	attack ADDR:PORT flood N SEED PROCESSES WHO
 *							messages that are malformed, or come
 *							when they must not
 *
 * VICTIM, READER, OTHER are files of credentials: the attacker has a victim's rkeys (by
 * asking kvd in their name) but not, where it matters, their secret.  Exits with 0 if
 * nothing worked that must not; 1 with a sentence otherwise.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/attack/attack.h"

#define PATTERN 0xa5

const enum ibv_wr_opcode attack_opcodes[ATTACK_OPCODES] = { IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE,
							    IBV_WR_ATOMIC_CMP_AND_SWP,
							    IBV_WR_ATOMIC_FETCH_AND_ADD };
static const char *const opcode_names[ATTACK_OPCODES] = { "READ", "WRITE", "CAS", "FADD" };

unsigned attack_tries;

struct credentials attack_load(const char *path)
{
	struct credentials c;
	struct err err;

	if (credentials_load(path, &c, &err))
		raw_die(err.text);
	return c;
}

void attack_must_fail(struct raw_conn *c, unsigned op, uint64_t addr, uint32_t rkey,
		      const char *when)
{
	uint8_t *reach = c->raw->reach;

	memset(reach, PATTERN, 8);
	enum ibv_wc_status status = raw_reach(c, attack_opcodes[op], addr, rkey, 8);
	attack_tries++;
	if (status == IBV_WC_SUCCESS) {
		fprintf(stderr, "attack: %s at 0x%llx with rkey 0x%x succeeds %s\n",
			opcode_names[op], (unsigned long long)addr, rkey, when);
		exit(1);
	}
	for (unsigned i = 0; i < 8; i++)
		if (reach[i] != PATTERN) {
			fprintf(stderr, "attack: a failed %s brought bytes %s\n", opcode_names[op],
				when);
			exit(1);
		}
}

int attack_wait_all(void)
{
	int status, bad = 0;

	while (wait(&status) > 0)
		bad |= status != 0;
	return bad;
}

void attack_learn(const char *addr, const struct credentials *who, struct wire_welcome *known)
{
	int ends[2];

	fflush(stdout);
	if (pipe(ends))
		raw_die("no pipe");
	if (fork() == 0) {
		struct raw raw = { .random = 1 };
		struct raw_conn c;
		raw_open(&raw, addr);
		raw_enter(&raw, &c, who);
		_exit(write(ends[1], &c.welcome, sizeof c.welcome) != sizeof c.welcome);
	}
	close(ends[1]);
	if (read(ends[0], known, sizeof *known) != sizeof *known || attack_wait_all())
		raw_die("nothing is learnt");
	close(ends[0]);
}

void attack_must_be_denied(struct raw_conn *c, const struct wire_welcome *known, const char *what)
{
	int status = raw_say_hello(c, NULL);

	if (status == WIRE_OK) {
		fprintf(stderr, "attack: %s lets in\n", what);
		exit(1);
	}
	if (status != WIRE_EDENIED && status != -1)
		raw_die("a hello is answered by something odd");
	attack_must_fail(c, 0, known->table_addr, known->table_rkey, what);
	raw_hang_up(c);
	attack_tries++;
}

int main(int argc, char **argv)
{
	struct raw raw = { .random = 1 };

	if (argc < 4)
		return 2;
	alarm(14400);
	if (!strcmp(argv[2], "guess"))
		attack_guess(argv[1], argc - 3, argv + 3);
	if (!strcmp(argv[2], "crowd") && argc == 7)
		attack_crowd(argv[1], argv + 3);
	if (!strcmp(argv[2], "hoard") && argc == 8)
		attack_hoard(argv[1], argv + 3);
	if (!strcmp(argv[2], "swell") && argc == 7)
		attack_swell(argv[1], argv + 3);
	if (!strcmp(argv[2], "strangers") && argc == 7)
		attack_strangers(argv[1], argv + 3);
	if (!strcmp(argv[2], "flood") && argc == 7)
		attack_flood(argv[1], argv + 3);
	if (!strcmp(argv[2], "holdings") && argc == 5) {
		attack_holdings(argv[1], argv[3], argv[4]);
		return 0;
	}
	raw_open(&raw, argv[1]);
	if (!strcmp(argv[2], "snapshot") && argc == 5)
		attack_snapshot(&raw, argv[3], argv[4]);
	else if (!strcmp(argv[2], "matrix") && argc == 5)
		attack_matrix(&raw, argv[3], argv[4]);
	else if (!strcmp(argv[2], "replay") && argc == 4)
		attack_replay(&raw, argv[3]);
	else if (!strcmp(argv[2], "greedy") && argc == 5)
		attack_greedy(&raw, argv[3], argv[4]);
	else if (!strcmp(argv[2], "words") && argc == 6)
		attack_words(&raw, argv[3], argv[4], argv[5]);
	else if (!strcmp(argv[2], "passers") && argc == 4)
		attack_passers(&raw, argv[3]);
	else if (!strcmp(argv[2], "unlock") && argc == 5)
		attack_unlock(&raw, argv[3], argv[4]);
	else if (!strcmp(argv[2], "mute") && argc == 4)
		attack_mute(&raw, argv[3]);
	else if (!strcmp(argv[2], "saturate") && argc == 5)
		attack_saturate(&raw, argv[3], argv[4]);
	else if (!strcmp(argv[2], "mutes") && argc == 8)
		attack_mutes(&raw, argv + 3);
	else if (!strcmp(argv[2], "listers") && argc == 6)
		attack_listers(&raw, argv + 3);
	else if (!strcmp(argv[2], "pace") && argc == 6)
		attack_pace(&raw, argv[3], argv[4], argv[5]);
	else if (!strcmp(argv[2], "across") && argc == 6)
		attack_across(&raw, argv[3], argv[4], argv[5]);
	else if (!strcmp(argv[2], "rails") && argc == 4)
		attack_rails(&raw, argv[3]);
	else if (!strcmp(argv[2], "revoked") && argc == 5)
		attack_revoked(&raw, argv[3], argv[4]);
	else
		return 2;
	raw_close(&raw);
	return 0;
}
