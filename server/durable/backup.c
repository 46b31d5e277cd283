/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A backup is made by a thread of its own, because on another file system it copies
 * everything; on the same one it is links, and takes a moment.  One at a time.
 */
#include "server/durable/backup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "server/durable/db.h"
#include "server/durable/impl.h"

static void *run(void *arg)
{
	struct durable *d = arg;
	struct backup *b = &d->backup;
	struct err err;
	int rc;

	pthread_rwlock_rdlock(&d->db_lock);
	rc = db_checkpoint(d->db, b->path, &err);
	pthread_rwlock_unlock(&d->db_lock);
	double s = (double)(clock_ns() - b->begun_ns) / 1e9;
	if (rc)
		log_error("backup: %s", err.text);
	else
		log_info("backup of all changes until now in %s, made in %.2f s", b->path, s);
	pthread_mutex_lock(&b->lock);
	b->is_running = false;
	b->is_failed = rc != 0;
	if (rc)
		snprintf(b->text, sizeof b->text, "%s", err.text);
	else
		snprintf(b->text, sizeof b->text, "%s made in %.2f s", b->path, s);
	pthread_mutex_unlock(&b->lock);
	return NULL;
}

/* Whether the folder is there that the backup's is to be made in; its name in `parent`. */
static bool has_parent(const char *path, char *parent, size_t parent_bytes)
{
	struct stat st;

	snprintf(parent, parent_bytes, "%s", path);
	for (size_t n = strlen(parent); n > 1 && parent[n - 1] == '/';)
		parent[--n] = '\0';
	char *slash = strrchr(parent, '/');
	slash[slash == parent] = '\0';
	return stat(parent, &st) == 0 && S_ISDIR(st.st_mode);
}

/* What is wrong with it, or NULL. */
static const char *check_path(const char *path, char *text, size_t text_bytes)
{
	char parent[sizeof ((struct backup *)0)->path];

	if (path[0] != '/')
		snprintf(text, text_bytes, "%s: the folder is one of kvd's machine, so name it from / on",
			 path);
	else if (strlen(path) >= sizeof ((struct backup *)0)->path)
		snprintf(text, text_bytes, "the path is too long");
	else if (access(path, F_OK) == 0)
		snprintf(text, text_bytes, "%s is there already: name a new folder", path);
	else if (!has_parent(path, parent, sizeof parent))
		snprintf(text, text_bytes, "%s: there is no folder %s on kvd's machine: make it first",
			 path, parent);
	else
		return NULL;
	return text;
}

/* Caller: has the backup's lock. */
static enum durable_backup begin(struct durable *d, const char *path, char *text,
				 size_t text_bytes)
{
	struct backup *b = &d->backup;

	if (check_path(path, text, text_bytes))
		return BACKUP_FAILED;
	if (b->has_thread)
		pthread_join(b->thread, NULL);
	snprintf(b->path, sizeof b->path, "%s", path);
	snprintf(text, text_bytes, "%s is being made", path);
	b->begun_ns = clock_ns();
	b->is_running = true;
	int rc = pthread_create(&b->thread, NULL, run, d);
	b->has_thread = !rc;
	if (!rc)
		return BACKUP_RUNNING;
	b->is_running = false;
	b->path[0] = '\0';
	snprintf(text, text_bytes, "can't start a thread: %s", strerror(rc));
	return BACKUP_FAILED;
}

enum durable_backup durable_backup(struct durable *d, const char *path, char *text,
				   size_t text_bytes)
{
	struct backup *b = &d->backup;
	enum durable_backup result;

	pthread_mutex_lock(&b->lock);
	if (b->is_running) {
		bool mine = !strcmp(path, b->path);
		snprintf(text, text_bytes, mine ? "%s is being made" : "another backup is being made: %s",
			 b->path);
		result = mine ? BACKUP_RUNNING : BACKUP_FAILED;
	} else if (b->path[0] && !strcmp(path, b->path)) {
		/* Told once: the next of this path is another. */
		snprintf(text, text_bytes, "%s", b->text);
		result = b->is_failed ? BACKUP_FAILED : BACKUP_DONE;
		b->path[0] = '\0';
	} else {
		result = begin(d, path, text, text_bytes);
	}
	pthread_mutex_unlock(&b->lock);
	return result;
}
