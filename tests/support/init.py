"""Process 1 of a sandbox, as Android's init is of a device: sets the mounts up, starts services, reaps the dead.

Run as ``python -m <package>.init FD`` by :class:`~.sandbox.Sandbox`, which talks to it over the socket ``FD``: one JSON
message a packet, file descriptors attached. It ends, and with it every process of the sandbox, when that socket closes.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import traceback
from typing import Any, NoReturn

from . import linux
from .adbd import daemon
from .channel import receive, send

# inet and sdcard_rw, as Android's shell user has them.
SHELL_GROUPS = [3003, 1015]


def mount_step(step: dict[str, Any], root: str = "") -> None:
    """Do one mount of the plan: ``kind``, ``source`` (``inside`` root or the host's), ``target`` (in ``root``), ``flags``."""
    kind, target, flags = step["kind"], root + step["target"], linux.mount_flags(step.get("flags", []))
    if kind == "unmount":
        linux.unmount(target)
    elif kind == "bind":
        source = root + step["source"] if step.get("inside") else step["source"]
        linux.mount(source, target, flags=linux.MS_BIND | linux.MS_REC)
        if flags:
            again = linux.MS_BIND | linux.MS_REMOUNT | flags | linux.inherited_flags(target)
            linux.mount("none", target, flags=again)
    else:
        linux.mount(kind, target, kind, flags, step.get("options", ""))
    for name, content in step.get("write", {}).items():
        with open(f"{target}/{name}", "w", encoding="ascii") as file:
            file.write(content)


def _build_root(plan: dict[str, Any]) -> None:
    linux.mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
    linux.mount(plan["root"], plan["root"], flags=linux.MS_BIND)
    for step in plan["steps"]:
        try:
            mount_step(step, plan["root"])
        except OSError:
            if not step.get("optional"):
                raise
    linux.set_hostname(b"localhost")
    linux.enter_root(plan["root"])
    for path in plan["folders"]:  # a /data of its own begins empty
        os.makedirs(path, exist_ok=True)
    linux.mount("none", "/", flags=linux.MS_BIND | linux.MS_REMOUNT | linux.MS_RDONLY | linux.inherited_flags("/"))
    for path, (uid, gid, mode) in plan["owners"].items():
        with contextlib.suppress(OSError):  # a single mapped user owns everything already
            os.chown(path, uid, gid)
        os.chmod(path, mode)


def become(uid: int) -> None:
    """Drop to ``uid`` and its group; a namespace with one user only has no other to drop to."""
    if uid == 0:
        return
    with contextlib.suppress(OSError):
        os.setgroups(SHELL_GROUPS)
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)


class Init:
    """The loop of process 1."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._status_fds: dict[int, int] = {}  # child pid to the pipe on which its exit status is awaited

    def run(self) -> None:
        """Serve requests and reap children until the channel closes."""
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_read, False)
        os.set_blocking(wake_write, False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        while True:
            ready, _, _ = select.select([self._channel.fileno(), wake_read], [], [])
            if wake_read in ready:
                os.read(wake_read, 4096)
            self._reap()
            if self._channel.fileno() in ready and not self._serve_one():
                return

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            pipe = self._status_fds.pop(pid, None)
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    os.write(pipe, str(os.waitstatus_to_exitcode(status)).encode())
                os.close(pipe)

    def _serve_one(self) -> bool:
        request, fds = receive(self._channel)
        if not request:
            return False
        try:
            answer = self._handle(request, fds)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        for fd in fds:
            if fd not in self._status_fds.values():
                os.close(fd)
        send(self._channel, answer)
        return True

    def _handle(self, request: dict[str, Any], fds: list[int]) -> dict[str, Any]:
        operation = request["op"]
        if operation == "mount":
            mount_step(request["step"])
        elif operation == "kill":
            os.kill(request["pid"], request["signal"])
        elif operation in ("spawn", "adbd"):
            return {"pid": self._fork(request, fds)}
        else:
            raise ValueError(f"unknown request {operation}")
        return {"done": True}

    def _fork(self, request: dict[str, Any], fds: list[int]) -> int:
        """Start what is asked for; returns its number once it runs, raises OSError if the program cannot be executed."""
        failed_read, failed_write = os.pipe()  # closed by a successful exec
        pid = os.fork()
        if pid == 0:
            self._child(request, fds, failed_write)
        self._status_fds[pid] = fds[0]
        os.close(failed_write)
        with open(failed_read, "rb") as failure:
            text = failure.read().decode()
        if text:
            raise OSError(text)
        return pid

    def _child(self, request: dict[str, Any], fds: list[int], failed: int) -> NoReturn:
        code = 127
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            for fd in (self._channel.fileno(), fds[0], *self._status_fds.values()):
                os.close(fd)
            if request["op"] == "adbd":
                become(request["uid"])
                linux.name_process("adbd")
                os.close(failed)
                daemon.run(socket.socket(fileno=fds[1]), socket.socket(fileno=fds[2]), request["settings"])
                code = 0
            else:
                self._exec(request, fds[1:], failed)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    @staticmethod
    def _exec(request: dict[str, Any], fds: list[int], failed: int) -> None:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and children would inherit that
        for target, fd in enumerate(fds):
            os.dup2(fd, target)
        argv = request["argv"]
        try:
            os.chdir(request["cwd"])
            become(request["uid"])
            os.execvpe(argv[0], argv, request["env"])
        except OSError as error:
            os.write(failed, f"{argv}: {error}".encode())


def _namespaces(channel: socket.socket) -> dict[str, Any]:
    """Enter new namespaces and wait until the other side has mapped the users; answers the plan."""
    kinds = linux.CLONE_NEWUSER | linux.CLONE_NEWNS | linux.CLONE_NEWPID | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS
    try:
        linux.unshare(kinds)
    except OSError as error:
        send(channel, {"error": f"{error} (user and mount namespaces)"})
        sys.exit(1)
    send(channel, {"unshared": True})
    return receive(channel)[0]


def main() -> None:
    """Entry point: unshare, fork process 1, stay behind as its parent outside."""
    os.umask(0o022)
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.set_inheritable(False)
    plan = _namespaces(channel)
    if not plan:
        return
    child = os.fork()
    if child:
        send(channel, {"pid": child})
        channel.close()
        os.waitpid(child, 0)
        return
    try:
        linux.die_with_parent(signal.SIGKILL)
        linux.name_process("init")
        _build_root(plan)
    except OSError as error:
        send(channel, {"error": str(error)})
        return
    send(channel, {"ready": True})
    Init(channel).run()


if __name__ == "__main__":
    main()
