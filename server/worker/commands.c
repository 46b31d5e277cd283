/* SPDX-License-Identifier: BSD-2-Clause */
#include "server/worker/commands.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/log.h"

int commands_init(struct commands *c)
{
	pthread_mutex_init(&c->lock, NULL);
	c->first = NULL;
	c->end = &c->first;
	c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return c->wake_fd < 0 ? errno : 0;
}

void commands_fini(struct commands *c)
{
	if (c->wake_fd >= 0)
		close(c->wake_fd);
	pthread_mutex_destroy(&c->lock);
}

void commands_wake(struct commands *c)
{
	atomic_store(&c->poked, true);
	if (eventfd_write(c->wake_fd, 1))
		log_error("can't wake a worker: %s", strerror(errno));
}

bool commands_post(struct commands *c, const struct command *m)
{
	struct command *copy = malloc(sizeof *copy);

	if (!copy)
		return false;
	*copy = *m;
	copy->next = NULL;
	pthread_mutex_lock(&c->lock);
	*c->end = copy;
	c->end = &copy->next;
	pthread_mutex_unlock(&c->lock);
	commands_wake(c);
	return true;
}

struct command *commands_take(struct commands *c)
{
	pthread_mutex_lock(&c->lock);
	struct command *first = c->first;
	c->first = NULL;
	c->end = &c->first;
	pthread_mutex_unlock(&c->lock);
	return first;
}

void commands_post_all(const struct commands_all *all, const struct command *m)
{
	for (unsigned i = 0; i < all->count; i++)
		if (!commands_post(all->of[i], m))
			log_error("out of memory: a worker is not told what to do");
}

void commands_wake_all(const struct commands_all *all)
{
	for (unsigned i = 0; i < all->count; i++)
		commands_wake(all->of[i]);
}

void commands_trim_all(const struct commands_all *all)
{
	for (unsigned i = 0; i < all->count; i++)
		atomic_store(&all->of[i]->trim, true);
	commands_wake_all(all);
}
