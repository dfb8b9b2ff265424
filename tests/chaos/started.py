"""A command under way: its processes, the moment at which something is done to it, its end."""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import signal
import subprocess
import time

LONGEST_S = 600  # a command that takes longer hangs, on a busy machine too


def children(parent):
    """Processes that `parent` started, in the order in which it did."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # ended meanwhile
        if int(fields[1]) == parent and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return sorted(found)


def working_in(folder):
    """Processes of Weir whose folder is this one, whoever started them."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            here = os.readlink(process / "cwd") == str(folder)
            ours = here and os.readlink(process / "exe").endswith("/weir")
            state = (process / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue  # another user's, or ended
        if ours and state != "Z":
            found.append(int(process.name))
    return found


def is_remark(line):
    """On a busy machine, and on what is learnt there: of no ending."""
    return any(words in line for words in ("oversubscribed", "the machine was disturbed",
                                           "times what its costs forecast",
                                           "training goes on", "has room for",
                                           "these runs teach"))


class Ended:
    """An exit code, or minus the signal that ended it; what was printed; seconds; whether it had
    to be killed because it hung."""

    def __init__(self, code, out, err, seconds, hung=False):
        self.code, self.out, self.err, self.seconds, self.hung = code, out, err, seconds, hung

    def told(self):
        """What Weir said, without remarks on a busy machine."""
        return [line for line in self.err.splitlines()
                if line.startswith("weir: ") and not is_remark(line)]


class Started:
    """A command, started in `folder`; `before` is called in its process before it begins."""

    def __init__(self, line, folder, before=None, stdout=subprocess.PIPE):
        self.began = time.monotonic()
        # In a session of its own: all that it starts can be ended with it.
        self.process = subprocess.Popen(line, cwd=folder, stdout=stdout, stderr=subprocess.PIPE,
                                        stdin=subprocess.DEVNULL, text=True, preexec_fn=before,
                                        start_new_session=True)

    def pid(self):
        return self.process.pid

    def send(self, pid, what):
        """False where it has ended already."""
        if pid == self.process.pid and self.process.poll() is not None:
            return False
        try:
            os.kill(pid, what)
            return True
        except ProcessLookupError:
            return False

    def sleep_until(self, seconds):
        """So long after its start, or until it ends."""
        while self.process.poll() is None:
            left = self.began + seconds - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, 0.01))

    def end(self):
        hung = False
        try:
            out, err = self.process.communicate(timeout=LONGEST_S)
        except subprocess.TimeoutExpired:
            hung = True
            os.killpg(self.process.pid, signal.SIGKILL)
            out, err = self.process.communicate()
        return Ended(self.process.returncode, out or "", err, time.monotonic() - self.began, hung)


def run(line, folder):
    return Started(line, folder).end()
