/* SPDX-License-Identifier: BSD-2-Clause */
/* server/metrics/guests.h: how long who connects to --metrics may take, and who goes when
 * there are many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <unistd.h>
#include <cmocka.h>

#include "server/metrics/guests.h"

#define S 1000000000ull
#define START (100 * S)

static struct guests guests;
static struct guest *guest[3 * GUESTS_MAX];
static int peer_fd[3 * GUESTS_MAX];

/* The n-th one comes from an address, "10.0.0.7" or of IPv6. */
static void come(unsigned n, const char *address, uint64_t now_ns)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	const struct sockaddr *peer = (const struct sockaddr *)&v4;
	int ends[2];

	if (inet_pton(AF_INET6, address, &v6.sin6_addr) == 1)
		peer = (const struct sockaddr *)&v6;
	else
		assert_int_equal(inet_pton(AF_INET, address, &v4.sin_addr), 1);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
	peer_fd[n] = ends[1];
	guest[n] = guests_come(&guests, ends[0], peer, now_ns);
	if (!guest[n])
		close(ends[0]);
}

/* Whether the other end sees it end. */
static bool is_gone(unsigned n)
{
	char c;

	return read(peer_fd[n], &c, 1) == 0;
}

static void leave(unsigned from, unsigned to)
{
	for (unsigned n = from; n < to; n++) {
		if (guest[n]) {
			close(guest[n]->fd);
			guests_leave(&guests, guest[n]);
		}
		close(peer_fd[n]);
	}
}

static void test_time(void **state)
{
	(void)state;
	guests_init(&guests);
	come(0, "10.0.0.1", START);
	come(1, "10.0.0.1", START + S);
	guests_look(&guests, START + GUEST_NS);
	assert_false(is_gone(0));
	/* However many bytes it dripped meanwhile. */
	guests_look(&guests, START + GUEST_NS + 1);
	bool gone = is_gone(0);
	if (!gone)
		print_error("who drips stays\n");
	assert_true(gone);
	assert_false(is_gone(1));
	guest[1]->since_ns = START + GUEST_NS; /* it was answered */
	guests_look(&guests, START + GUEST_NS + 2 * S);
	assert_false(is_gone(1));
	assert_int_equal(guests.count, 2);
	leave(0, 2);
	assert_int_equal(guests.count, 0);
}

static void test_room_of_address(void **state)
{
	unsigned n = 0;

	(void)state;
	guests_init(&guests);
	come(n++, "10.0.0.2", START); /* the eldest of all, of another address */
	for (unsigned i = 0; i < GUESTS_OF_ADDRESS_MAX; i++)
		come(n++, "2001:db8::1", START + 1 + i);
	for (unsigned i = 0; i < n; i++)
		assert_false(is_gone(i));
	come(n++, "2001:db8::2", START + S); /* the same /64 */
	bool eldest_goes = is_gone(1);
	if (!eldest_goes)
		print_error("an address has as many as it likes\n");
	assert_true(eldest_goes);
	assert_false(is_gone(0));
	for (unsigned i = 2; i < n; i++)
		assert_false(is_gone(i));
	leave(0, n);
}

/* Also while those that went have not been closed. */
static void test_room_of_all(void **state)
{
	char address[32];
	unsigned n = 0;

	(void)state;
	guests_init(&guests);
	for (unsigned i = 0; i < 2 * GUESTS_MAX; i++) {
		snprintf(address, sizeof address, "10.0.%u.1", i);
		come(n++, address, START + i);
		assert_non_null(guest[n - 1]);
		assert_int_equal(i < GUESTS_MAX ? 0 : is_gone(i - GUESTS_MAX), i >= GUESTS_MAX);
		assert_false(is_gone(n - 1));
	}
	come(n++, "10.1.0.1", START + S); /* no place at all */
	assert_null(guest[n - 1]);
	leave(0, 1);
	come(n++, "10.1.0.1", START + S);
	assert_non_null(guest[n - 1]);
	leave(1, n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_time),
		cmocka_unit_test(test_room_of_address),
		cmocka_unit_test(test_room_of_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
