/* SPDX-License-Identifier: BSD-2-Clause */
/* A client, from beginning to end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/session/client.h"
#include "client/session/device.h"
#include "common/auth/space.h"

#include "config.h"

const char *kvd_version(void)
{
	return PACKAGE_VERSION;
}

const char *kvd_strerror(int result)
{
	static const char *const words[] = {
		"ok",
		"invalid argument",
		"out of memory",
		"not connected",
		"connection lost: the change may have happened",
		"timed out",
		"the table is full",
		"too big",
		"busy",
		"protocol error",
		"no RDMA device",
		"buffer too small",
		"the lock was lost",
		"the value is not a number",
		"the number is out of range",
		"denied",
		"the server's disk is full or broken",
	};

	if (result == KVD_NOT_FOUND)
		return "not found";
	if (result == KVD_CONDITION)
		return "the condition was false";
	if (result > 0 || result < KVD_EDISK)
		return "unknown result";
	return words[-result];
}

#define TIMEOUT_MS_DEFAULT 5000
#define DEPTH_DEFAULT 32
#define DEPTH_MAX 128
#define MIRROR_BYTES_DEFAULT (64ull << 20)
#define ADDRESS_BYTES_MAX 1500u

static int set_options(struct kvd_client *c, const struct kvd_options *options)
{
	struct kvd_options *o = &c->options;

	if (options && (options->size < sizeof options->size || options->size > sizeof *options))
		return err_set(&c->err, KVD_EINVAL,
			       "options.size is %zu: set it to sizeof(struct kvd_options)",
			       options->size);
	if (options)
		memcpy(o, options, options->size);
	if (o->timeout_ms < 0 || o->depth < 0 || o->depth > DEPTH_MAX || o->poll < 0 ||
	    o->poll > KVD_POLL_EVENT || o->get < 0 || o->get > KVD_GET_MESSAGE ||
	    o->spread < 0 || o->spread > KVD_SPREAD_NONE)
		return err_set(
			&c->err, KVD_EINVAL,
			"an option is out of range (timeout_ms >= 0, depth 0 to %d, poll 0 to 2, get and "
			"spread 0 or 1)",
			DEPTH_MAX);
	if (!o->timeout_ms)
		o->timeout_ms = TIMEOUT_MS_DEFAULT;
	if (!o->depth)
		o->depth = DEPTH_DEFAULT;
	if (!o->mirror_bytes)
		o->mirror_bytes = MIRROR_BYTES_DEFAULT;
	return 0;
}

/* As people call it, in what errors say. */
static void name_space(struct addr *addr, const char *suffix)
{
	size_t bytes = strlen(addr->text);

	snprintf(addr->text + bytes, sizeof addr->text - bytes, "%s", suffix);
}

/* The addresses of one of the list: all of its name's. */
static int add_server(struct kvd_client *c, const char *address)
{
	struct addr all[CLIENT_ADDRS_MAX];
	int n = addr_parse_all(all, CLIENT_ADDRS_MAX, address, &c->err);

	if (n < 0)
		return n == ADDR_UNKNOWN ? KVD_ECONNECT : KVD_EINVAL;
	for (int i = 0; i < n; i++) {
		name_space(&all[i], c->route.suffix);
		if (!route_add(&c->route, &all[i]))
			return err_set(&c->err, KVD_EINVAL, "more than %u addresses of servers",
				       ROUTE_MAX);
	}
	return 0;
}

/* One that is not known is left out, if another one is. */
static int add_servers(struct kvd_client *c, char *list)
{
	char *save = NULL;
	int rc = 0;

	c->route.is_list = strchr(list, ',');
	c->route.deals = c->options.spread == KVD_SPREAD_DEALT;
	for (char *one = strtok_r(list, ",", &save); one; one = strtok_r(NULL, ",", &save)) {
		int failed = add_server(c, one);
		if (failed && failed != KVD_ECONNECT)
			return failed;
		rc = failed ? failed : rc;
	}
	if (c->route.count)
		return 0;
	return rc ? rc : err_set(&c->err, KVD_EINVAL, "no server was given");
}

/* Where to, and which of the tables there. */
static int set_server(struct kvd_client *c, const char *server)
{
	const char *name = c->options.namespace_name ? c->options.namespace_name
						     : secure_getenv("KVD_NAMESPACE");
	char address[ADDRESS_BYTES_MAX], space[SPACE_NAME_BYTES_MAX + 1];
	int rc;

	c->options.namespace_name = NULL; /* the caller's memory */
	if (!server)
		return err_set(&c->err, KVD_EINVAL, "no server was given");
	if (space_split(server, address, sizeof address, space, &c->err))
		return KVD_EINVAL;
	if (!*space && name && *name) {
		if (!space_name_is_good(name, strlen(name)))
			return err_set(&c->err, KVD_EINVAL, "'%.80s' is no name of a namespace",
				       name);
		strcpy(space, name);
	}
	if (*space)
		snprintf(c->route.suffix, sizeof c->route.suffix, "/%s", space);
	rc = add_servers(c, address);
	if (rc || !*space)
		return rc;
	if (auth_init())
		return err_set(&c->err, KVD_EDEVICE, "libsodium does not start");
	c->space = space_number(space);
	return 0;
}

/* The device is chosen once: of the other addresses those that are for the same kind. */
static void keep_same_device(struct kvd_client *c, const char *device)
{
	struct route *r = &c->route;
	unsigned kept = 1;

	for (unsigned i = 1; i < r->count; i++) {
		struct device other;
		struct err ignored;
		if (!device_choose(&other, device, &r->of[i], &ignored) &&
		    other.verbs == c->device.verbs)
			r->of[kept++] = r->of[i];
	}
	r->count = kept;
}

/* Who the client is: see kvd.h. */
static int set_credentials(struct kvd_client *c, const char *path)
{
	const char *line = path ? NULL : secure_getenv("KVD_CREDENTIALS");
	int rc = 0;

	if (!path && !line)
		path = secure_getenv("KVD_CREDENTIALS_FILE");
	if ((!path || !*path) && (!line || !*line))
		return 0;
	if (auth_init())
		return err_set(&c->err, KVD_EDEVICE, "libsodium does not start");
	if (line)
		rc = credentials_parse(line, strlen(line), "KVD_CREDENTIALS", &c->credentials,
				       &c->err);
	else
		rc = credentials_load(path, &c->credentials, &c->err);
	c->has_credentials = !rc;
	return rc ? KVD_EINVAL : 0;
}

static uint64_t coarse_tick_ns(void)
{
	struct timespec ts = { 0 };

	clock_getres(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

int kvd_client_new(const char *server, const struct kvd_options *options, kvd_client **client)
{
	struct kvd_client *c = calloc(1, sizeof *c);
	const char *device;
	int rc;

	*client = c;
	if (!c)
		return KVD_ENOMEM;
	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_init(&c->settling, NULL);
	route_init(&c->route);
	c->buffers = buffers_new();
	c->hasher = hasher_new();
	if (!c->buffers || !c->hasher)
		return err_set(&c->err, KVD_ENOMEM, "out of memory");
	rc = set_options(c, options);
	if (rc)
		return rc;
	rc = set_credentials(c, c->options.credentials);
	if (rc)
		return rc;
	device = c->options.device;
	c->options.device = c->options.credentials = NULL; /* the caller's memory */
	rc = set_server(c, server);
	if (rc)
		return rc;
	if (device_choose(&c->device, device, &c->route.of[0], &c->err))
		return KVD_EDEVICE;
	c->verbs = c->device.verbs;
	keep_same_device(c, device);
	c->clock_tick_ns = coarse_tick_ns();
	if (c->options.mirror_bytes != SIZE_MAX)
		c->mirror = mirror_new(c->options.mirror_bytes);
	return KVD_OK;
}

void kvd_client_delete(kvd_client **client)
{
	struct kvd_client *c = *client;

	if (!c)
		return;
	client_leave_devices(c);
	mirror_delete(c->mirror);
	buffers_delete(c->buffers);
	hasher_delete(c->hasher);
	directory_leave(&c->directory);
	auth_wipe(&c->credentials, sizeof c->credentials);
	pthread_mutex_destroy(&c->settling);
	route_fini(&c->route);
	pthread_mutex_destroy(&c->lock);
	free(c);
	*client = NULL;
}

const char *kvd_client_error(const kvd_client *client)
{
	static _Thread_local struct err err;

	if (!client)
		return "out of memory";
	/* Not the client's own words: another thread's session may fail meanwhile. */
	pthread_mutex_lock((pthread_mutex_t *)&client->lock);
	err = client->err;
	pthread_mutex_unlock((pthread_mutex_t *)&client->lock);
	return err.text;
}

const char *kvd_client_device(const kvd_client *client)
{
	return client->device.line;
}
