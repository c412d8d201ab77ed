#include "npu_calls.h"

#include <atomic>

namespace kz {
namespace {

std::atomic<uint64_t> calls{0};

}  // namespace

void count_npu_call() { calls.fetch_add(1, std::memory_order_relaxed); }

uint64_t npu_calls() { return calls.load(std::memory_order_relaxed); }

}  // namespace kz
