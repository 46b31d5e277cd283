/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/store/place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int place_parse(struct place *place, const char *text, int port_default, struct err *err)
{
	const char *colon = strrchr(text, ':');
	size_t bytes = strlen(text);
	char *end;
	long port = port_default;

	if (strchr(text, '/') != NULL) {
		colon = NULL;
		port = 0;
	} else if (colon != NULL) {
		bytes = (size_t)(colon - text);
		port = strtol(colon + 1, &end, 10);
		if (*end != '\0' || port < 1 || port > 65535)
			return err_set(err, -1, "'%s' is not HOST:PORT", text);
	}
	if (bytes >= sizeof place->host)
		return err_set(err, -1, "'%.40s...' is too long", text);
	snprintf(place->host, sizeof place->host, "%.*s", (int)bytes, text);
	if (bytes == 0)
		snprintf(place->host, sizeof place->host, "127.0.0.1");
	place->port = (int)port;
	if (port == 0)
		snprintf(place->text, sizeof place->text, "%s", place->host);
	else
		snprintf(place->text, sizeof place->text, "%s:%d", place->host, place->port);
	return 0;
}
