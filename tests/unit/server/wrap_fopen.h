/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wrap_fopen.h -- WRAP_FOPEN and REAL_FOPEN, for one program that is linked with
 * --wrap=fopen,--wrap=fopen64: where files are large, the code calls the second.
 */
#ifndef TESTS_UNIT_SERVER_WRAP_FOPEN_H
#define TESTS_UNIT_SERVER_WRAP_FOPEN_H

#include <stdio.h>

#ifdef __USE_FILE_OFFSET64
#define REAL_FOPEN __real_fopen64
#define WRAP_FOPEN __wrap_fopen64
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode) { return fopen(path, mode); }
#else
#define REAL_FOPEN __real_fopen
#define WRAP_FOPEN __wrap_fopen
#endif
FILE *REAL_FOPEN(const char *path, const char *mode);
FILE *WRAP_FOPEN(const char *path, const char *mode);

#endif
