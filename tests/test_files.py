"""Files are written whole or not at all."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import pytest

from kazeia.errors import UsageError
from kazeia.files import atomic_write, check_writable, sha256, write_atomically


def test_a_file_appears_with_all_of_its_content(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]


def write_half(path: Path) -> None:
    with atomic_write(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        write_half(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]


def test_results_have_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a", b"")
    (tmp_path / "b").touch()
    assert stat.S_IMODE(os.stat(tmp_path / "a").st_mode) == stat.S_IMODE(os.stat(tmp_path / "b").st_mode)


def test_a_long_name_is_no_trouble(tmp_path: Path) -> None:
    write_atomically(tmp_path / ("é" * 120), b"x")
    assert (tmp_path / ("é" * 120)).read_bytes() == b"x"


def test_a_hash_is_that_of_the_whole_file(tmp_path: Path) -> None:
    data = os.urandom(3 << 20)
    (tmp_path / "a").write_bytes(data)
    assert sha256(tmp_path / "a") == hashlib.sha256(data).hexdigest()


def test_asking_whether_a_file_can_be_written_leaves_none(tmp_path: Path) -> None:
    check_writable(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match="it is a folder"):
        check_writable(tmp_path)
    with pytest.raises(UsageError, match="No such file or directory"):
        check_writable(tmp_path / "missing" / "a")
