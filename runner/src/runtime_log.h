#pragma once

namespace kz {

/// Sends ExecuTorch's own messages through `log_message`. Call it once, before any program is opened.
void route_runtime_log();

}  // namespace kz
