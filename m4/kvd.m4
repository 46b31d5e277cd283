# SPDX-License-Identifier: BSD-2-Clause

# KVD_REQUIRE(VARIABLE, MODULE, DEBIAN-PACKAGE, FEDORA-PACKAGE)
# Looks for a library that must be there. What is missing is told at the end,
# all at once, by KVD_REQUIRE_DONE.
AC_DEFUN([KVD_REQUIRE], [
AC_REQUIRE([PKG_PROG_PKG_CONFIG])
AS_IF([test -z "$PKG_CONFIG"],
	[AC_MSG_ERROR([pkg-config is missing: package pkg-config (Debian, Ubuntu) or pkgconf-pkg-config (Fedora)])])
PKG_CHECK_MODULES([$1], [$2], [], [
	kvd_missing="$kvd_missing
  $2: $3 (Debian, Ubuntu) or $4 (Fedora)"
	kvd_missing_debian="$kvd_missing_debian $3"
	kvd_missing_fedora="$kvd_missing_fedora $4"
])
])

# KVD_OPTIONAL(VARIABLE, NAME, MODULE, WHAT-FOR, DEBIAN-PACKAGE, FEDORA-PACKAGE)
# --with-NAME=auto|yes|no. Sets with_NAME to yes or no, and with_NAME_why for
# the summary.
AC_DEFUN([KVD_OPTIONAL], [
AC_ARG_WITH([$2], [AS_HELP_STRING([--with-$2=auto|yes|no], [$4; default: auto])],
	[], [with_$2=auto])
AS_CASE([$with_$2], [auto|yes|no], [],
	[AC_MSG_ERROR([--with-$2: '$with_$2' is none of auto, yes, no])])
with_$2_why="$with_$2"
AS_IF([test "$with_$2" != no], [
	PKG_CHECK_MODULES([$1], [$3], [
		with_$2=yes
		with_$2_why=yes
	], [
		AS_IF([test "$with_$2" = yes], [
			kvd_missing="$kvd_missing
  $3 (--with-$2): $5 (Debian, Ubuntu) or $6 (Fedora)"
			kvd_missing_debian="$kvd_missing_debian $5"
			kvd_missing_fedora="$kvd_missing_fedora $6"
		])
		with_$2=no
		with_$2_why="no; for it install $5 (Debian, Ubuntu) or $6 (Fedora): $3"
	])
])
])

# KVD_OPTIONAL_LIB(VARIABLE, NAME, LIBRARY, FUNCTION, HEADER, WHAT-FOR, DEBIAN-PACKAGE)
# The same for a library that pkg-config doesn't know.
AC_DEFUN([KVD_OPTIONAL_LIB], [
AC_ARG_WITH([$2], [AS_HELP_STRING([--with-$2=auto|yes|no], [$6; default: auto])],
	[], [with_$2=auto])
AS_CASE([$with_$2], [auto|yes|no], [],
	[AC_MSG_ERROR([--with-$2: '$with_$2' is none of auto, yes, no])])
with_$2_why="$with_$2"
$1_LIBS=
AS_IF([test "$with_$2" != no], [
	kvd_found=no
	AC_CHECK_HEADER([$5], [AC_CHECK_LIB([$3], [$4], [kvd_found=yes])])
	AS_IF([test "$kvd_found" = yes], [
		$1_LIBS="-l$3"
		with_$2_why=yes
	], [
		AS_IF([test "$with_$2" = yes], [
			kvd_missing="$kvd_missing
  $3 (--with-$2): $7 (Debian, Ubuntu)"
			kvd_missing_debian="$kvd_missing_debian $7"
		])
		with_$2_why="no; for it install $7 (Debian, Ubuntu)"
	])
	with_$2=$kvd_found
])
AC_SUBST([$1_LIBS])
])

AC_DEFUN([KVD_REQUIRE_DONE], [
AS_IF([test -n "$kvd_missing"], [AC_MSG_ERROR([these libraries are missing:
$kvd_missing

On Debian and Ubuntu:  apt-get install$kvd_missing_debian
On Fedora:             dnf install$kvd_missing_fedora])])
])

# KVD_PYTHONDIR: sets with_pythondir to the folder of Python modules below the prefix, or to no.
AC_DEFUN([KVD_PYTHONDIR], [
AC_PATH_PROG([PYTHON3], [python3])
with_pythondir=no
AS_IF([test -n "$PYTHON3"], [
	kvd_folder=`"$PYTHON3" -c 'import sysconfig
print("/".join(sysconfig.get_path("purelib").split("/")@<:@-3:@:>@))' 2>/dev/null`
	AS_CASE([$kvd_folder], [lib/python*/*-packages], [with_pythondir='${prefix}'/$kvd_folder])
])
])

# KVD_WARNINGS: sets WARN_CFLAGS.
AC_DEFUN([KVD_WARNINGS], [
WARN_CFLAGS="-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
-Wpointer-arith -Wvla -Wundef -Wwrite-strings -Wold-style-definition"
AS_IF([test "$enable_werror" = yes], [WARN_CFLAGS="$WARN_CFLAGS -Werror"])
AC_SUBST([WARN_CFLAGS])
])

# KVD_SANITIZERS: sets SAN_CFLAGS, for compiling and for linking, and SAN_LDFLAGS.
AC_DEFUN([KVD_SANITIZERS], [
AS_IF([test "$enable_asan$enable_tsan" = yesyes],
	[AC_MSG_ERROR([--enable-asan and --enable-tsan exclude each other])])
AS_IF([test "$enable_asan" = yes],
	[SAN_CFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer"
	SAN_CFLAGS="$SAN_CFLAGS -include $srcdir/tests/lib/leak_roots.h -include $srcdir/tests/lib/lock_check.h"])
dnl RocksDB frees in its constructors. A runtime within the program, as is clang's own way, is behind the
dnl library's jemalloc; one that is a library is before it, as gcc's.
SAN_LDFLAGS=
AS_IF([test "$enable_asan" = yes && $CC -dM -E - </dev/null 2>/dev/null | grep -q __clang__],
	[SAN_CFLAGS="$SAN_CFLAGS -shared-libasan"
	SAN_LDFLAGS="-Wl,-rpath,`$CC -print-resource-dir`/lib/linux"])
AS_IF([test "$enable_tsan" = yes],
	[SAN_CFLAGS="-fsanitize=thread -fno-omit-frame-pointer"])
AS_IF([test "$enable_fuzz" = yes],
	[SAN_CFLAGS="-fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined -fno-omit-frame-pointer"
	FUZZ_LDFLAGS="-fsanitize=fuzzer"])
AC_SUBST([FUZZ_LDFLAGS])
AM_CONDITIONAL([FUZZ], [test "$enable_fuzz" = yes])
AS_IF([test -n "$SAN_CFLAGS"], [
	AC_MSG_CHECKING([whether $CC links with $SAN_CFLAGS])
	kvd_cflags="$CFLAGS"
	CFLAGS="$CFLAGS $SAN_CFLAGS $SAN_LDFLAGS"
	AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [AC_MSG_RESULT([yes])], [
		AC_MSG_RESULT([no])
		AC_MSG_ERROR([the sanitizers' libraries are missing: libclang-rt-dev (Debian, Ubuntu; for gcc \
they come with it) or libasan libubsan libtsan compiler-rt (Fedora)])
	])
	CFLAGS="$kvd_cflags"
])
dnl gcc says that TSan does not see fences; that is known.
AS_IF([test "$enable_tsan" = yes && test "$GCC" = yes && $CC -Wno-tsan -Werror -E - </dev/null >/dev/null 2>&1],
	[WARN_CFLAGS="$WARN_CFLAGS -Wno-tsan"])
AC_SUBST([SAN_CFLAGS])
AC_SUBST([SAN_LDFLAGS])
AM_CONDITIONAL([SANITIZERS], [test -n "$SAN_CFLAGS"])
])
