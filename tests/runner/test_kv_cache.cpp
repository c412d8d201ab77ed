#include "check.h"
#include "kv_cache.h"

namespace kz {

TEST(rows_are_contiguous_and_tensors_do_not_overlap) {
  auto created = KvCache::create({2, 3, 4}, 5, 2);
  REQUIRE(created.ok());
  KvCache& cache = created.value();
  CHECK_EQUAL(cache.keys(0, 1) - cache.keys(0, 0), std::ptrdiff_t{12});
  CHECK_EQUAL(cache.values(0, -2) - cache.keys(0, 5), std::ptrdiff_t{0});
  CHECK_EQUAL(cache.keys(1, -2) - cache.values(0, 5), std::ptrdiff_t{0});
}

TEST(every_row_can_be_written) {
  auto created = KvCache::create({2, 1, 2}, 3, 1);
  REQUIRE(created.ok());
  KvCache& cache = created.value();
  for (std::size_t layer = 0; layer < 2; ++layer) {
    for (std::ptrdiff_t position = -1; position < 3; ++position) {
      cache.keys(layer, position)[1] = 1.0f;
      cache.values(layer, position)[1] = 2.0f;
    }
  }
  CHECK_EQUAL(cache.keys(1, 2)[1], 1.0f);
  CHECK_EQUAL(cache.values(1, 2)[1], 2.0f);
}

TEST(use_is_counted_and_forgotten) {
  auto created = KvCache::create({1, 1, 1}, 4, 0);
  REQUIRE(created.ok());
  KvCache& cache = created.value();
  cache.advance(2);
  cache.advance(1);
  CHECK_EQUAL(cache.used(), std::size_t{3});
  cache.clear();
  CHECK_EQUAL(cache.used(), std::size_t{0});
}

TEST(a_new_cache_and_its_blank_row_are_zero) {
  auto created = KvCache::create({1, 2, 2}, 2, 0);
  REQUIRE(created.ok());
  for (std::size_t index = 0; index < 4; ++index) {
    CHECK_EQUAL(created.value().blank_row()[index], 0.0f);
    CHECK_EQUAL(created.value().values(0, 1)[index], 0.0f);
  }
}

}  // namespace kz
