/* SPDX-License-Identifier: BSD-2-Clause */
/* handshakes.c -- attacks by hellos that are recorded, borrowed or wrong. */
#include <stdio.h>
#include <string.h>

#include "tests/attack/attack.h"

static void borrow_hello(struct raw_conn *to, const struct raw_conn *from)
{
	memcpy(to->hello, from->hello, sizeof to->hello);
	to->hello_bytes = from->hello_bytes;
}

void attack_replay(struct raw *raw, const char *victim)
{
	struct credentials cred = attack_load(victim), wrong = cred;
	struct raw_conn good, c;

	/* What somebody on the wire recorded: the private data and the hello. */
	raw_enter(raw, &good, &cred);
	if (!raw_connect(raw, &c, &good.connect))
		raw_die("kvd doesn't accept");
	borrow_hello(&c, &good);
	attack_must_be_denied(&c, &good.welcome, "a replayed handshake");

	/* A proof that the victim gave on another connection, the nonces being passed on
	 * between: its queue pairs are not these. */
	raw_connect_well(raw, &c);
	uint32_t own = c.server_qpn;
	c.server_qpn = own + 1;
	raw_make_hello(&c, &cred);
	c.server_qpn = own;
	attack_must_be_denied(&c, &good.welcome, "a proof for another queue pair");

	/* A proof that was given to another server. */
	raw_connect_well(raw, &c);
	wrong.server.bytes[0] ^= 1;
	raw_make_hello(&c, &wrong);
	attack_must_be_denied(&c, &good.welcome, "a proof for another server");

	/* Another's name, no name, a name that is too long, half a proof. */
	raw_connect_well(raw, &c);
	raw_make_hello(&c, &cred);
	c.hello[sizeof(struct wire_request)] ^= 1;
	attack_must_be_denied(&c, &good.welcome, "another name");
	raw_connect_well(raw, &c);
	raw_make_hello(&c, NULL);
	attack_must_be_denied(&c, &good.welcome, "a hello of nobody");
	raw_connect_well(raw, &c);
	raw_make_hello(&c, &cred);
	((struct wire_request *)(void *)c.hello)->value_bytes -= 32;
	c.hello_bytes -= 32;
	attack_must_be_denied(&c, &good.welcome, "half a proof");

	/* A second hello, though a good one. */
	if (raw_say_hello(&good, NULL) != -1)
		raw_die("a second hello is answered");
	raw_hang_up(&good);
	printf("%u handshakes\n", attack_tries);
}
