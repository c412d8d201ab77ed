"""Where bundles may be put, and that they appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kazeia.bundle import MANIFEST_NAME
from kazeia.errors import UsageError
from kazeia.export.bundle_writer import list_files, new_bundle
from tests.support.bundles import write_fake_bundle


def entries(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_appears_whole_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "bundle"
    with new_bundle(target) as folder:
        (folder / "talker.pte").write_bytes(b"abc")
        assert folder.parent == tmp_path
        assert not target.exists()
    assert entries(tmp_path) == {"bundle"}
    assert (target / "talker.pte").read_bytes() == b"abc"
    assert target.stat().st_mode & 0o777 == 0o777 & ~os.umask(os.umask(0o22))


@pytest.mark.parametrize("failure", [KeyboardInterrupt, RuntimeError])
def test_a_failure_leaves_nothing(tmp_path: Path, failure: type[BaseException]) -> None:
    def fail(folder: Path) -> None:
        (folder / "talker.pte").write_bytes(b"abc")
        raise failure

    with pytest.raises(failure), new_bundle(tmp_path / "bundle") as folder:
        fail(folder)
    assert entries(tmp_path) == set()


def test_an_old_bundle_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    target = write_fake_bundle(tmp_path / "bundle")
    before = entries(target)
    with pytest.raises(KeyboardInterrupt), new_bundle(target):
        raise KeyboardInterrupt
    assert entries(target) == before
    with new_bundle(target) as folder:
        assert entries(target) == before
        (folder / MANIFEST_NAME).write_text("{}")
    assert entries(target) == {MANIFEST_NAME}
    assert entries(tmp_path) == {"bundle"}


def test_an_old_bundle_comes_back_if_the_swap_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = write_fake_bundle(tmp_path / "bundle")
    before, rename = entries(target), Path.rename

    def failing(path: Path, destination: Path) -> Path:
        if path.suffix == ".part":
            raise OSError("no")
        return rename(path, destination)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="no"), new_bundle(target):
        pass
    assert entries(target) == before
    assert entries(tmp_path) == {"bundle"}


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    with new_bundle(tmp_path / "bundle") as folder:
        (folder / "a").touch()
    assert entries(tmp_path / "bundle") == {"a"}


def refused(target: Path) -> str:
    with pytest.raises(UsageError) as caught, new_bundle(target):
        pytest.fail("a refused target was opened")
    return str(caught.value)


def test_what_is_no_bundle_is_never_overwritten(tmp_path: Path) -> None:
    foreign = tmp_path / "photos"
    foreign.mkdir()
    (foreign / "cat.jpg").touch()
    assert refused(foreign) == f"{foreign} holds 'cat.jpg', which is no part of a bundle; choose another -o"
    (foreign / MANIFEST_NAME).write_text('{"name": "some web page"}')
    assert "holds 'cat.jpg'" in refused(foreign)
    (foreign / "cat.jpg").unlink()
    assert f"holds '{MANIFEST_NAME}'" in refused(foreign)
    assert entries(foreign) == {MANIFEST_NAME}


def test_a_bundle_with_something_of_yours_in_it_is_kept(tmp_path: Path) -> None:
    target = write_fake_bundle(tmp_path / "bundle")
    (target / "notes.txt").touch()
    assert "holds 'notes.txt', which is no part of a bundle" in refused(target)


def test_files_links_and_missing_parents_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert refused(file) == f"{file} exists and is not a folder; choose another -o"
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    assert refused(link) == f"{link} exists and is not a folder; choose another -o"
    assert refused(tmp_path / "no" / "bundle") == f"{tmp_path / 'no'} is not a folder; make it, or choose another -o"
    assert refused(file / "bundle") == f"{file} is not a folder; make it, or choose another -o"


def test_what_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    target = tmp_path / "bundle"
    with pytest.raises(UsageError, match="exists and is not a folder"), new_bundle(target):
        target.write_text("mine")
    assert target.read_text() == "mine"
    assert entries(tmp_path) == {"bundle"}


def test_files_are_listed_with_size_and_hash(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"abc")
    (tmp_path / "a").write_bytes(b"")
    first, second = list_files(tmp_path)
    assert (first.name, first.bytes) == ("a", 0)
    assert (second.name, second.bytes) == ("b", 3)
    assert second.sha256 == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
