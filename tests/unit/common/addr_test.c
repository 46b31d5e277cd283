/* SPDX-License-Identifier: BSD-2-Clause */
/* common/addr.h: addresses as people write them, and as kvd tells them.  Names are looked up by a
 * getaddrinfo() of the test's own. */
#include <arpa/inet.h>
#include <netdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/addr.h"

/* By --wrap: "many" has addresses of both families and one of neither, "odd" has only that, "none" and
 * what begins with h have none. */
int __real_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
		       struct addrinfo **found);
int __wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
		       struct addrinfo **found);
void __real_freeaddrinfo(struct addrinfo *found);
void __wrap_freeaddrinfo(struct addrinfo *found);

static struct sockaddr_in v4[2];
static struct sockaddr_in6 v6[2];
static struct sockaddr odd;
static struct addrinfo made[5];
static int socktype;
static unsigned freed;

static void chain(unsigned i, struct sockaddr *sa, int family)
{
	sa->sa_family = (sa_family_t)family;
	made[i] = (struct addrinfo){ .ai_family = family, .ai_addr = sa,
				     .ai_next = i < 4 ? &made[i + 1] : NULL };
}

int __wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
		       struct addrinfo **found)
{
	assert_null(service);
	socktype = hints->ai_socktype;
	if (strcmp(host, "none") == 0 || *host == 'h')
		return EAI_NONAME;
	if (strcmp(host, "many") != 0 && strcmp(host, "odd") != 0)
		return __real_getaddrinfo(host, service, hints, found);
	inet_pton(AF_INET6, "2001:db8::1", &v6[0].sin6_addr);
	inet_pton(AF_INET6, "2001:db8::2", &v6[1].sin6_addr);
	inet_pton(AF_INET, "192.0.2.1", &v4[0].sin_addr);
	inet_pton(AF_INET, "192.0.2.2", &v4[1].sin_addr);
	chain(0, (struct sockaddr *)&v6[0], AF_INET6);
	chain(1, (struct sockaddr *)&v4[0], AF_INET);
	chain(2, (struct sockaddr *)&v6[1], AF_INET6);
	chain(3, (struct sockaddr *)&v4[1], AF_INET);
	chain(4, &odd, AF_UNIX);
	*found = strcmp(host, "odd") == 0 ? &made[4] : &made[0];
	return 0;
}

void __wrap_freeaddrinfo(struct addrinfo *found)
{
	freed++;
	if (found != &made[0] && found != &made[4])
		__real_freeaddrinfo(found);
}

static struct addr addr;
static struct err err;

static void must_be(const char *text, const char *shown)
{
	memset(&addr, 0xff, sizeof addr);
	freed = 0;
	if (addr_parse(&addr, text, &err))
		fail_msg("'%s': %s", text, err.text);
	assert_string_equal(addr.text, shown);
	assert_int_equal(freed, 1);
	assert_int_equal(socktype, SOCK_STREAM);
}

static void test_forms(void **state)
{
	(void)state;
	must_be("127.0.0.2", "127.0.0.2:7480");
	/* Nothing of the last one's port. */
	assert_int_equal(addr_parse(&addr, "none:5", &err), ADDR_UNKNOWN);
	must_be("127.0.0.2", "127.0.0.2:7480");
	must_be("127.0.0.2:1", "127.0.0.2:1");
	must_be("127.0.0.2:65535", "127.0.0.2:65535");
	must_be("127.0.0.2:0", "127.0.0.2:0");
	must_be("99", "127.0.0.1:99");
	must_be("[::1]:34", "[::1]:34");
	must_be("[::1]", "[::1]:7480");
	must_be("::1", "[::1]:7480");
	must_be("2001:db8::5", "[2001:db8::5]:7480");
	must_be("many:5", "192.0.2.1:5");
}

static void must_fail(const char *text, int code, const char *sentence)
{
	assert_int_equal(addr_parse(&addr, text, &err), code);
	assert_string_equal(err.text, sentence);
}

static void test_no_addresses(void **state)
{
	char host[300];

	(void)state;
	must_fail("", -1, "'' is not an address: write HOST:PORT or [V6]:PORT");
	must_fail(":5", -1, "':5' is not an address: write HOST:PORT or [V6]:PORT");
	must_fail("[]:5", -1, "'[]:5' is not an address: write HOST:PORT or [V6]:PORT");
	must_fail("[::1", -1, "'[::1' is not an address: write HOST:PORT or [V6]:PORT");
	must_fail("[::1]5", -1, "'[::1]5' is not an address: write HOST:PORT or [V6]:PORT");
	must_fail("[::1]x:5", -1, "'[::1]x:5' is not an address: write HOST:PORT or [V6]:PORT");
	must_fail("127.0.0.1:65536", -1, "'127.0.0.1:65536': the port '65536' is not a number from 0 to 65535");
	must_fail("127.0.0.1:", -1, "'127.0.0.1:': the port '' is not a number from 0 to 65535");
	must_fail("127.0.0.1:5x", -1, "'127.0.0.1:5x': the port '5x' is not a number from 0 to 65535");
	must_fail("127.0.0.1:-5", -1, "'127.0.0.1:-5': the port '-5' is not a number from 0 to 65535");
	must_fail("127.0.0.1: 5", -1, "'127.0.0.1: 5': the port ' 5' is not a number from 0 to 65535");
	must_fail("127.0.0.1:/5", -1, "'127.0.0.1:/5': the port '/5' is not a number from 0 to 65535");
	must_fail("65536", -1, "'65536': the port '65536' is not a number from 0 to 65535");
	must_fail("odd:5", ADDR_UNKNOWN, "the host 'odd' has no address");
	assert_int_equal(addr_parse(&addr, "none:5", &err), ADDR_UNKNOWN);
	assert_non_null(strstr(err.text, "can't look up the host 'none': "));
	/* A host of 255 letters is looked up, a longer one is none. */
	memset(host, 'h', sizeof host);
	host[256] = '\0';
	assert_int_equal(addr_parse(&addr, host, &err), -1);
	host[255] = '\0';
	assert_int_equal(addr_parse(&addr, host, &err), ADDR_UNKNOWN);
}

/* IPv4 first, each family in getaddrinfo()'s order, as many as there is room for. */
static void test_all(void **state)
{
	static const char *const shown[] = { "192.0.2.1:7", "192.0.2.2:7", "[2001:db8::1]:7",
					     "[2001:db8::2]:7" };
	struct addr addrs[6];

	(void)state;
	for (unsigned max = 1; max <= 5; max++) {
		int n = max < 4 ? (int)max : 4;
		memset(addrs, 0xff, sizeof addrs);
		freed = 0;
		assert_int_equal(addr_parse_all(addrs, max, "many:7", &err), n);
		assert_int_equal(freed, 1);
		for (int i = 0; i < n; i++)
			assert_string_equal(addrs[i].text, shown[i]);
		assert_int_equal(addrs[n].text[0], (char)0xff);
	}
	assert_int_equal(addrs[0].v4.sin_port, htons(7));
	assert_int_equal(addrs[2].v6.sin6_port, htons(7));
	assert_int_equal(addr_parse_all(addrs, 6, "none", &err), ADDR_UNKNOWN);
}

static void test_from(void **state)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(8) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(9), .sin6_scope_id = 77 };

	(void)state;
	inet_pton(AF_INET, "10.1.2.3", &in.sin_addr);
	inet_pton(AF_INET6, "fe80::1", &in6.sin6_addr);
	memset(&addr, 0xff, sizeof addr);
	addr_from(&addr, (struct sockaddr *)&in);
	assert_string_equal(addr.text, "10.1.2.3:8");
	assert_memory_equal(&addr.v4, &in, sizeof in);
	assert_int_equal(addr.v6.sin6_scope_id, 0);
	addr_set_port(&addr, 4321);
	assert_string_equal(addr.text, "10.1.2.3:4321");
	assert_int_equal(addr.v4.sin_port, htons(4321));
	addr_from(&addr, (struct sockaddr *)&in6);
	assert_string_equal(addr.text, "[fe80::1]:9");
	assert_memory_equal(&addr.v6, &in6, sizeof in6);
	addr_set_port(&addr, 1234);
	assert_string_equal(addr.text, "[fe80::1]:1234");
	assert_int_equal(addr.v6.sin6_port, htons(1234));
}

static void test_loopback(void **state)
{
	static const struct { const char *text; bool is; } cases[] = {
		{ "127.0.0.1", true }, { "127.255.255.254", true }, { "126.0.0.1", false },
		{ "128.0.0.1", false }, { "1.0.0.127", false }, { "0.0.0.0", false },
		{ "[::1]", true }, { "[::2]", false }, { "[::]", false },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		assert_int_equal(addr_parse(&addr, cases[i].text, &err), 0);
		assert_int_equal(addr_is_loopback(&addr), cases[i].is);
	}
}

static void test_default(void **state)
{
	(void)state;
	assert_int_equal(unsetenv("KVD_SERVER"), 0);
	assert_string_equal(addr_server_default(), "127.0.0.1:7480");
	assert_int_equal(setenv("KVD_SERVER", "", 1), 0);
	assert_string_equal(addr_server_default(), "127.0.0.1:7480");
	assert_int_equal(setenv("KVD_SERVER", "there:5", 1), 0);
	assert_string_equal(addr_server_default(), "there:5");
	assert_int_equal(unsetenv("KVD_SERVER"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms),
		cmocka_unit_test(test_no_addresses),
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_from),
		cmocka_unit_test(test_loopback),
		cmocka_unit_test(test_default),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
