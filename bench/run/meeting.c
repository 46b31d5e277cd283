/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/run/meeting.h"

void meeting_init(struct meeting *m, unsigned expected)
{
	pthread_mutex_init(&m->mutex, NULL);
	pthread_cond_init(&m->all, NULL);
	m->expected = expected;
	m->arrived = 0;
	m->round = 0;
}

void meeting_clear(struct meeting *m)
{
	pthread_cond_destroy(&m->all);
	pthread_mutex_destroy(&m->mutex);
}

void meeting_expect(struct meeting *m, unsigned expected)
{
	pthread_mutex_lock(&m->mutex);
	m->expected = expected;
	pthread_mutex_unlock(&m->mutex);
}

void meeting_wait(struct meeting *m)
{
	unsigned round;

	pthread_mutex_lock(&m->mutex);
	round = m->round;
	if (++m->arrived >= m->expected) {
		m->arrived = 0;
		m->round++;
		pthread_cond_broadcast(&m->all);
	}
	while (round == m->round)
		pthread_cond_wait(&m->all, &m->mutex);
	pthread_mutex_unlock(&m->mutex);
}
