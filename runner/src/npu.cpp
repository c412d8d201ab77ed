#include "npu.h"

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/backend/options.h>

#include <cstdint>
#include <cstring>

#include "log.h"

// The backend's functions for memory shared with the NPU; ExecuTorch's package has the symbols but not their header. Null in a
// runner that is linked without the backend.
extern "C" {
__attribute__((weak)) void* QnnExecuTorchAllocCustomMem(size_t bytes, size_t alignment);
__attribute__((weak)) void QnnExecuTorchAddCustomMemTensorAddr(void* tensor, void* memory);
__attribute__((weak)) void QnnExecuTorchFreeCustomMem(void* memory);
}

namespace kz {
namespace {

namespace et = ::executorch::runtime;

constexpr char kQnnBackend[] = "QnnBackend";
constexpr char kPerformanceMode[] = "qnn_runtime_htp_performance_mode";
constexpr int kBurst = 2;  // QnnExecuTorchHtpPerformanceMode.kHtpBurst
constexpr int kUnknown = -1;
constexpr std::size_t kAlignment = 128;

class SharedMemory final : public CacheMemory {
 public:
  explicit SharedMemory(void* memory) : memory_(memory) {}
  ~SharedMemory() override { QnnExecuTorchFreeCustomMem(memory_); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  uint8_t* data() override { return static_cast<uint8_t*>(memory_); }
  void announce_tensor(void* address) override { QnnExecuTorchAddCustomMemTensorAddr(address, memory_); }
  bool is_shared() const override { return true; }

 private:
  void* memory_;
};

}  // namespace

void set_npu_performance_mode() {
  et::BackendOptions<1> options;
  if (options.set_option(kPerformanceMode, kBurst) != et::Error::Ok) {
    return;
  }
  const et::Error error = et::set_option(kQnnBackend, options.view());
  if (error == et::Error::NotFound) {
    return;  // no such backend in this runner
  }
  et::BackendOptions<1> found;
  int mode = kUnknown;
  const bool is_told = error == et::Error::Ok && found.set_option(kPerformanceMode, kUnknown) == et::Error::Ok &&
                       et::get_option(kQnnBackend, found.view()) == et::Error::Ok &&
                       found.get_option(kPerformanceMode, mode) == et::Error::Ok;
  log_message(is_told && mode == kBurst ? LogLevel::Debug : LogLevel::Warning, "performance mode of the NPU: %d, asked for %d",
              mode, kBurst);
}

bool npu_is_emulated() {
#if defined(__aarch64__)
  return false;
#else
  return true;
#endif
}

std::unique_ptr<CacheMemory> allocate_npu_memory(std::size_t bytes) {
  if (!npu_is_emulated() && QnnExecuTorchAllocCustomMem != nullptr) {
    if (void* memory = QnnExecuTorchAllocCustomMem(bytes, kAlignment); memory != nullptr) {
      std::memset(memory, 0, bytes);
      return std::make_unique<SharedMemory>(memory);
    }
    log_message(LogLevel::Warning, "no memory to share with the NPU: the KV cache is copied to it on every call");
  }
  return allocate_process_memory(bytes);
}

}  // namespace kz
