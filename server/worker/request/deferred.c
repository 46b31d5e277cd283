/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/worker/request/deferred.h"

#include <errno.h>
#include <stdlib.h>

#include "server/lock/locker.h"
#include "server/store/store.h"

#define REPORT_AGAIN_NS 20000000ull

int deferred_init(struct deferred *d, uint32_t max)
{
	d->request = calloc(max, sizeof *d->request);
	d->count = d->slow = 0;
	d->max = max;
	return d->request ? 0 : ENOMEM;
}

void deferred_fini(struct deferred *d)
{
	free(d->request);
}

bool deferred_add(struct deferred *d, struct conn *conn, uint32_t buffer, uint32_t bytes,
		  bool is_slow, uint64_t now_ns)
{
	if (d->count == d->max)
		return false;
	d->request[d->count++] = (struct deferred_request){
		.conn = conn, .buffer = buffer, .bytes = bytes, .since_ns = now_ns,
		.report_ns = now_ns + REPORT_FIRST_NS, .is_slow = is_slow,
	};
	d->slow += is_slow;
	return true;
}

void deferred_forget(struct deferred *d, const struct conn *conn,
		     void (*release)(void *arg, uint32_t buffer), void *arg)
{
	for (uint32_t i = 0; i < d->count; i++) {
		struct deferred_request *r = &d->request[i];
		if (r->conn != conn)
			continue;
		release(arg, r->buffer);
		r->conn = NULL; /* deferred_retry() drops the rest */
	}
}

void deferred_retry(struct deferred *d, bool (*again)(void *arg, struct deferred_request *r),
		    void *arg)
{
	uint32_t n = d->count, kept = 0, slow = 0;

	d->is_trying = true;
	for (uint32_t i = 0; i < n; i++) {
		struct deferred_request r = d->request[i];
		if (r.conn && !again(arg, &r)) {
			d->request[kept++] = r;
			slow += r.is_slow;
		}
	}
	d->count = kept;
	d->slow = slow;
	d->is_trying = false;
}

void deferred_report(struct locker *locker, uint64_t blocked, uint64_t *report_ns,
		     uint64_t now_ns)
{
	if (blocked == STORE_NOT_BLOCKED || now_ns < *report_ns || !locker)
		return;
	locker_watch(locker, blocked);
	*report_ns = now_ns + REPORT_AGAIN_NS;
}
