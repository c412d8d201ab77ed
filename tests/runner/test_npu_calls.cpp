#include "check.h"
#include "npu_calls.h"

namespace kz {
namespace {

TEST(calls_are_counted) {
  const uint64_t before = npu_calls();
  count_npu_call();
  count_npu_call();
  CHECK_EQUAL(npu_calls() - before, uint64_t{2});
}

}  // namespace
}  // namespace kz
