#pragma once

#include <cstdint>
#include <vector>

namespace kz {

/// How many cores to compute on: those this process may use that are nearly as fast as the fastest of them. On a phone that
/// leaves out the efficiency cores, which every parallel step would otherwise wait for.
unsigned default_thread_count();

/// The rule behind it: how many of `max_khz`, the top clocks of the usable cores, reach 80 % of the largest. All of them if a
/// clock is unknown (0); at least 1.
unsigned count_performance_cores(const std::vector<uint64_t>& max_khz);

/// Has ExecuTorch's kernels and XNNPACK compute on `count` threads. Call it while nothing runs, before a program is loaded.
/// False when the runtime refuses.
bool set_thread_count(unsigned count);

}  // namespace kz
