/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * json.h -- reads JSON as a list of paths and values: {"a": {"b": [1, "x"]}}
 * is a.b.0 = 1, a.b.1 = x.
 */
#ifndef CLIENT_CLI_TEXT_JSON_H
#define CLIENT_CLI_TEXT_JSON_H

#include <stdbool.h>

/*
 * Calls `each` for every number, string, true, false and null, in their order.
 * Strings come without quotes; control characters and \u escapes as '?'.  Longer
 * values are cut at 255 bytes, longer paths and deeper nesting (16) are refused.
 * False if the text is no JSON; `each` has seen what came before then.
 */
bool cli_json_each(const char *json,
		   void (*each)(void *arg, const char *path, const char *value), void *arg);

#endif
