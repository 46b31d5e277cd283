/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * preload.h -- what the files of libsoftverbs-preload.so share.
 *
 * The library defines functions of libibverbs and librdmacm.  Each looks whether
 * it is asked about an object of the software device; all else goes to the system's
 * function of the same name.  The symbols have no version, so they satisfy
 * references to any.
 */
#ifndef COMMON_SOFTVERBS_PRELOAD_PRELOAD_H
#define COMMON_SOFTVERBS_PRELOAD_PRELOAD_H

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include "common/softverbs/softverbs.h"

#define EXPORT __attribute__((visibility("default")))

/* The next definition of a symbol after this library's, remembered in *cache. */
void *sv_next_symbol(_Atomic(void *) *cache, const char *name);

/* The system's function of that name. */
#define SYSTEM(name)                                                                          \
	__extension__({                                                                       \
		static _Atomic(void *) cache_;                                                \
		(__typeof__(&name))sv_next_symbol(&cache_, #name);                            \
	})

/*
 * Defines the function `type name params`: where context is the software device's,
 * it is the expression soft, elsewhere the system's function called with args.
 */
#define VERB(type, name, params, args, context, soft)                                         \
	EXPORT type name params                                                               \
	{                                                                                     \
		if (sv_is_soft((context)->device))                                            \
			return soft;                                                          \
		return SYSTEM(name) args;                                                     \
	}
#define VERB_VOID(name, params, args, context, soft)                                          \
	EXPORT void name params                                                               \
	{                                                                                     \
		if (sv_is_soft((context)->device))                                            \
			soft;                                                                 \
		else                                                                          \
			SYSTEM(name) args;                                                    \
	}

/* For what the software device does not have. */
static inline void *sv_no_object(void)
{
	errno = EOPNOTSUPP;
	return NULL;
}

#endif
