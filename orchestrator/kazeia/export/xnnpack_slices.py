"""A partitioner for XNNPACK that also hands over slices from the beginning of tensors of dynamic length.

ExecuTorch's own leaves every slice of a dynamic tensor to the portable kernels. XNNPACK's slice has fixed offsets and sizes,
so a slice that begins at 0 and has a fixed size is sound whatever the length of the input is. The speech decoder's states
are such slices: handed over, they stay inside its one delegate, and the tensors they are cut from are never written out.
"""

from __future__ import annotations

from typing import Any

from executorch.backends.xnnpack.partition.config import ALL_PARTITIONER_CONFIGS
from executorch.backends.xnnpack.partition.config.generic_node_configs import SliceCopyConfig
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner


class LeadingSliceConfig(SliceCopyConfig):  # type: ignore[misc]
    """Slices of fixed size that begin at 0 and step by 1, or whatever ExecuTorch's own rule takes."""

    def check_constraints(self, node: Any, ep: Any) -> bool:
        """See `XNNPartitionerConfig`."""
        if not self.check_common_constraints(node, ep):
            return False
        start = node.args[2] if len(node.args) > 2 else None
        step = node.args[4] if len(node.args) > 4 else 1
        fixed = all(isinstance(size, int) and size > 0 for size in node.meta["val"].shape)
        return (fixed and not start and step == 1) or bool(super().check_constraints(node, ep))


def xnnpack_partitioner() -> XnnpackPartitioner:
    """ExecuTorch's partitioner with the wider rule for slices."""
    return XnnpackPartitioner(
        configs=[LeadingSliceConfig if config is SliceCopyConfig else config for config in ALL_PARTITIONER_CONFIGS]
    )
