"""A bundle is checked before anything runs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from kazeia.bundle import Bundle
from kazeia.bundle_choice import choose_bundle, remember_bundle
from kazeia.errors import BundleError
from tests.support.bundles import BABBLE, CODEBOOK, GROUPS, HIDDEN, VOCAB, edit_manifest, write_fake_bundle


def test_tables_are_read_as_the_manifest_says(fake_bundle: Path) -> None:
    bundle = Bundle.open(fake_bundle)
    tables = bundle.codec_embeddings
    assert [table.shape for table in tables] == [(VOCAB, HIDDEN)] + [(CODEBOOK, HIDDEN)] * (GROUPS - 1)
    raw = np.fromfile(fake_bundle / "codec_embeddings.bin", "<f4").reshape(-1, HIDDEN)
    np.testing.assert_array_equal(tables[1][5], raw[VOCAB + 5])


def test_a_folder_without_a_manifest_is_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"not a bundle: it has no manifest\.json; make one with kz export"):
        Bundle.open(tmp_path)


@pytest.mark.parametrize("name", ["talker.pte", "codec_embeddings.bin", "tokenizer.json"])
def test_a_missing_file_is_named(fake_bundle: Path, name: str) -> None:
    (fake_bundle / name).unlink()
    with pytest.raises(BundleError, match=f"{name} is missing; copy fake again or export"):
        Bundle.open(fake_bundle)


@pytest.mark.parametrize("name", ["code_predictor.pte", "text_embeddings.bin", "tokenizer.json"])
@pytest.mark.parametrize("kept", [0, 10])
def test_a_truncated_file_is_named_with_both_sizes(fake_bundle: Path, name: str, kept: int) -> None:
    path = fake_bundle / name
    size_bytes = path.stat().st_size
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(BundleError, match=rf"{name} has {kept} bytes, {size_bytes:,} were exported"):
        Bundle.open(fake_bundle)


def test_a_foreign_program_is_named_with_what_was_found(fake_bundle: Path) -> None:
    path = fake_bundle / "talker.pte"
    path.write_bytes(b"version https://git-lfs"[: path.stat().st_size])
    with pytest.raises(BundleError, match=r"talker\.pte is not an ExecuTorch program \(found b'ion ', want b'ET12'\)"):
        Bundle.open(fake_bundle)


@pytest.mark.parametrize("name", ["talker.pte", "codec_embeddings.bin"])
def test_a_changed_file_of_equal_size_is_found(fake_bundle: Path, name: str) -> None:
    Bundle.open(fake_bundle)
    path = fake_bundle / name
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(BundleError, match=f"{name} was changed after the export"):
        Bundle.open(fake_bundle)


def test_a_file_is_hashed_once_until_it_changes(fake_bundle: Path) -> None:
    Bundle.open(fake_bundle)
    path = fake_bundle / "talker.pte"
    stat = path.stat()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    Bundle.open(fake_bundle)
    with pytest.raises(BundleError, match="was changed after the export"):
        Bundle.open(fake_bundle, rehash=True)


@pytest.mark.parametrize("contract", [0, 2, "1", None])
def test_another_contract_names_the_command_that_mends_it(fake_bundle: Path, contract: object) -> None:
    edit_manifest(fake_bundle, contract=contract)
    with pytest.raises(BundleError, match=r"has contract .*, this kz needs 1; export the checkpoint again with kz export"):
        Bundle.open(fake_bundle)


def test_another_executorch_is_named_with_both_versions(fake_bundle: Path) -> None:
    edit_manifest(fake_bundle, executorch="1.4.0")
    with pytest.raises(BundleError, match=r"made for ExecuTorch 1\.4\.0, this kz has 1\.5\.1"):
        Bundle.open(fake_bundle)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"x"', "{}", "\x00\x01"])
def test_a_manifest_that_is_no_manifest_is_refused(fake_bundle: Path, text: str) -> None:
    (fake_bundle / "manifest.json").write_text(text)
    with pytest.raises(BundleError, match="kz export"):
        Bundle.open(fake_bundle)


def test_an_unknown_key_is_refused_by_name(fake_bundle: Path) -> None:
    edit_manifest(fake_bundle, surprise=1)
    with pytest.raises(BundleError, match="surprise"):
        Bundle.open(fake_bundle)


def test_a_missing_key_is_refused_by_name(fake_bundle: Path) -> None:
    path = fake_bundle / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["model"]["kv_heads"]
    path.write_text(json.dumps(manifest))
    with pytest.raises(BundleError, match="kv_heads"):
        Bundle.open(fake_bundle)


def test_a_file_outside_the_folder_is_refused(fake_bundle: Path) -> None:
    edit_manifest(fake_bundle, tokenizer="../tokenizer.json")
    with pytest.raises(BundleError, match=r"names '\.\./tokenizer\.json', which is not one of its files"):
        Bundle.open(fake_bundle)


def test_the_bundle_used_is_given_then_named_then_last_then_built_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_bundle(None) == BABBLE
    last = write_fake_bundle(tmp_path / "last")
    remember_bundle(last)
    assert choose_bundle(None) == last
    monkeypatch.setenv("KZ_BUNDLE", "named")
    assert choose_bundle(None) == Path("named")
    assert choose_bundle("given") == Path("given")


def test_a_last_bundle_that_is_gone_is_not_used(tmp_path: Path) -> None:
    remember_bundle(tmp_path / "gone")
    assert choose_bundle(None) == BABBLE
