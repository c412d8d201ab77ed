"""A smallest aarch64 program, made by hand so that no cross compiler is needed to find out whether such programs run."""

from __future__ import annotations

import struct

PROBE_OUTPUT = b"arm\n"
PROBE_EXIT = 7

_BASE = 0x400000
_HEADER_BYTES = 64 + 56
_CODE = (
    0xD2800020,  # mov x0, 1
    0x10000000,  # adr x1, the text behind the code; filled in below
    0xD2800082,  # mov x2, 4
    0xD2800808,  # mov x8, 64 (write)
    0xD4000001,  # svc 0
    0xD28000E0,  # mov x0, 7
    0xD2800BA8,  # mov x8, 93 (exit)
    0xD4000001,  # svc 0
)


def probe_program() -> bytes:
    """A static ELF executable that prints ``PROBE_OUTPUT`` and exits with ``PROBE_EXIT``."""
    code = list(_CODE)
    code[1] |= (len(code) - 1) << 5 | 1
    body = struct.pack(f"<{len(code)}I", *code) + PROBE_OUTPUT
    size = _HEADER_BYTES + len(body)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = ident + struct.pack("<HHIQQQIHHHHHH", 2, 183, 1, _BASE + _HEADER_BYTES, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _BASE, _BASE, size, size, 0x1000)
    return header + segment + body
