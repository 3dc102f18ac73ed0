"""The keeper: a small process that is the parent of a control plane's components and never outlives its own parent.

It starts what it is told to, reports who exits, and when its parent closes the pipe or dies (SIGKILL included) it stops
everything, removes what it was told to remove, and goes. `processes.Keeper` runs it by path with nothing but the
standard library, so it starts in some 20 ms and imports nothing that could fail.

It reads JSON lines on stdin: {"start": name, "argv": [...], "log": path}, {"remove": [paths]}. It writes JSON lines on
stdout: {"started": name, "pid": n}, {"failed": name, "why": text}, {"exited": name, "code": n}.

Three things keep processes from being left behind: end of file on stdin; a look at the parent's pid every second, in
case a forked copy of the parent still holds the pipe; and, should the keeper itself be killed, the death signal that
every component asks the kernel for (Linux; the keeper has one thread, so "parent thread" and "parent" are the same).
"""

import contextlib
import ctypes
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time

GRACE_SECONDS = 5.0
PR_SET_PDEATHSIG = 1


class Keeper:
    """The components, in starting order, and what to do at the end."""

    def __init__(self) -> None:
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.remove: list[str] = []
        self.prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None

    def carry_out(self, line: bytes) -> None:
        order = json.loads(line)
        if "remove" in order:
            self.remove = order["remove"]
            return
        name = order["start"]
        try:
            with open(order["log"], "ab") as log:  # noqa: PTH123 - the standard library's quickest imports only
                child = subprocess.Popen(  # noqa: S603
                    order["argv"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=self.before_exec
                )
        except OSError as error:
            tell(failed=name, why=str(error))
            return
        self.running[name] = child
        tell(started=name, pid=child.pid)

    def before_exec(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if self.prctl:
            self.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    def reap(self) -> None:
        for name, child in list(self.running.items()):
            code = child.poll()
            if code is not None:
                del self.running[name]
                tell(exited=name, code=code)

    def stop(self) -> None:
        """Stop everything, the last one started first, the data store last of all; then whatever is left, by force."""
        names = list(self.running)
        for group in (names[1:], names[:1]):
            children = [self.running[name] for name in reversed(group)]
            for child in children:
                child.terminate()
            deadline = time.monotonic() + GRACE_SECONDS
            for child in children:
                try:
                    child.wait(max(0.0, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()
        for path in self.remove:
            if os.path.isdir(path):  # noqa: PTH112
                shutil.rmtree(path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(path)  # noqa: PTH108


def tell(**event: object) -> None:
    with contextlib.suppress(BrokenPipeError):  # nobody is left to be told
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()


def main() -> None:
    keeper = Keeper()
    parent = os.getppid()
    # A terminal's Ctrl-C is for the parent: it decides, and closes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    selector = selectors.DefaultSelector()
    selector.register(0, selectors.EVENT_READ)
    selector.register(wake_read, selectors.EVENT_READ)
    pending = b""
    while os.getppid() == parent:
        ready = {key.fd for key, _ in selector.select(timeout=1.0)}
        if wake_read in ready:
            os.read(wake_read, 4096)
        if 0 in ready:
            data = os.read(0, 65536)
            if not data:
                break
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                keeper.carry_out(line)
        keeper.reap()
    keeper.stop()
    # Children of children share this process group; nothing of it stays.
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    main()
