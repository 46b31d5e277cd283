# SPDX-License-Identifier: BSD-2-Clause
"""Types at a shell of kvcli on a terminal of 80 columns; run by kvcli_shell.sh with the
command of that shell."""

import itertools
import os
import pty
import re
import select
import signal
import sys
import time

PATIENCE_S = 60


class Terminal:
    def __init__(self, argv):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            # Whoever started the test in the background had it ignored, and so would the shell.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.environ.update(TERM="dumb", COLUMNS="80", NO_COLOR="1")
            os.execv(argv[0], argv)
        self.text = ""

    def read(self, seconds):
        if select.select([self.fd], [], [], seconds)[0]:
            try:
                self.text += os.read(self.fd, 65536).decode(errors="replace")
                return True
            except OSError:
                return False
        return False

    def interrupt(self, pattern):
        """Ctrl-C, once more after a second: the first may come just before the shell reads."""
        end = time.monotonic() + PATIENCE_S
        while not re.search(pattern, self.text):
            assert time.monotonic() < end, f"no {pattern!r} in {self.text!r}"
            self.type("\x03")
            again = time.monotonic() + 1
            while not re.search(pattern, self.text) and time.monotonic() < again:
                self.read(0.1)
        return self.wait_for(pattern)

    def wait_for(self, pattern):
        """What came until the pattern, which is then taken away."""
        end = time.monotonic() + PATIENCE_S
        while True:
            found = re.search(pattern, self.text)
            if found:
                before, self.text = self.text[: found.end()], self.text[found.end() :]
                return before
            assert time.monotonic() < end, f"no {pattern!r} in {self.text!r}"
            self.read(0.1)

    def type(self, text):
        os.write(self.fd, text.encode())

    def end(self):
        end = time.monotonic() + PATIENCE_S
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            assert time.monotonic() < end, "the shell does not end"
            self.read(0.05)


shell = Terminal(sys.argv[1:])
prompt = r"127\.0\.0\.1:\d+> "
shell.wait_for(prompt)


def answers(line, pattern):
    shell.type(line + "\r")
    shell.wait_for(pattern)
    shell.wait_for(prompt)


def settle():
    """Behind an interrupt: passes over all that it brought, prompts too.  The terminal may throw
    away with it what is typed in the same moment: then that is typed again."""
    end = time.monotonic() + PATIENCE_S
    while True:
        asked = f"get settled{next(settled)}"
        shell.type(f"{asked}\r")
        until = time.monotonic() + 2
        while time.monotonic() < until:
            if re.search(rf"{asked}\r\n\(not found\)\r\n{prompt}", shell.text):
                shell.wait_for(rf"{asked}\r\n\(not found\)\r\n{prompt}")
                return
            shell.read(0.1)
        assert time.monotonic() < end, f"no answer to {asked}: {shell.text!r}"


settled = itertools.count()
answers("put user:ada:name Ada", r"OK\r\n")
answers("put user:bob:name Bob", r"OK\r\n")

# Keys that would need quotes are not offered.
answers('put "user:ada two" x', r"OK\r\n")
answers('put "user:ada\'s" x', r"OK\r\n")

# Tab: a command, a key as far as it is the only one, then the ones that there are, an option.
shell.type("exis\t")
shell.wait_for(r"exists ")
shell.type("user:a\t")
shell.wait_for(r"user:ada:name")
shell.type("\r")
shell.wait_for(r"yes\r\n")
shell.wait_for(prompt)
shell.type("get us\t")
shell.wait_for(r"user:")
shell.type("b\t\r")
shell.wait_for(r"Bob\r\n")
shell.wait_for(prompt)
shell.type("put user:cy Cy --if-a\t")
shell.wait_for(r"--if-absent")
shell.type("\r")
shell.wait_for(r"OK\r\n")
shell.wait_for(prompt)

# A value of two lines, and one that is given up.
shell.type('put poem "roses\r')
shell.wait_for(r"\.\.\. ")
shell.type('violets"\r')
shell.wait_for(r"OK\r\n")
shell.wait_for(prompt)
answers("get poem", r"roses\r\nviolets\r\n")
shell.type("put poem 'gone\r")
shell.wait_for(r"\.\.\. ")
shell.interrupt(prompt)
settle()
answers("get poem", r"roses\r\nviolets\r\n")

# Ctrl-C: the line, then a command that lasts; the shell stays.
shell.type("flush --ye")
shell.wait_for("flush --ye")
shell.interrupt(prompt)
settle()
answers("exists poem", r"yes\r\n")
end = time.monotonic() + PATIENCE_S
while True:  # an interrupt that comes before the command has begun ends the line
    shell.type("ping --count 1000000\r")
    shell.wait_for(r"ping --count 1000000\r\n")
    interrupted = "(interrupted)" in shell.interrupt(prompt)
    settle()
    if interrupted:
        break
    assert time.monotonic() < end, "a command is not interrupted"
answers("exists poem", r"yes\r\n")
shell.type("quit\r")
assert shell.end() == 0
print("ok")
