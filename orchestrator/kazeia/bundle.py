"""Bundles: the folder that `kz export` writes, and the manifest that says what is in it.

The manifest is validated strictly: an unknown key, a missing key or a wrong type refuses the bundle.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from kazeia.errors import BundleError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kazeia.tokenizer import Tokenizer

CONTRACT_VERSION = 1
"""Version of everything shared by exporter, runner and orchestrator: method names, inputs, outputs, tables, manifest."""

EXECUTORCH_VERSION = "1.5.1"
MANIFEST_NAME = "manifest.json"

Backend = Literal["xnnpack", "qnn"]
BuiltFor = Literal["device", "emulator"]
"""On a device the methods of an NPU program share their weights; the emulator can only load them apart."""
TableType = Literal["f32", "f16"]
Kind = Literal["base", "custom_voice", "voice_design"]
AutoLanguage = Literal["model", "text"]


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    """Base of the manifest's parts: unknown keys are refused."""


class Speaker(Strict):
    """A built-in speaker: row of the codebook-0 embedding table, and the dialect that replaces Chinese or auto."""

    id: int
    dialect: str | None = None


class TokenIds(Strict):
    """Ids the prompt is built from; config keys of the same names."""

    im_start: int
    im_end: int
    tts_bos: int
    tts_eos: int
    tts_pad: int
    codec_bos: int
    codec_eos: int
    codec_pad: int
    codec_think: int
    codec_nothink: int
    codec_think_bos: int
    codec_think_eos: int


class Model(Strict):
    """What was exported. Sizes are in elements, rates in Hz; every one is checked against the programs by the runner."""

    name: str
    kind: Kind
    size: str
    """`tts_model_size` of the config: `0b6` or `1b7`."""
    hidden_size: int
    layers: int
    kv_heads: int
    head_dim: int
    vocab_size: int
    code_groups: int
    codebook_size: int
    context_length: int
    """Positions of the talker's KV cache: prompt tokens plus frames."""
    prefill_tokens: int
    sample_rate: int
    samples_per_frame: int
    speaker_embedding_size: int
    """Width of a voice's embedding; equals hidden_size."""
    languages: dict[str, int]
    speakers: dict[str, Speaker]
    tokens: TokenIds
    auto_language: AutoLanguage = "model"
    """Who settles the language `auto`: the model, as the reference has it, or the text it is to speak."""


class Sampling(Strict):
    """Sampling defaults, from `generation_config.json` (its keys; `subtalker_*` are the code predictor's)."""

    do_sample: bool
    temperature: float
    top_k: int
    top_p: float
    repetition_penalty: float
    subtalker_dosample: bool
    subtalker_temperature: float
    subtalker_top_k: int
    subtalker_top_p: float
    max_new_tokens: int


class Program(Strict):
    file: str
    backend: Backend
    quant: str


class Table(Strict):
    """A memory-mapped matrix of little-endian rows, stored one group after another: `[sum(rows), width]`."""

    file: str
    dtype: TableType
    rows: list[int]
    width: int


class File(Strict):
    name: str
    bytes: int
    sha256: str


class Manifest(Strict):
    contract: int
    kazeia: str
    executorch: str
    qnn: str | None
    """Version of QNN that compiled the NPU's programs; a device needs this one or a newer one."""
    soc: str | None
    """The chip that the NPU's programs are for."""
    model: Model
    sampling: Sampling
    programs: dict[str, Program]
    """By name: talker, code_predictor, speech_decoder and, for base models, speaker_encoder. Beside those for the NPU there
    may be code_predictor_steps (draws that code_predictor has not got) and speech_decoder_npu (some of the decoder's stages)."""
    tables: dict[str, Table]
    """By name: text_embeddings (one group), codec_embeddings (one group a codebook)."""
    tokenizer: str
    files: list[File]
    """Every other file of the bundle."""
    voices: dict[str, str] = {}
    """Voices that come with the bundle: name to voice file (see `voices.py`); the first is the default."""
    built_for: BuiltFor | None = None
    """What can load the NPU's programs; None without any."""
    builtin: str | None = None
    """A sentence `kz speak` prints when the bundle is only a stand-in."""


def read_manifest(folder: Path) -> Manifest:
    """Parse and check `folder/manifest.json`.

    Raises:
        BundleError: missing, not JSON, unknown or missing keys, or another contract or ExecuTorch version.
    """
    path = folder / MANIFEST_NAME
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise BundleError(f"{folder} is not a bundle: it has no {MANIFEST_NAME}; make one with kz export") from None
    except OSError as error:
        raise BundleError(f"cannot read {path}: {error.strerror}") from None
    try:
        header = msgspec.json.decode(data)
        contract = header.get("contract") if isinstance(header, dict) else None
    except msgspec.DecodeError as error:
        raise BundleError(f"{path} is not a manifest ({error}); export the bundle again with kz export") from None
    if contract != CONTRACT_VERSION:
        raise BundleError(
            f"{folder} has contract {contract!r}, this kz needs {CONTRACT_VERSION}; export the checkpoint again with kz export"
        )
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except msgspec.ValidationError as error:
        raise BundleError(f"{path} is not valid: {error}; export the bundle again with kz export") from None
    if manifest.executorch != EXECUTORCH_VERSION:
        raise BundleError(
            f"{folder} was made for ExecuTorch {manifest.executorch}, this kz has {EXECUTORCH_VERSION}; "
            "export the checkpoint again with kz export"
        )
    return manifest


class Bundle:
    """An opened, checked bundle. Tables are memory-mapped on first use."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest

    @classmethod
    def open(cls, folder: Path, *, rehash: bool = False) -> Bundle:
        """Check `folder` and open it: sizes always, SHA-256 of each file once until it changes, or again with `rehash`.

        Raises:
            BundleError: names the first file that is missing, truncated or not what was exported.
        """
        from kazeia.verification import verify_files

        folder = folder.absolute()
        manifest = read_manifest(folder)
        _check_references(folder, manifest)
        verify_files(folder, manifest, rehash=rehash)
        return cls(folder, manifest)

    @cached_property
    def text_embeddings(self) -> NDArray[np.floating[Any]]:
        """Pre-projected text embeddings `[text_vocab, hidden]`, f32 or f16, memory-mapped."""
        return self._table("text_embeddings")

    @cached_property
    def codec_embeddings(self) -> list[NDArray[np.floating[Any]]]:
        """One memory-mapped table a codebook: `[vocab, hidden]`, then `[codebook_size, hidden]` fifteen times."""
        import numpy as np

        table = self.manifest.tables["codec_embeddings"]
        return np.split(self._table("codec_embeddings"), np.cumsum(table.rows)[:-1])

    @cached_property
    def tokenizer(self) -> Tokenizer:
        from kazeia.tokenizer import Tokenizer

        return Tokenizer.load(self.folder / self.manifest.tokenizer)

    def _table(self, name: str) -> NDArray[np.floating[Any]]:
        import numpy as np

        table = self.manifest.tables[name]
        dtype = {"f32": "<f4", "f16": "<f2"}[table.dtype]
        return np.memmap(self.folder / table.file, dtype=dtype, mode="r", shape=(sum(table.rows), table.width))


REQUIRED_PROGRAMS = ("talker", "code_predictor", "speech_decoder")
REQUIRED_TABLES = ("text_embeddings", "codec_embeddings")


def _check_references(folder: Path, manifest: Manifest) -> None:
    """Refuse a manifest whose parts do not name listed files, or lack a required part."""
    listed = {file.name for file in manifest.files}
    missing = [name for name in REQUIRED_PROGRAMS if name not in manifest.programs]
    missing += [name for name in REQUIRED_TABLES if name not in manifest.tables]
    parts: list[Program | Table] = [*manifest.programs.values(), *manifest.tables.values()]
    named = (*(part.file for part in parts), *manifest.voices.values(), manifest.tokenizer)
    unlisted = [name for name in named if name not in listed]
    hostile = [name for name in listed if Path(name).name != name]
    if missing or unlisted or hostile:
        problem = f"lacks {missing[0]}" if missing else f"names {(unlisted or hostile)[0]!r}, which is not one of its files"
        raise BundleError(f"{folder / MANIFEST_NAME} {problem}; export the bundle again with kz export")
