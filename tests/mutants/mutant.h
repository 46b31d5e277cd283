/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mutant.h -- one of a build's mutations is on: the one whose number the environment's
 * KVD_MUTANT is.  Included in front of each file of such a build (-include).
 *
 * KVD_MUTANTS_REACHED names a file of a byte a mutation: where a process came by, it is 1.
 * It includes nothing that a file's own macros have a say in.
 */
#if !defined(KVD_MUTANT) && !defined(__ASSEMBLER__) && !defined(__cplusplus)
#define KVD_MUTANT(number) kvd_mutant(number)

#include <sys/syscall.h>

/* One of each for a program, and one for a shared library. */
#define KVD_MUTANT_SHARED __attribute__((weak, visibility("hidden")))
/* Which another thread's change is told to nobody. */
#define KVD_MUTANT_UNSEEN __attribute__((unused, no_sanitize_thread))
#define KVD_MUTANTS_MAX 65536

KVD_MUTANT_SHARED unsigned int kvd_mutant_on;
KVD_MUTANT_SHARED unsigned char *kvd_mutants_reached;
KVD_MUTANT_SHARED int kvd_mutants_read;

extern char *getenv(const char *name);
extern long syscall(long number, ...);

/* Whether it is on; notes who came by. */
static inline KVD_MUTANT_UNSEEN int kvd_mutant(unsigned int number)
{
	unsigned char *reached = kvd_mutants_reached;

	if (reached && !reached[number])
		reached[number] = 1;
	return kvd_mutant_on == number;
}

/* Not the C library's: a test may make that up. */
static inline KVD_MUTANT_UNSEEN long kvd_mutants_call(long number, long a, long b, long c, long d, long e)
{
#ifdef __x86_64__
	register long in_r10 __asm__("r10") = d, in_r8 __asm__("r8") = e, in_r9 __asm__("r9") = 0;
	long result;

	__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(in_r10),
			 "r"(in_r8), "r"(in_r9) : "rcx", "r11", "memory");
	return result;
#else
	return syscall(number, a, b, c, d, e, 0l);
#endif
}

void kvd_mutants_open(void);

/* Each object has it called; the first call does it. */
__attribute__((weak, visibility("hidden"), constructor(101), no_sanitize_thread))
void kvd_mutants_open(void)
{
	const char *number, *path;
	long fd, at;

	if (kvd_mutants_read)
		return;
	kvd_mutants_read = 1;
	number = getenv("KVD_MUTANT");
	for (; number && *number >= '0' && *number <= '9'; number++)
		kvd_mutant_on = kvd_mutant_on * 10 + (unsigned int)(*number - '0');
	path = getenv("KVD_MUTANTS_REACHED");
	/* O_RDWR; PROT_READ and PROT_WRITE, MAP_SHARED. */
	fd = path ? kvd_mutants_call(SYS_openat, -100, (long)path, 2, 0, 0) : -1;
	if (fd < 0)
		return;
	at = kvd_mutants_call(SYS_mmap, 0, KVD_MUTANTS_MAX, 3, 1, fd);
	if (at > 0)
		kvd_mutants_reached = (unsigned char *)at;
	kvd_mutants_call(SYS_close, fd, 0, 0, 0, 0);
}
#endif
