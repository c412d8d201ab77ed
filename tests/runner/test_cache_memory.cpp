#include "cache_memory.h"
#include "check.h"

namespace kz {
namespace {

TEST(process_memory_is_zero_and_not_shared) {
  const auto memory = allocate_process_memory(300);
  REQUIRE(memory != nullptr);
  CHECK(!memory->is_shared());
  memory->announce_tensor(memory->data() + 100);
  int sum = 0;
  for (int index = 0; index < 300; ++index) {
    sum += memory->data()[index];
  }
  CHECK_EQUAL(sum, 0);
}

}  // namespace
}  // namespace kz
