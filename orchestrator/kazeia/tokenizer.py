"""Text to token ids, exactly as the reference's Qwen2 tokenizer, without PyTorch or transformers.

The reference puts the text between control markers and tokenises the whole. Here the markers are added by id and the text
is plain characters throughout, so a text that contains `<|im_end|>` or `<think>` is spoken and cannot end its own turn.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from kazeia.errors import BundleError, CheckpointError, UsageError
from kazeia.files import write_atomically

if TYPE_CHECKING:
    import tokenizers

    from kazeia.checkpoint import Checkpoint

T = TypeVar("T")

SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How Qwen2 cuts text before byte-pair encoding (transformers' `Qwen2Converter`)."""

IM_START = "<|im_start|>"
IM_END = "<|im_end|>"
TOKENIZER_CONFIG = "tokenizer_config.json"
MERGES_HEADER = "#version:"


class AddedToken(msgspec.Struct, frozen=True):
    """A control marker of `tokenizer_config.json`."""

    content: str
    special: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False
    single_word: bool = False


class TokenizerConfig(msgspec.Struct, frozen=True):
    """What is used of `tokenizer_config.json`: the control markers by id."""

    added_tokens_decoder: dict[int, AddedToken]


class Tokenizer:
    """Encodes the three kinds of turn a prompt is built from."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        from tokenizers import AddedToken as LibraryToken

        # Markers that are not special would still be found in the text, so here all of them are; then none is found.
        markers = backend.get_added_tokens_decoder().values()
        backend.add_special_tokens([LibraryToken(marker.content, special=True, normalized=False) for marker in markers])
        backend.encode_special_tokens = True
        self._backend = backend
        self._start = _control_id(backend, IM_START)
        self._end = _control_id(backend, IM_END)

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Load a bundle's tokenizer file.

        Raises:
            BundleError: missing, broken, or without the control markers.
        """
        import tokenizers

        try:
            backend = tokenizers.Tokenizer.from_buffer(path.read_bytes())
        except OSError as error:
            raise BundleError(f"cannot read {path}: {error.strerror}; export the checkpoint again with kz export") from None
        except Exception as error:  # the library raises nothing narrower
            raise BundleError(f"{path} is not a tokenizer ({error}); export the checkpoint again with kz export") from None
        return cls(backend)

    def encode(self, text: str) -> list[int]:
        """Ids of plain text: no control id ever comes out.

        Raises:
            UsageError: the text holds lone surrogates, so it is no Unicode text.
        """
        try:
            ids: list[int] = self._backend.encode(text, add_special_tokens=False).ids
        except (TypeError, UnicodeEncodeError):
            raise UsageError("the text is not valid Unicode; save it as UTF-8 and try again") from None
        return ids

    def encode_assistant(self, text: str) -> list[int]:
        """Ids of the turn to speak and the opening of the next (reference `_build_assistant_text`)."""
        role = [self._start, *self.encode("assistant\n")]
        return [*self._turn("assistant", text), *role]

    def encode_reference(self, text: str) -> list[int]:
        """Ids of the transcript of an ICL voice's recording (reference `_build_ref_text`)."""
        return self._turn("assistant", text)

    def encode_instruct(self, text: str) -> list[int]:
        """Ids of an instruction (reference `_build_instruct_text`)."""
        return self._turn("user", text)

    def _turn(self, role: str, text: str) -> list[int]:
        # Role, newline and text are encoded together: a text that starts with a newline shares a token with the first one.
        return [self._start, *self.encode(f"{role}\n{text}"), self._end, *self.encode("\n")]


def write_tokenizer(checkpoint: Checkpoint, path: Path) -> None:
    """Write a checkpoint's tokenizer as one file in the format of the `tokenizers` library.

    Raises:
        CheckpointError: a tokenizer file of the checkpoint is broken, or its ids do not fit the configuration.
    """
    backend = build_tokenizer(checkpoint.path)
    config = checkpoint.config
    expected = {IM_START: config.im_start_token_id, IM_END: config.im_end_token_id}
    for marker, token_id in expected.items():
        if backend.token_to_id(marker) != token_id:
            raise CheckpointError(
                f"{checkpoint.path}: config.json gives {marker} the id {token_id}, its tokenizer "
                f"{backend.token_to_id(marker)}; take both from the same download"
            )
    rows = config.talker_config.text_vocab_size
    if backend.get_vocab_size() > rows:
        raise CheckpointError(
            f"{checkpoint.path}: the tokenizer has {backend.get_vocab_size()} ids, the text embedding {rows} rows; "
            "take both from the same download"
        )
    write_atomically(path, backend.to_str().encode())


def build_tokenizer(folder: Path) -> tokenizers.Tokenizer:
    """The tokenizer of `vocab.json`, `merges.txt` and `tokenizer_config.json`, markers as the files have them.

    Raises:
        CheckpointError: a file is missing or broken, or the ids of the markers do not follow the vocabulary's.
    """
    from tokenizers import AddedToken as LibraryToken
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    vocabulary = _read(folder / "vocab.json", dict[str, int])
    merges = _read_merges(folder / "merges.txt")
    try:
        backend = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, continuing_subword_prefix="", end_of_word_suffix=""))
    except Exception as error:  # the library raises nothing narrower
        raise CheckpointError(f"{folder}: merges.txt does not fit vocab.json ({error}); download both again") from None
    backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.ByteLevel(trim_offsets=False)
    added = _read(folder / TOKENIZER_CONFIG, TokenizerConfig).added_tokens_decoder
    for token_id, token in sorted(added.items()):
        backend.add_tokens([LibraryToken(**msgspec.structs.asdict(token))])
        if backend.token_to_id(token.content) != token_id:
            raise CheckpointError(
                f"{folder / TOKENIZER_CONFIG} gives {token.content} the id {token_id}, vocab.json leaves it "
                f"{backend.token_to_id(token.content)}; download both again"
            )
    return backend


def _control_id(backend: tokenizers.Tokenizer, marker: str) -> int:
    token_id = backend.token_to_id(marker)
    if token_id is None:
        raise BundleError(f"the bundle's tokenizer has no {marker}; export the checkpoint again with kz export")
    return int(token_id)


def _read_merges(path: Path) -> list[tuple[str, str]]:
    """The pairs of `merges.txt`, best first. Only a first line `#version:` is a comment: 96 real merges begin with `#`."""
    lines = _read_bytes(path).decode("utf-8", "replace").split("\n")
    if lines[0].startswith(MERGES_HEADER):
        del lines[0]
    merges = []
    for line in lines:
        if line.strip():
            left, separator, right = line.strip().partition(" ")
            if not separator or " " in right:
                raise CheckpointError(f"{path} has a line that is no pair: {line[:40]!r}; download it again")
            merges.append((left, right))
    return merges


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}; download the whole checkpoint again") from None


def _read(path: Path, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(_read_bytes(path), type=kind)
    except msgspec.DecodeError as error:
        raise CheckpointError(f"{path} is not as expected ({error}); download it again") from None
