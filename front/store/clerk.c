/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/store/clerk.h"

#include <pthread.h>
#include <stdlib.h>

struct clerk {
	kvd_client *client;
	kvd_session *session; /* the thread's; NULL: none was made yet */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed; /* of what follows, which is under the lock */
	struct errand *first, **last;
	unsigned count;
	bool stop;
};

static void run_errand(struct clerk *c, struct errand *e)
{
	int rc = c->session ? 0 : kvd_session_new(c->client, &c->session);

	if (rc) {
		err_set(&e->why, 0, "%s", kvd_client_error(c->client));
	} else {
		rc = e->run(c->session, e);
		if (rc < 0)
			err_set(&e->why, 0, "%s", kvd_session_error(c->session));
	}
	e->result = rc;
	mailbox_send(e->box, &e->letter);
}

static void *run(void *arg)
{
	struct clerk *c = arg;

	pthread_mutex_lock(&c->lock);
	while (!c->stop) {
		struct errand *e = c->first;
		if (!e) {
			pthread_cond_wait(&c->changed, &c->lock);
			continue;
		}
		c->first = e->next;
		if (!c->first)
			c->last = &c->first;
		c->count--;
		pthread_mutex_unlock(&c->lock);
		run_errand(c, e);
		pthread_mutex_lock(&c->lock);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

bool clerk_send(struct clerk *c, struct errand *e)
{
	pthread_mutex_lock(&c->lock);
	bool room = c->count < CLERK_ERRANDS_MAX;
	if (room) {
		e->next = NULL;
		*c->last = e;
		c->last = &e->next;
		c->count++;
		pthread_cond_signal(&c->changed);
	}
	pthread_mutex_unlock(&c->lock);
	return room;
}

int clerk_new(kvd_client *client, struct clerk **clerk, struct err *err)
{
	struct clerk *c = calloc(1, sizeof *c);

	*clerk = NULL;
	if (!c)
		return err_set(err, -1, "out of memory");
	c->client = client;
	c->last = &c->first;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
	int rc = pthread_create(&c->thread, NULL, run, c);
	if (rc) {
		free(c);
		return err_set_errno(err, -1, rc, "can't start a thread");
	}
	*clerk = c;
	return 0;
}

void clerk_delete(struct clerk **clerk)
{
	struct clerk *c = *clerk;

	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	pthread_cond_signal(&c->changed);
	pthread_mutex_unlock(&c->lock);
	pthread_join(c->thread, NULL);
	while (c->first) {
		struct errand *e = c->first;
		c->first = e->next;
		e->result = err_set(&e->why, KVD_ECONNECT, "kvfront is ending");
		mailbox_send(e->box, &e->letter);
	}
	kvd_session_delete(&c->session);
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c);
	*clerk = NULL;
}
