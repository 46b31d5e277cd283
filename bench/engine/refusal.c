/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/engine/refusal.h"

#include <err.h>


#define BAD_LONG_BYTES (12u << 20) /* of kvd's 16, half of which are taken */

static uint8_t bad_value[BAD_LONG_BYTES];

/* Each is refused, or does nothing; the n-th of many. */
static void refuse_one(struct engine *e, uint64_t n)
{
	struct kvd_change past = { .size = sizeof past, .ttl_ms = (uint64_t)-5 };
	struct kvd_change taken = { .size = sizeof taken, .condition = KVD_IF_ABSENT };
	struct kvd_change other = { .size = sizeof other, .condition = KVD_IF_VERSION,
				    .version = 1ull << 47 };
	kvd_session *s = e->session;
	int want = KVD_OK, got = KVD_OK;
	int64_t number;

	switch (n % 8) {
	case 0:
		want = KVD_ENUMBER, got = kvd_incr(s, "text", 4, 1, NULL, NULL, &number);
		break;
	case 1:
		want = KVD_ERANGE, got = kvd_incr(s, "most", 4, 1, NULL, NULL, &number);
		break;
	case 2:
		want = KVD_EINVAL, got = kvd_put_with(s, "a", 1, "x", 1, &past, NULL);
		break;
	case 3:
		want = KVD_ETOOBIG, got = kvd_put(s, bad_value, KVD_KEY_BYTES_MAX + 1, "x", 1, NULL);
		break;
	case 4:
		want = KVD_ETOOBIG, got = kvd_put(s, "a", 1, bad_value, KVD_VALUE_BYTES_MAX + 1, NULL);
		break;
	case 5:
		want = KVD_CONDITION, got = kvd_put_with(s, "text", 4, bad_value, 4000, &taken, NULL);
		break;
	case 6:
		want = KVD_CONDITION, got = kvd_del_with(s, "text", 4, &other, NULL);
		break;
	case 7:
		/* Pulled, where there is no room for it: dearer, so not each time. */
		if (n % 1024 != 7)
			break;
		want = KVD_EFULL, got = kvd_put(s, "long", 4, bad_value, BAD_LONG_BYTES, NULL);
		break;
	}
	ENGINE_CHECK(got == want, "refusal %llu: %s where %s was expected",
		     (unsigned long long)(n % 8), kvd_strerror(got), kvd_strerror(want));
}

/* 10^6 refusals, in a kvd with less room than one of the values. */
void engine_case_bad(struct engine *e)
{
	uint64_t before = 0;
	double used = 0;

	ENGINE_CHECK(kvd_put(e->session, "text", 4, "text", 4, NULL) == KVD_OK &&
			     kvd_put(e->session, "half", 4, bad_value, 8u << 20, NULL) ==
				     KVD_OK &&
			     kvd_put(e->session, "most", 4, "9223372036854775807", 19, NULL) ==
				     KVD_OK, "%s", kvd_session_error(e->session));
	for (uint64_t n = 0; n < e->keys; n++) {
		if (n == e->keys / 2) { /* every message buffer was used by then */
			before = engine_server_kib("VmRSS");
			used = engine_stat(e, "memory.used_bytes");
		}
		refuse_one(e, n);
	}
	figure("rss_kib", (double)engine_server_kib("VmRSS") - (double)before);
	figure("table_bytes", engine_stat(e, "memory.used_bytes") - used);
	figure("keys", engine_stat(e, "keys"));
}
