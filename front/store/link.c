/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/store/link.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/log_limit.h"

#define BATCH 64
#define PAUSE_MS 100

/* Whose the session is: the loop's while UP, the mender's while MENDING. */
enum link_state { LINK_UP, LINK_MENDING };

struct link {
	kvd_client *client;
	kvd_session *session;
	struct mailbox *box;
	enum link_state state;
	int fd;
	bool readable;
	unsigned in_flight;
	uint64_t losses;
	struct ticket *first, **last;

	pthread_t mender;
	pthread_mutex_t lock;
	pthread_cond_t ended; /* of `stop` */
	/* Under the lock while MENDING. */
	bool mended, stop;
	struct err why; /* "": no attempt has failed yet */
};

/* ------------------------------------------------------------------ mender */

/* One attempt, for as long as the client's time-out; 0 or KVD_E*. */
static int mend(struct link *l)
{
	uint64_t round_trip_ns;

	return l->session ? kvd_ping(l->session, &round_trip_ns)
			  : kvd_session_new(l->client, &l->session);
}

static const char *reason(const struct link *l)
{
	const char *said = l->session ? kvd_session_error(l->session) : kvd_client_error(l->client);

	return *said ? said : "kvd can't be reached";
}

/* A pause, which the end cuts short.  The lock held. */
static void pause_a_while(struct link *l)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += PAUSE_MS * 1000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	if (!l->stop)
		pthread_cond_timedwait(&l->ended, &l->lock, &until);
}

static void *run_mender(void *arg)
{
	struct link *l = arg;

	pthread_mutex_lock(&l->lock);
	while (!l->stop && !l->mended) {
		pthread_mutex_unlock(&l->lock);
		int rc = mend(l);
		pthread_mutex_lock(&l->lock);
		l->mended = !rc;
		if (rc)
			err_set(&l->why, 0, "%s", reason(l));
		mailbox_wake(l->box);
		if (rc)
			pause_a_while(l);
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

/* Hands the session to the mender. */
static int start_mender(struct link *l)
{
	l->state = LINK_MENDING;
	l->mended = false;
	l->why.text[0] = '\0';
	int rc = pthread_create(&l->mender, NULL, run_mender, l);
	if (rc) {
		l->state = LINK_UP; /* the next ticket tries again */
		err_set_errno(&l->why, 0, rc, "can't start a thread");
	}
	return rc;
}

/* ------------------------------------------------------------------- queue */

static void enqueue(struct link *l, struct ticket *t)
{
	t->next = NULL;
	*l->last = t;
	l->last = &t->next;
}

static struct ticket *dequeue(struct link *l)
{
	struct ticket *t = l->first;

	l->first = t->next;
	if (!l->first)
		l->last = &l->first;
	return t;
}

static void refuse(struct ticket *t, int result, const char *why)
{
	t->done(t, &(struct kvd_completion){ .tag = t, .result = result }, why);
}

/* What waited for too long, and all once an attempt to connect has failed. */
static unsigned refuse_waiting(struct link *l, const char *why, uint64_t now)
{
	struct ticket *all = l->first;
	unsigned n = 0;

	l->first = NULL;
	l->last = &l->first;
	while (all) {
		struct ticket *t = all;
		all = t->next;
		if (!*why && t->deadline_ns > now) {
			enqueue(l, t);
			continue;
		}
		refuse(t, KVD_ECONNECT, *why ? why : "kvd did not answer in time");
		n++;
	}
	return n;
}

/* -------------------------------------------------------------------- send */

static void lost(struct link *l)
{
	log_limited(LOG_LEVEL_WARN, "lost connections to kvd", "%s", kvd_session_error(l->session));
	l->losses++;
	if (start_mender(l))
		refuse_waiting(l, l->why.text, UINT64_MAX);
}

/* False: it is to wait. */
static bool try_to_send(struct link *l, struct ticket *t)
{
	if (!kvd_connected(l->session))
		return false; /* a call would connect, and wait for that */
	int rc = t->send(l->session, t);
	if (rc == KVD_OK)
		l->in_flight++;
	else if (rc == KVD_EBUSY || !kvd_connected(l->session))
		return false;
	else
		refuse(t, rc, kvd_session_error(l->session));
	return true;
}

static unsigned send_waiting(struct link *l, uint64_t now)
{
	unsigned n = 0;

	while (l->first) {
		struct ticket *t = dequeue(l);
		if (t->deadline_ns <= now) {
			refuse(t, KVD_ETIMEDOUT, "kvd did not answer in time");
			n++;
		} else if (!try_to_send(l, t)) {
			t->next = l->first;
			if (!l->first)
				l->last = &t->next;
			l->first = t;
			break;
		}
	}
	return n;
}

void link_send(struct link *l, struct ticket *t, uint64_t now)
{
	if (l->state == LINK_UP && !l->first && try_to_send(l, t))
		return;
	enqueue(l, t);
	if (l->state == LINK_MENDING || l->in_flight)
		return;
	/* Nothing will complete that would have it sent. */
	if (!kvd_connected(l->session))
		lost(l);
	else
		send_waiting(l, now);
}

/* -------------------------------------------------------------------- poll */

static unsigned deliver(struct link *l, struct kvd_completion *done, int count, uint64_t now)
{
	unsigned n = 0;

	for (int i = 0; i < count; i++) {
		struct ticket *t = done[i].tag;
		l->in_flight--;
		if (done[i].result == KVD_ECONNECT && t->is_get && t->deadline_ns > now) {
			enqueue(l, t);
			continue;
		}
		t->done(t, &done[i], done[i].result < 0 ? kvd_session_error(l->session) : "");
		n++;
	}
	return n;
}

static unsigned poll_up(struct link *l, uint64_t now)
{
	struct kvd_completion done[BATCH];
	unsigned n = 0;

	if (l->readable && !l->in_flight)
		kvd_arm(l->session); /* it looks at the connection */
	l->readable = false;
	if (l->in_flight) {
		int count = kvd_poll(l->session, done, BATCH, 0);
		if (count > 0)
			n += deliver(l, done, count, now);
	}
	if (!l->in_flight && !kvd_connected(l->session))
		lost(l);
	else if (l->first)
		n += send_waiting(l, now);
	return n;
}

static unsigned poll_mending(struct link *l, uint64_t now)
{
	struct err why;

	pthread_mutex_lock(&l->lock);
	bool mended = l->mended;
	why = l->why;
	pthread_mutex_unlock(&l->lock);
	if (!mended)
		return refuse_waiting(l, why.text, now);
	pthread_join(l->mender, NULL);
	l->state = LINK_UP;
	int fd = kvd_fd(l->session);
	l->fd = fd < 0 ? l->fd : fd;
	return send_waiting(l, now);
}

unsigned link_poll(struct link *l, uint64_t now)
{
	return l->state == LINK_UP ? poll_up(l, now) : poll_mending(l, now);
}

bool link_arm(struct link *l)
{
	return l->state == LINK_UP && l->in_flight &&
	       (kvd_arm(l->session) || !kvd_connected(l->session));
}

int link_fd(const struct link *l)
{
	return l->fd;
}

void link_readable(struct link *l)
{
	l->readable = true;
}

bool link_is_up(const struct link *l)
{
	return l->state == LINK_UP;
}

unsigned link_in_flight(const struct link *l)
{
	return l->in_flight;
}

uint64_t link_losses(const struct link *l)
{
	return l->losses;
}

bool link_count(const struct link *l, uint64_t *reads, uint64_t *doorbells)
{
	struct kvd_counters counters;

	if (l->state != LINK_UP || !l->session)
		return false;
	kvd_session_counters(l->session, &counters);
	*reads += counters.reads;
	*doorbells += counters.doorbells;
	return true;
}

/* ------------------------------------------------------------ from and to */

int link_new(kvd_client *client, struct mailbox *box, struct link **link, struct err *err)
{
	struct link *l = calloc(1, sizeof *l);

	*link = NULL;
	if (!l)
		return err_set(err, -1, "out of memory");
	l->client = client;
	l->box = box;
	l->fd = -1;
	l->last = &l->first;
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->ended, NULL);
	if (start_mender(l)) {
		*err = l->why;
		link_delete(&l);
		return -1;
	}
	*link = l;
	return 0;
}

void link_delete(struct link **link)
{
	struct link *l = *link;

	if (!l)
		return;
	if (l->state == LINK_MENDING) {
		pthread_mutex_lock(&l->lock);
		l->stop = true;
		pthread_cond_signal(&l->ended);
		pthread_mutex_unlock(&l->lock);
		pthread_join(l->mender, NULL);
	}
	kvd_session_delete(&l->session);
	pthread_cond_destroy(&l->ended);
	pthread_mutex_destroy(&l->lock);
	free(l);
	*link = NULL;
}
