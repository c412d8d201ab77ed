"""A real OpenSSH server in a sandbox, as Termux runs it on a tablet: one user, whose home is the workspace.

::

    with Sandbox(tmp_path / "device") as sandbox, Sshd(sandbox) as server:
        server.write_home(home)  # known_hosts and a key for a client whose HOME it is
        subprocess.run(["ssh", *server.client_options(home), server.target, "id"])

The user's password and key work; the sandbox's own users are all it knows, so none of the host's accounts is involved.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from .layout import ENVIRONMENT, SSH_HOME, SSH_UID, SSH_USER
from .needs import program, unavailable
from .sandbox import ROOT_UID, Process, Sandbox

PASSWORD = "clavier-tablette"
_PASSWORD_HASH = "$6$kazeia$moZLfiw3u6NjJWGrPXvBOMvZs0hfnMq9F1xYsx9tHp09DUZAvfXRQwPC7/lquzkhePeFF8v3rbsNc5W/upXge0"

_CONFIG = """
Port {port}
ListenAddress 127.0.0.1
HostKey /etc/ssh/{host_key}
PidFile none
UsePAM no
UseDNS no
StrictModes no
PermitRootLogin no
KbdInteractiveAuthentication no
PasswordAuthentication {password}
PubkeyAuthentication {key}
MaxAuthTries 6
MaxStartups 50
PrintMotd no
LogLevel VERBOSE
SetEnv {environment}
{subsystem}
"""


@dataclass(frozen=True)
class SshConfig:
    """``sftp``: whether the server has that subsystem. ``password``, ``key``: which ways to log in it takes."""

    sftp: bool = True
    password: bool = True
    key: bool = True


def generate_key(path: Path, comment: str) -> str:
    """Make an ed25519 key pair at ``path`` and ``path``.pub; answers the public line."""
    path.unlink(missing_ok=True)
    command = [program("ssh-keygen", "openssh-client"), "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=30)
    return path.with_name(path.name + ".pub").read_text(encoding="ascii").strip()


class Sshd:
    """A server on ``127.0.0.1:port``. ``user`` logs in with ``password`` or with the key that :meth:`write_home` gives."""

    user = SSH_USER
    password = PASSWORD
    home = SSH_HOME

    def __init__(self, sandbox: Sandbox, config: SshConfig | None = None) -> None:
        self.sandbox = sandbox
        self.config = config or SshConfig()
        self.port = 0
        self.host_key = ""
        self._process: Process | None = None
        self._folder = sandbox.folder.resolve() / "etc/ssh"
        self.log = self._folder / "sshd.log"
        self._client_key = self._folder / "client"

    @property
    def host(self) -> str:
        """The address."""
        return "127.0.0.1"

    @property
    def target(self) -> str:
        """``user@host``, for ssh's command line."""
        return f"{self.user}@{self.host}"

    def __enter__(self) -> Sshd:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Make what is missing (keys, account, port) and start the server; skips the test where there is none."""
        program("sshd", "openssh-server")
        if os.geteuid() != 0:
            unavailable("the ssh server separates privileges between users, which only root can map into a sandbox")
        if not self.host_key:
            self.host_key = generate_key(self._folder / "host", "host")
        if not self._client_key.exists():
            self._make_account()
        if not self.port:
            with socket.create_server((self.host, 0)) as probe:
                self.port = probe.getsockname()[1]
        self._write_config()
        with self.log.open("ab") as log:
            command = ["/usr/sbin/sshd", "-D", "-e", "-f", "/etc/ssh/sshd_config"]
            self._process = self.sandbox.spawn(command, uid=ROOT_UID, stdout=log.fileno(), stderr=log.fileno())
        self._wait_listening()

    def _make_account(self) -> None:
        shadow = self.sandbox.folder.resolve() / "etc/shadow"
        shadow.write_text(f"root:*:19000::::::\nshell:*:19000::::::\n{self.user}:{_PASSWORD_HASH}:19000::::::\n")
        shadow.chmod(0o600)
        public = generate_key(self._client_key, "client")
        folder = self.sandbox.path(self.home) / ".ssh"
        folder.mkdir(exist_ok=True)
        (folder / "authorized_keys").write_text(public + "\n", encoding="ascii")
        for path in (folder, folder / "authorized_keys"):
            os.chown(path, SSH_UID, SSH_UID)

    def _write_config(self) -> None:
        answers = {False: "no", True: "yes"}
        environment = {**ENVIRONMENT, "HOME": self.home, "USER": self.user, "LOGNAME": self.user}
        del environment["TMPDIR"]
        text = _CONFIG.format(
            port=self.port,
            host_key="host",
            password=answers[self.config.password],
            key=answers[self.config.key],
            environment=" ".join(f"{name}={value}" for name, value in environment.items()),
            subsystem="Subsystem sftp internal-sftp" if self.config.sftp else "",
        )
        (self._folder / "sshd_config").write_text(text, encoding="ascii")

    def _wait_listening(self) -> None:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            assert self._process is not None
            with contextlib.suppress(TimeoutError):
                self._process.wait(0.01)
                break
            with contextlib.suppress(OSError), socket.create_connection((self.host, self.port), timeout=1) as sock:
                if sock.recv(4) == b"SSH-":
                    return
        unavailable(f"sshd did not start: {self.log.read_text(errors='replace')[-500:]}")

    def stop(self) -> None:
        """End the server and all that its user runs; idempotent."""
        if self._process is not None:
            self._signal(signal.SIGKILL, [*self._pids(), *self._users_pids()])
            self._process.wait(10)
            self._process = None

    def restart(self, config: SshConfig | None = None) -> None:
        """Stop and start on the same port, with another configuration if given."""
        self.stop()
        self.config = config or self.config
        self.start()

    def change_host_key(self) -> None:
        """Become another machine on the same address, as far as a client can tell."""
        self.host_key = ""
        self.restart()

    def _pids(self) -> list[int]:
        return [pid for pid, arguments in self.sandbox.processes() if arguments[0].startswith(("sshd:", "/usr/sbin/sshd"))]

    def _users_pids(self) -> list[int]:
        folder = self.sandbox.path("/proc")
        found = []
        for pid, _arguments in self.sandbox.processes():
            with contextlib.suppress(OSError):
                if (folder / str(pid)).stat().st_uid == SSH_UID:
                    found.append(pid)
        return found

    def _signal(self, number: int, pids: list[int]) -> None:
        for pid in pids:
            with contextlib.suppress(RuntimeError):
                self.sandbox.request({"op": "kill", "pid": pid, "signal": number})

    def drop_sessions(self) -> None:
        """Cut every connection; the server goes on. Programs without a terminal live until they notice, as ever with sshd."""
        own = self._process.pid if self._process is not None else 0
        self._signal(signal.SIGKILL, [pid for pid in self._pids() if pid != own])

    def hang(self) -> None:
        """Stop answering while connections stay open, until :meth:`resume`."""
        stopped: set[int] = set()
        while new := set(self._pids()) - stopped:  # one may have forked before its own signal came
            self._signal(signal.SIGSTOP, sorted(new))
            stopped |= new

    def resume(self) -> None:
        """Undo :meth:`hang`."""
        self._signal(signal.SIGCONT, self._pids())

    def known_hosts(self, port: int | None = None) -> str:
        """The line of a client's known_hosts file for this server, seen through ``port`` (a :class:`~.link.Link`'s)."""
        kind, key, *_comment = self.host_key.split()
        return f"[{self.host}]:{port or self.port} {kind} {key}\n"

    def write_home(self, home: Path, *, known: bool = True, key: bool = True, port: int | None = None) -> None:
        """Fill ``home``/.ssh: the server's key in known_hosts if ``known``, the user's own key if ``key``."""
        folder = home / ".ssh"
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        (folder / "known_hosts").write_text(self.known_hosts(port) if known else "", encoding="ascii")
        target = folder / "id_ed25519"
        target.unlink(missing_ok=True)
        if key:
            target.write_bytes(self._client_key.read_bytes())
            target.chmod(0o600)

    def client_options(self, home: Path, port: int | None = None) -> list[str]:
        """Options for OpenSSH's own client, which would look in the account's home otherwise: it ignores ``HOME``."""
        folder = home / ".ssh"
        options = {
            "UserKnownHostsFile": folder / "known_hosts",
            "IdentityFile": folder / "id_ed25519",
            "IdentitiesOnly": "yes",
            "BatchMode": "yes",
            "Port": port or self.port,
        }
        return ["-F", "/dev/null", *(f'-o{name}="{value}"' for name, value in options.items())]

    def log_text(self) -> str:
        """What the server logged so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")
