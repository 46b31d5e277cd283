/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/format/outfile.h"

#include <errno.h>
#include <stdbool.h>

int outfile_open(struct outfile *out, const char *path, struct err *err)
{
	out->path = path;
	out->file = fopen(path, "we");
	if (out->file == NULL)
		return err_set_errno(err, -1, errno, "cannot write %s", path);
	return 0;
}

int outfile_close(struct outfile *out, struct err *err)
{
	bool wrong = ferror(out->file);

	errno = 0;
	if (fclose(out->file) != 0 || wrong)
		return err_set_errno(err, -1, errno != 0 ? errno : EIO,
				     "cannot write all of %s", out->path);
	return 0;
}
