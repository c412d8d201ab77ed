#pragma once

#include <cstdint>

namespace kz {

/// Counts a call of a program on the NPU. Process-wide, as the NPU is.
void count_npu_call();

/// Calls so far.
uint64_t npu_calls();

}  // namespace kz
