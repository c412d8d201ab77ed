"""The test ssh server and the bad network in front of it, through OpenSSH's own client and paramiko."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest

from tests.support.link import Link
from tests.support.makers import MakeSshd
from tests.support.sandbox import Sandbox
from tests.support.sshd import SshConfig, Sshd

pytest_plugins = ["tests.support.fixtures"]


def ssh(server: Sshd, home: Path, *command: str) -> subprocess.CompletedProcess[bytes]:
    """OpenSSH's client."""
    arguments = ["ssh", *server.client_options(home), server.target, *command]
    return subprocess.run(arguments, capture_output=True, timeout=60, check=False, stdin=subprocess.DEVNULL)


@pytest.fixture
def client(client_home: Path) -> Iterator[paramiko.SSHClient]:
    with paramiko.SSHClient() as opened:
        yield opened


def connect(client: paramiko.SSHClient, server: Sshd, home: Path, *, password: str | None = None, port: int = 0) -> None:
    key = None if password else str(home / ".ssh/id_ed25519")
    client.load_host_keys(str(home / ".ssh/known_hosts"))
    client.connect(
        server.host,
        port or server.port,
        server.user,
        password=password,
        key_filename=key,
        allow_agent=False,
        look_for_keys=False,
        timeout=20,
    )


def test_openssh_runs_commands(sshd: Sshd, client_home: Path) -> None:
    done = ssh(sshd, client_home, "id -un; pwd; getprop ro.soc.model; echo err >&2; exit 5")
    assert (done.returncode, done.stderr) == (5, b"err\n")
    assert done.stdout.decode().split() == [sshd.user, sshd.home, "SM8750"]


@pytest.mark.parametrize("way", ["key", "password"])
def test_paramiko_runs_commands(sshd: Sshd, client_home: Path, client: paramiko.SSHClient, way: str) -> None:
    connect(client, sshd, client_home, password=sshd.password if way == "password" else None)
    stdin, stdout, stderr = client.exec_command("cat; echo err >&2; exit 3")
    stdin.write(b"\0\xff\r\n")
    stdin.channel.shutdown_write()
    assert (stdout.read(), stderr.read(), stdout.channel.recv_exit_status()) == (b"\0\xff\r\n", b"err\n", 3)


def test_files_over_sftp(sshd: Sshd, sandbox: Sandbox, client_home: Path, client: paramiko.SSHClient, tmp_path: Path) -> None:
    source = tmp_path / "it's file"
    source.write_bytes(random.Random(1).randbytes(2_000_000))
    connect(client, sshd, client_home)
    with client.open_sftp() as sftp:
        sftp.put(str(source), source.name)
        sftp.get(f"{sshd.home}/{source.name}", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == source.read_bytes()
    assert sandbox.path(f"{sshd.home}/{source.name}").read_bytes() == source.read_bytes()


@pytest.mark.parametrize("sshd", [SshConfig(sftp=False)], indirect=True)
def test_without_sftp(sshd: Sshd, client_home: Path, client: paramiko.SSHClient) -> None:
    connect(client, sshd, client_home)
    with pytest.raises(paramiko.SSHException):
        client.open_sftp()
    _stdin, stdout, _stderr = client.exec_command("echo still here")
    assert stdout.read() == b"still here\n"


def test_wrong_password(sshd: Sshd, client_home: Path, client: paramiko.SSHClient) -> None:
    with pytest.raises(paramiko.AuthenticationException):
        connect(client, sshd, client_home, password="wrong")
    assert "Failed password" in sshd.log_text()


def test_ways_to_log_in_can_be_closed(make_sshd: MakeSshd, client_home: Path) -> None:
    server = make_sshd(SshConfig(key=False))
    server.write_home(client_home)
    assert b"Permission denied (password)" in ssh(server, client_home, "true").stderr
    server.restart(SshConfig(password=False))
    assert ssh(server, client_home, "true").returncode == 0
    server.write_home(client_home, key=False)
    assert b"Permission denied (publickey)" in ssh(server, client_home, "true").stderr


def test_unknown_and_changed_host_key(make_sshd: MakeSshd, client_home: Path, client: paramiko.SSHClient) -> None:
    server = make_sshd()
    server.write_home(client_home, known=False)
    assert b"Host key verification failed" in ssh(server, client_home, "true").stderr
    with pytest.raises(paramiko.SSHException, match="not found in known_hosts"):
        connect(client, server, client_home)
    server.write_home(client_home)
    assert ssh(server, client_home, "true").returncode == 0
    server.change_host_key()
    assert b"HOST IDENTIFICATION HAS CHANGED" in ssh(server, client_home, "true").stderr
    with pytest.raises(paramiko.BadHostKeyException):
        connect(client, server, client_home)


def test_hangs_and_goes_on(sshd: Sshd, client_home: Path, client: paramiko.SSHClient) -> None:
    connect(client, sshd, client_home)
    sshd.hang()
    with pytest.raises(paramiko.SSHException, match="Timeout"):
        client.exec_command("true", timeout=0.5)
    sshd.resume()
    _stdin, stdout, _stderr = client.exec_command("echo fine", timeout=20)
    assert stdout.read() == b"fine\n"


def test_sessions_drop(sshd: Sshd, client_home: Path, client: paramiko.SSHClient, sandbox: Sandbox) -> None:
    connect(client, sshd, client_home)
    _stdin, stdout, _stderr = client.exec_command("echo started; exec sleep 1000")
    assert stdout.readline() == "started\n"
    sshd.drop_sessions()
    assert stdout.read() == b""
    assert stdout.channel.recv_exit_status() == -1
    assert ssh(sshd, client_home, "echo back").stdout == b"back\n"
    sshd.stop()
    assert sandbox.wait_gone("sleep")


def test_a_link_cuts_stalls_and_slows(sshd: Sshd, client_home: Path, client: paramiko.SSHClient, tmp_path: Path) -> None:
    source = tmp_path / "file"
    source.write_bytes(bytes(1_000_000))
    with Link(sshd.port) as link:
        sshd.write_home(client_home, port=link.port)
        connect(client, sshd, client_home, port=link.port)
        with client.open_sftp() as sftp:
            link.cut_after(300_000)
            with pytest.raises((OSError, EOFError, paramiko.SSHException)):
                sftp.put(str(source), "half")
        connect(client, sshd, client_home, port=link.port)
        with client.open_sftp() as sftp:
            assert (sftp.stat("half").st_size or 0) <= 300_000
            link.stall()
            sftp.sock.settimeout(0.3)
            with pytest.raises((OSError, EOFError)):
                sftp.stat("half")
            link.flow()
        connect(client, sshd, client_home, port=link.port)
        link.bytes_per_s = 2_000_000
        start = time.monotonic()
        with client.open_sftp() as sftp:
            sftp.put(str(source), "whole")
        assert time.monotonic() - start >= 0.4
        link.bytes_per_s = 0
        link.cut(reset=True)
        with pytest.raises((OSError, EOFError, paramiko.SSHException)):
            client.exec_command("true", timeout=10)
        link.lose()
        with pytest.raises((OSError, EOFError, paramiko.SSHException)):
            connect(client, sshd, client_home, port=link.port)
        link.come_back()
        connect(client, sshd, client_home, port=link.port)
