#include "check.h"
#include "threads.h"

namespace kz {

TEST(efficiency_cores_are_left_out) {
  CHECK_EQUAL(count_performance_cores({4320000, 4320000, 3530000, 3530000, 3530000, 3530000, 3530000, 3530000}), 8u);
  CHECK_EQUAL(count_performance_cores({3300000, 3200000, 3200000, 3200000, 3000000, 3000000, 2300000, 2300000}), 6u);
  CHECK_EQUAL(count_performance_cores({1800000, 1800000, 1800000, 1800000, 2840000}), 1u);
}

TEST(all_cores_count_where_clocks_are_unknown) {
  CHECK_EQUAL(count_performance_cores({0, 0, 0}), 3u);
  CHECK_EQUAL(count_performance_cores({0, 2000000}), 2u);
}

TEST(there_is_always_one) {
  CHECK_EQUAL(count_performance_cores({}), 1u);
  CHECK(default_thread_count() >= 1);
}

}  // namespace kz
