"""Files made from `templates/`: a missing value is an error, and shell values are quoted with the filter `quote`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from kazeia.devices.shell import quote

if TYPE_CHECKING:
    from jinja2 import Environment


def render(name: str, **values: Any) -> str:
    """The template `name` with `values` filled in.

    Raises:
        jinja2.UndefinedError: a value is missing.
    """
    return _environment().get_template(name).render(**values)


def render_to(file: BinaryIO, name: str, **values: Any) -> None:
    """Write the template `name` with `values` filled in, UTF-8, bit by bit: iterators among `values` need not fit in memory.

    Raises:
        jinja2.UndefinedError: a value is missing.
        OSError: `file` cannot be written.
    """
    for piece in _environment().get_template(name).generate(**values):
        file.write(piece.encode())


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    package = Path(__file__).parent
    # In the wheel the folder is inside the package, in a source tree beside it.
    folders = [package / "templates", package.parents[1] / "templates"]
    environment = Environment(
        loader=FileSystemLoader(folders), undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False
    )
    environment.filters["quote"] = quote
    return environment
