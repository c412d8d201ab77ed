#include <cstdint>

#include "threads.h"

// The ExecuTorch wheel exports its thread pool but ships no header for it; this is the part of
// extension/threadpool/threadpool.h that is used here.
namespace executorch::extension::threadpool {

class ThreadPool {
 public:
  bool _unsafe_reset_threadpool(uint32_t new_thread_count);
};

ThreadPool* get_threadpool();

}  // namespace executorch::extension::threadpool

namespace kz {

bool set_thread_count(unsigned count) {
  auto* pool = executorch::extension::threadpool::get_threadpool();
  return pool != nullptr && pool->_unsafe_reset_threadpool(count);
}

}  // namespace kz
