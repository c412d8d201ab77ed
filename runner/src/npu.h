#pragma once

#include <cstddef>
#include <memory>

#include "cache_memory.h"

namespace kz {

/// Asks for the NPU's highest clocks. To be called before the first program is loaded: programs share one device, and what the
/// first of them finds is what all get. A runner without the NPU's backend ignores it.
void set_npu_performance_mode();

/// Does this kind of machine only emulate the NPU?
bool npu_is_emulated();

/// `bytes` of zeroed memory that the NPU and this process share, where the device has such memory, else of this process alone;
/// null when neither can be had.
std::unique_ptr<CacheMemory> allocate_npu_memory(std::size_t bytes);

}  // namespace kz
