/* SPDX-License-Identifier: BSD-2-Clause */
/* compiler.h -- what C lacks: the object around a member, and whether ThreadSanitizer is on. */
#ifndef COMMON_SOFTVERBS_BASE_COMPILER_H
#define COMMON_SOFTVERBS_BASE_COMPILER_H

#include <stddef.h>

/* A build with ThreadSanitizer, which gcc and clang tell in two ways; SV_NO_TSAN: one that
 * is instrumented like it and has another runtime (tests/sim). */
#if defined(SV_NO_TSAN)
#elif defined(__SANITIZE_THREAD__)
#define SV_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SV_TSAN 1
#endif
#endif

#define SV_CONTAINER(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))

#endif
