#include "cache_memory.h"

#include <cstdlib>
#include <utility>

namespace kz {
namespace {

class ProcessMemory final : public CacheMemory {
 public:
  struct Free {
    void operator()(uint8_t* memory) const { std::free(memory); }
  };
  using Bytes = std::unique_ptr<uint8_t, Free>;

  explicit ProcessMemory(Bytes bytes) : bytes_(std::move(bytes)) {}

  uint8_t* data() override { return bytes_.get(); }
  void announce_tensor(void*) override {}
  bool is_shared() const override { return false; }

 private:
  Bytes bytes_;
};

}  // namespace

std::unique_ptr<CacheMemory> allocate_process_memory(std::size_t bytes) {
  ProcessMemory::Bytes memory(static_cast<uint8_t*>(std::calloc(bytes, 1)));
  return memory == nullptr ? nullptr : std::make_unique<ProcessMemory>(std::move(memory));
}

}  // namespace kz
