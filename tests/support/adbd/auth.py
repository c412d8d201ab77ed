"""The key check of an adb device: signatures of a random token, and Android's own form of an RSA public key."""

from __future__ import annotations

import base64
import binascii
import struct

_WORDS = 64
_KEY = struct.Struct(f"<II{_WORDS * 4}s{_WORDS * 4}sI")
# PKCS #1 v1.5: the ASN.1 name of SHA-1. adb signs the 20-byte token as if it were a digest already.
_SHA1_NAME = bytes.fromhex("3021300906052b0e03021a05000414")


class PublicKey:
    """A 2048-bit RSA key as adb sends it: base64 of words and a comment."""

    def __init__(self, text: bytes) -> None:
        """Parse ``text`` (``adbkey.pub``'s content); raises ValueError for anything else."""
        encoded = text.rstrip(b"\0").split(b" ", 1)[0]
        try:
            words, _inverse, modulus, _square, self._exponent = _KEY.unpack(base64.b64decode(encoded, validate=True))
        except (struct.error, binascii.Error) as error:
            raise ValueError(f"not an adb public key: {error}") from error
        if words != _WORDS:
            raise ValueError(f"not a 2048-bit key: {words} words")
        self._modulus = int.from_bytes(modulus, "little")

    def verifies(self, token: bytes, signature: bytes) -> bool:
        """Whether ``signature`` is this key's for ``token``."""
        size = _WORDS * 4
        if len(signature) != size:
            return False
        opened = pow(int.from_bytes(signature, "big"), self._exponent, self._modulus).to_bytes(size, "big")
        digest = _SHA1_NAME + token
        return opened == b"\x00\x01" + b"\xff" * (size - len(digest) - 3) + b"\x00" + digest
