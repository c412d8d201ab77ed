"""Bundles exported from the checkpoints the reference wrote."""

from __future__ import annotations

from pathlib import Path

from kazeia.bundle import Bundle
from kazeia.checkpoint.config import Kind
from kazeia.checkpoint.presets import Size
from tests.parity.reference import ReferenceCheckpoints


class ReferenceBundles:
    """Exported in fp32 when first asked for, and kept for the whole test run."""

    def __init__(self, root: Path, checkpoints: ReferenceCheckpoints) -> None:
        self.checkpoints = checkpoints
        self._root = root

    def bundle(self, size: Size = "tiny", kind: Kind = "base") -> Bundle:
        from kazeia.export.options import ExportOptions
        from kazeia.export.service import export_bundle

        folder = self._root / f"{size}-{kind}"
        if not folder.exists():
            export_bundle(self.checkpoints.folder(size, kind), folder, ExportOptions(quant="fp32"))
        return Bundle.open(folder)
