"""Torch, torchao and ExecuTorch talk a lot while exporting; none of it is for the person who exports."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Drop warnings, log records and what is printed through `sys.stdout` and `sys.stderr`.

    Whoever wants to print meanwhile keeps the stream it had before.
    """
    disabled = logging.root.manager.disable
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(disabled)


@contextlib.contextmanager
def silent_libraries() -> Iterator[None]:
    """Drop what C++ libraries print straight to the descriptors of stdout and stderr; Qualcomm's compiler prints pages."""
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is not None:
            stream.flush()
    saved = {descriptor: os.dup(descriptor) for descriptor in (1, 2)}
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for descriptor in saved:
            os.dup2(nowhere, descriptor)
        yield
    finally:
        os.close(nowhere)
        for descriptor, original in saved.items():
            os.dup2(original, descriptor)
            os.close(original)
