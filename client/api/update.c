/* SPDX-License-Identifier: BSD-2-Clause */
/* A value read, changed by the caller and written, under its key's lock. */
#include <stdlib.h>

#include "client/kvd.h"
#include "client/session/session.h"
#include "common/err.h"

int kvd_update(kvd_session *s, const void *key, size_t key_bytes,
	       int (*change)(void *arg, void *value, size_t *value_bytes), void *arg,
	       size_t value_bytes_max, int timeout_ms)
{
	kvd_lock_t *lock;
	size_t bytes = 0;
	void *value = malloc(value_bytes_max ? value_bytes_max : 1);
	int rc, verdict;

	if (!value)
		return err_set(session_err(s), KVD_ENOMEM, "out of memory");
	rc = kvd_lock_get(s, key, key_bytes, timeout_ms, value, value_bytes_max, &bytes, NULL,
			  &lock);
	if (rc == KVD_NOT_FOUND)
		bytes = SIZE_MAX;
	if (rc == KVD_OK || rc == KVD_NOT_FOUND) {
		verdict = change(arg, value, &bytes);
		rc = KVD_OK;
		if (verdict == 0 && bytes == SIZE_MAX)
			rc = kvd_locked_del(lock, key, key_bytes);
		else if (verdict == 0)
			rc = kvd_locked_put(lock, key, key_bytes, value, bytes, NULL);
		if (rc == KVD_NOT_FOUND)
			rc = KVD_OK;
		if (verdict)
			rc = KVD_CONDITION;
	}
	if (rc >= 0 || lock)
		kvd_unlock(&lock);
	free(value);
	return rc;
}
