"""A device with an ssh server, such as Termux runs on a tablet. Never asks anything; an unknown host key is always refused."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kazeia.devices.base import Stream
from kazeia.devices.remote import OPEN_TIMEOUT_S, READ_BYTES, WRITE_TIMEOUT_S, RemoteDevice
from kazeia.devices.shell import quote
from kazeia.errors import DeviceError, UsageError

if TYPE_CHECKING:
    import paramiko

NAME = "ssh"
WORKSPACE = ".kazeia-device"
"""In the home folder of the user."""
DEFAULT_PORT = 22
CONNECT_TIMEOUT_S = 10.0
KEEPALIVE_S = 10
PUSH_ANSWER_TIMEOUT_S = 120.0
BLOCK_BYTES = 1 << 18

_ADDRESS = re.compile(r"(?P<user>[^@\s]+)@(?P<host>\[[^\]\s]+\]|[^:@\s\[\]]+)(:(?P<port>\d{1,5}))?")
_KNOWN_HOSTS = ("~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts")


class SshDevice(RemoteDevice):
    """One login. The connection is made when it is first needed and again after a loss.

    Args:
        address: `USER@HOST` or `USER@HOST:PORT`.

    Raises:
        UsageError: the address is not of that form.
    """

    def __init__(self, address: str, folder: str | None = None) -> None:
        matched = _ADDRESS.fullmatch(address)
        if not matched or not 0 < int(matched["port"] or DEFAULT_PORT) < 65536:
            raise UsageError(f"{NAME}:{address} is not a device; write ssh:USER@HOST or ssh:USER@HOST:PORT")
        super().__init__(f"{NAME}:{address}", folder or WORKSPACE)
        self._user = matched["user"]
        self._host = matched["host"].strip("[]")
        self._port = int(matched["port"] or DEFAULT_PORT)
        self._client: paramiko.SSHClient | None = None

    def open(self, command: str) -> Stream:
        import paramiko

        transport = self._transport()
        try:
            channel = transport.open_session(timeout=OPEN_TIMEOUT_S)
            channel.settimeout(OPEN_TIMEOUT_S)
            channel.exec_command(command)
        except (paramiko.SSHException, EOFError, OSError) as error:
            if isinstance(error, TimeoutError) or "Timeout" in str(error):
                raise self.lost(f"does not answer (waited {OPEN_TIMEOUT_S:.0f} s)") from None
            raise self.lost(f"cannot run a command ({error or 'the connection was closed'})") from None
        return SshStream(self.name, channel)

    def push(self, source: Path, offset: int, size: int, target: str, progress: Callable[[int], None]) -> None:
        # Through a command, not SFTP: small servers have none, and one way is less to go wrong than two.
        with contextlib.closing(self.open(f"exec cat >{quote(target)}")) as stream:
            assert isinstance(stream, SshStream)
            with source.open("rb", buffering=0) as file:
                file.seek(offset)
                left = size
                while left:
                    block = file.read(min(BLOCK_BYTES, left))
                    if not block:
                        raise DeviceError(f"{source} became shorter while it was sent; export the bundle again")
                    stream.write(block)
                    if stream.has_ended():
                        break  # what it says then tells why
                    left -= len(block)
                    progress(len(block))
            self._end_push(stream, target)

    def _end_push(self, stream: SshStream, target: str) -> None:
        stream.end_input()
        deadline = time.monotonic() + PUSH_ANSWER_TIMEOUT_S
        try:
            while stream.read(READ_BYTES, max(deadline - time.monotonic(), 0.001)):
                pass
        except TimeoutError:
            raise self.lost("does not say that a file has arrived") from None
        status, reason = stream.end()
        if status is None:
            raise self.lost("was lost while files were sent")
        if status:
            advice = "free some space on it, or remove older deployments with kz deploy --prune"
            advice = advice if "space" in reason else "choose another folder with --folder"
            raise DeviceError(f"{self.name} cannot write {target}: {reason or f'exit status {status}'}; {advice}")

    def _transport(self) -> paramiko.Transport:
        transport = self._client.get_transport() if self._client else None
        if transport is None or not transport.is_active():
            self._client = self._connect()
            transport = self._client.get_transport()
            assert transport is not None
            transport.set_keepalive(KEEPALIVE_S)
        return transport

    def _connect(self) -> paramiko.SSHClient:
        import paramiko

        logging.getLogger("paramiko").addHandler(logging.NullHandler())  # it would print tracebacks of what is reported here
        client = paramiko.SSHClient()
        client.set_missing_host_key_policy(_RefuseUnknown(self))
        for name in _KNOWN_HOSTS:
            with contextlib.suppress(OSError):
                client.load_system_host_keys(os.path.expanduser(name))
        try:
            client.connect(
                self._host,
                self._port,
                self._user,
                password=os.environ.get("KZ_SSH_PASSWORD"),
                sock=self._connect_socket(),
                timeout=CONNECT_TIMEOUT_S,
                banner_timeout=CONNECT_TIMEOUT_S,
                auth_timeout=CONNECT_TIMEOUT_S,
                channel_timeout=OPEN_TIMEOUT_S,
            )
        except paramiko.BadHostKeyException as error:
            raise DeviceError(self._changed_key(error.key)) from None
        except paramiko.AuthenticationException:
            raise DeviceError(self._login_refused()) from None
        except (paramiko.SSHException, EOFError, OSError) as error:
            if "No authentication methods" in str(error) or "not a valid" in str(error):
                raise DeviceError(self._login_refused()) from None
            raise self.lost(f"does not speak ssh ({error or 'it closed the connection'})") from None
        return client

    def _connect_socket(self) -> socket.socket:
        try:
            connection = socket.create_connection((self._host, self._port), CONNECT_TIMEOUT_S)
        except OSError as error:
            reason = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
            raise DeviceError(
                f"{self.name} cannot be reached ({reason}); check the address and that sshd runs there (Termux: sshd, port 8022)"
            ) from None
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux: a peer that acknowledges nothing is gone after this
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * WRITE_TIMEOUT_S))
        return connection

    def refuse_unknown(self, key: paramiko.PKey) -> DeviceError:
        """An error for a host key that is in no list; names its fingerprint."""
        return DeviceError(
            f"{self.name}: its host key {key.fingerprint} is not known; compare it with the device's, then accept it once with: "
            f"ssh -p {self._port} {quote(f'{self._user}@{self._host}')}"
        )

    def _changed_key(self, key: paramiko.PKey) -> str:
        place = self._host if self._port == DEFAULT_PORT else f"[{self._host}]:{self._port}"
        return (
            f"{self.name}: its host key has changed (now {key.fingerprint}): another machine may answer in its place; "
            f"if it was installed anew, forget the old key with: ssh-keygen -R {quote(place)}"
        )

    def _login_refused(self) -> str:
        if os.environ.get("KZ_SSH_PASSWORD"):
            return f"{self.name} refuses the login: $KZ_SSH_PASSWORD and your keys are wrong; correct it, or run ssh-copy-id"
        return (
            f"{self.name} refuses the login: it knows none of your keys (ssh agent, ~/.ssh/id_*); run ssh-copy-id "
            f"-p {self._port} {quote(f'{self._user}@{self._host}')}, or set $KZ_SSH_PASSWORD"
        )


class _RefuseUnknown:
    """paramiko's policy for unknown hosts: never continue."""

    def __init__(self, device: SshDevice) -> None:
        self._device = device

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        raise self._device.refuse_unknown(key)


class SshStream(Stream):
    """One command's channel."""

    def __init__(self, name: str, channel: paramiko.Channel) -> None:
        self._name = name
        self._channel = channel

    def write(self, data: bytes) -> None:
        self._channel.settimeout(WRITE_TIMEOUT_S)
        try:
            self._channel.sendall(data)
        except TimeoutError:
            raise DeviceError(f"{self._name} takes no data (waited {WRITE_TIMEOUT_S:.0f} s); check the connection") from None
        except (OSError, EOFError):
            return  # the next read tells

    def read(self, size: int, timeout_s: float) -> bytes:
        self._channel.settimeout(timeout_s)
        try:
            data: bytes = self._channel.recv(size)
            return data
        except TimeoutError:
            raise
        except (OSError, EOFError):
            return b""

    def ready(self) -> bool:
        return bool(self._channel.recv_ready() or self._channel.eof_received or self._channel.closed)

    def close(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            self._channel.close()

    def has_ended(self) -> bool:
        """Has the command ended, or the connection?"""
        return bool(self._channel.exit_status_ready() or self._channel.closed)

    def end_input(self) -> None:
        """End the command's stdin; its output goes on."""
        with contextlib.suppress(OSError, EOFError):
            self._channel.shutdown_write()

    def end(self) -> tuple[int | None, str]:
        """Once `read` has met the end: the exit status (None if the connection was lost before), and stderr's last line."""
        known = self._channel.status_event.wait(OPEN_TIMEOUT_S) and self._channel.exit_status >= 0
        lines = []
        if self._channel.recv_stderr_ready():
            lines = self._channel.recv_stderr(READ_BYTES).decode(errors="replace").strip().splitlines()
        return (self._channel.exit_status if known else None), (lines[-1] if lines else "")
