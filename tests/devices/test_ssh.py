"""Logging in over ssh, with a real OpenSSH server: nothing is asked, and host keys are always checked."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from kazeia.devices import ssh
from kazeia.devices.ssh import SshDevice
from kazeia.errors import DeviceError, UsageError
from tests.support.adb import free_port
from tests.support.command import Kz
from tests.support.fixtures import MakeSshd
from tests.support.link import Link
from tests.support.sshd import SshConfig, Sshd


def device(server: Sshd, port: int | None = None) -> SshDevice:
    return SshDevice(f"{server.target}:{port or server.port}")


def login_error(server: Sshd) -> str:
    with pytest.raises(DeviceError) as caught:
        device(server).run("true")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_known_host_and_a_key_of_ours(sshd: Sshd) -> None:
    assert device(sshd).run("id -un; pwd").stdout.split() == [sshd.user, sshd.home]


def test_an_unknown_host_key_is_refused_with_its_fingerprint(sshd: Sshd, client_home: Path, kz: Kz, fake_bundle: Path) -> None:
    sshd.write_home(client_home, known=False)
    public = sshd.sandbox.folder / "etc/ssh/host.pub"
    fingerprint = subprocess.run(["ssh-keygen", "-lf", public], capture_output=True, text=True, check=True).stdout.split()[1]
    message = (
        f"ssh:{sshd.target}:{sshd.port}: its host key {fingerprint} is not known; compare it with the device's, then accept it "
        f"once with: ssh -p {sshd.port} {sshd.target}"
    )
    assert login_error(sshd) == message
    assert kz.fails("deploy", fake_bundle, "--device", f"ssh:{sshd.target}:{sshd.port}") == f"kz: {message}"
    assert (client_home / ".ssh/known_hosts").read_text() == "", "nothing is accepted behind the user's back"
    assert "Accepted" not in sshd.log_text()


def test_a_changed_host_key_is_refused(sshd: Sshd) -> None:
    sshd.change_host_key()
    message = login_error(sshd)
    assert "its host key has changed (now SHA256:" in message
    assert "another machine may answer in its place" in message
    assert message.endswith(f"ssh-keygen -R '[127.0.0.1]:{sshd.port}'")
    assert "Accepted" not in sshd.log_text()


def test_a_password_from_the_environment(sshd: Sshd, client_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sshd.write_home(client_home, key=False)
    monkeypatch.setenv("KZ_SSH_PASSWORD", sshd.password)
    assert device(sshd).run("echo in").stdout == "in\n"


def test_a_wrong_password(sshd: Sshd, client_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sshd.write_home(client_home, key=False)
    monkeypatch.setenv("KZ_SSH_PASSWORD", "wrong")
    assert "refuses the login: $KZ_SSH_PASSWORD and your keys are wrong" in login_error(sshd)
    assert "wrong" not in login_error(sshd).replace("are wrong", "")


def test_no_key_and_no_password(sshd: Sshd, client_home: Path) -> None:
    sshd.write_home(client_home, key=False)
    message = login_error(sshd)
    assert "refuses the login: it knows none of your keys" in message
    assert f"ssh-copy-id -p {sshd.port} {sshd.target}, or set $KZ_SSH_PASSWORD" in message


@pytest.mark.parametrize("sshd", [SshConfig(password=False)], indirect=True)
def test_a_server_that_takes_no_passwords(sshd: Sshd, client_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sshd.write_home(client_home, key=False)
    monkeypatch.setenv("KZ_SSH_PASSWORD", sshd.password)
    assert "refuses the login" in login_error(sshd)


@pytest.mark.parametrize("sshd", [SshConfig(sftp=False)], indirect=True)
def test_a_server_without_sftp(sshd: Sshd, kz: Kz, fake_bundle: Path) -> None:
    name = f"ssh:{sshd.target}:{sshd.port}"
    assert kz("deploy", fake_bundle, "--device", name).status == 0
    assert kz("deploy", fake_bundle, "--json").json["sent"] == []


def test_an_address_where_nobody_listens() -> None:
    with pytest.raises(
        DeviceError, match=r"cannot be reached \(Connection refused\); check the address and that sshd runs there"
    ):
        SshDevice(f"me@127.0.0.1:{free_port()}").run("true")


def test_a_host_that_does_not_exist() -> None:
    with pytest.raises(DeviceError, match=r"ssh:me@no-such-host.invalid cannot be reached \("):
        SshDevice("me@no-such-host.invalid").run("true")


def test_something_else_that_listens_is_one_line(kz: Kz, fake_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "CONNECT_TIMEOUT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listener:  # says nothing at all
        outcome = kz("deploy", fake_bundle, "--device", f"ssh:me@127.0.0.1:{listener.getsockname()[1]}")
    assert outcome.status == 11
    assert "does not speak ssh" in outcome.err
    assert len(outcome.err.splitlines()) == 1, "the library's own complaints are not printed too"


def test_a_connection_that_was_dropped_is_made_again(sshd: Sshd) -> None:
    server = device(sshd)
    assert server.run("echo 1").stdout == "1\n"
    sshd.drop_sessions()
    assert eventually(server) == "2\n"


def eventually(server: SshDevice) -> str:
    """A dropped connection may be noticed only by the first command after it."""
    try:
        return server.run("echo 2").stdout
    except DeviceError:
        return server.run("echo 2").stdout


def test_a_network_that_is_cut_in_a_push_is_an_error(sshd: Sshd, client_home: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(8_000_000))
    with Link(sshd.port) as link:
        sshd.write_home(client_home, port=link.port)
        server = device(sshd, link.port)
        server.run("true")
        link.cut_after(2_000_000)
        with pytest.raises(DeviceError, match="was lost while files were sent"):
            server.push(tmp_path / "file", 0, 8_000_000, "file", lambda _: None)
        assert server.run("echo back").stdout == "back\n"


def test_a_network_that_stalls_in_a_push_is_given_up(
    sshd: Sshd, client_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "WRITE_TIMEOUT_S", 1.0)
    (tmp_path / "file").write_bytes(bytes(30_000_000))
    with Link(sshd.port) as link:
        sshd.write_home(client_home, port=link.port)
        server = device(sshd, link.port)
        server.run("true")
        with pytest.raises(DeviceError, match=r"takes no data|was lost"):
            server.push(tmp_path / "file", 0, 30_000_000, "file", lambda _: link.stall())
        link.flow()


@pytest.mark.parametrize(
    "address", ["host", "@host", "me@", "me@host:", "me@host:0", "me@host:70000", "me@ho st", "a@b@c", "me@host:x"]
)
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(UsageError, match="is not a device; write ssh:USER@HOST or ssh:USER@HOST:PORT"):
        SshDevice(address)


@pytest.mark.parametrize("address", ["me@host", "me@192.168.1.5:8022", "me@[fe80::1]:8022", "u0_a217@tablet.lan"])
def test_an_address_that_is_one(address: str) -> None:
    assert SshDevice(address).name == f"ssh:{address}"


def test_two_servers_do_not_mix(make_sshd: MakeSshd, client_home: Path) -> None:
    one, two = make_sshd(), make_sshd()
    one.write_home(client_home)
    known = one.known_hosts() + two.known_hosts()
    (client_home / ".ssh/known_hosts").write_text(known)
    assert device(one).run("echo one").stdout == "one\n"
    assert "refuses the login" in login_error(two)
