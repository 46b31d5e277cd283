# SPDX-License-Identifier: BSD-2-Clause
"""Runs a command on a terminal; run by kvcli_bar.sh, as kvcli_bar.py STATUS REGEX COMMAND...
The terminal's text has to match, the command to end with the status."""

import os
import pty
import re
import sys

status, pattern, argv = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
pid, fd = pty.fork()
if pid == 0:
    os.environ.update(TERM="dumb", COLUMNS="80", NO_COLOR="1")
    os.execv(argv[0], argv)
text = b""
while True:
    try:
        some = os.read(fd, 65536)
    except OSError:  # it has ended
        break
    if not some:
        break
    text = text[-100000:] + some
ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
if ended != status or not re.search(pattern.encode(), text):
    sys.exit(f"{argv[1:]} ended with {ended}: no {pattern!r} in {text[:2000]!r}")
