/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * leak_roots.h -- in builds with --enable-asan in front of each file (-include): at a program's end
 * LeakSanitizer reads the variables of all libraries but AddressSanitizer's own.  Those are 10 MiB that
 * nobody has touched: a page fault for each of their pages was half of the time that kvcli took.
 *
 * Each file has this; they are weak, so a program has one.
 */
#ifndef TESTS_LIB_LEAK_ROOTS_H
#define TESTS_LIB_LEAK_ROOTS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* configure's own programs */
#endif
#include <link.h>
#include <sanitizer/lsan_interface.h>
#include <stdbool.h>
#include <string.h>

int leak_roots_of(struct dl_phdr_info *object, size_t bytes, void *arg);
void leak_roots_end(void);

__attribute__((weak)) int leak_roots_of(struct dl_phdr_info *object, size_t bytes, void *arg)
{
	(void)bytes, (void)arg;
	if (strstr(object->dlpi_name, "/libasan.so") || strstr(object->dlpi_name, "/libclang_rt.asan"))
		return 0;
	for (unsigned i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];
		if (part->p_type == PT_LOAD && part->p_flags & PF_W)
			__lsan_register_root_region((const void *)(object->dlpi_addr + part->p_vaddr), part->p_memsz);
	}
	return 0;
}

/* Libraries that the program has loaded meanwhile are there, too; leaks are looked for behind this. */
__attribute__((weak, destructor)) void leak_roots_end(void)
{
	static bool is_done;

	if (!is_done)
		dl_iterate_phdr(leak_roots_of, NULL);
	is_done = true;
}

/* LeakSanitizer asks for it. */
__attribute__((weak, visibility("default"))) const char *__lsan_default_options(void)
{
	return "use_globals=0";
}

#endif
