#include <vector>

#include "check.h"
#include "static_kv_cache.h"

namespace kz {
namespace {

constexpr std::size_t kPast = 5;
constexpr std::size_t kTokens = 3;
const KvShape kKv{2, 2, 2};  // layers, kv_heads, head_dim

std::size_t announced = 0;
std::size_t allocated_bytes = 0;

/// Shared memory in name only; counts what it is told.
class CountingMemory final : public CacheMemory {
 public:
  explicit CountingMemory(std::size_t bytes) : bytes_(bytes) {}
  uint8_t* data() override { return bytes_.data(); }
  void announce_tensor(void* address) override {
    const auto* tensor = static_cast<uint8_t*>(address);
    announced += tensor >= bytes_.data() && tensor < bytes_.data() + bytes_.size() ? 1 : 0;
  }
  bool is_shared() const override { return true; }

 private:
  std::vector<uint8_t> bytes_;
};

std::unique_ptr<CacheMemory> counting_memory(std::size_t bytes) {
  allocated_bytes = bytes;
  return std::make_unique<CountingMemory>(bytes);
}

std::unique_ptr<CacheMemory> no_memory(std::size_t) { return nullptr; }

StaticKvCache cache_of(std::size_t element_bytes) {
  return std::move(StaticKvCache::create(kKv, element_bytes, kPast, kTokens, allocate_process_memory).value());
}

/// New tensors hold 16-bit numbers 100 * (2 * layer + is value) + 10 * line + token.
void fill_new(StaticKvCache& cache, std::size_t tokens) {
  for (std::size_t layer = 0; layer < kKv.layers; ++layer) {
    auto* keys = reinterpret_cast<uint16_t*>(cache.new_keys(layer));
    auto* values = reinterpret_cast<uint16_t*>(cache.new_values(layer));
    for (std::size_t line = 0; line < 4; ++line) {
      for (std::size_t token = 0; token < tokens; ++token) {
        const std::size_t number = 200 * layer + 10 * line + token;
        keys[line * tokens + token] = uint16_t(number);
        values[((line / 2) * tokens + token) * 2 + line % 2] = uint16_t(100 + number);
      }
    }
  }
}

uint16_t key(StaticKvCache& cache, std::size_t layer, std::size_t line, std::size_t position) {
  return reinterpret_cast<uint16_t*>(cache.keys(layer))[line * kPast + position];
}

uint16_t value(StaticKvCache& cache, std::size_t layer, std::size_t line, std::size_t position) {
  return reinterpret_cast<uint16_t*>(cache.values(layer))[((line / 2) * kPast + position) * 2 + line % 2];
}

}  // namespace

TEST(new_slices_go_to_their_places_and_nothing_else_moves) {
  StaticKvCache cache = cache_of(2);
  fill_new(cache, kTokens);
  CHECK_EQUAL(cache.store(kTokens, kTokens), std::size_t{2 * 2 * 3 * 4 * 2});  // keys and values, layers, tokens, row, bytes
  fill_new(cache, 1);
  CHECK_EQUAL(cache.store(1, 1), std::size_t{2 * 2 * 1 * 4 * 2});
  CHECK_EQUAL(cache.used(), std::size_t{4});
  for (std::size_t layer = 0; layer < kKv.layers; ++layer) {
    for (std::size_t line = 0; line < 4; ++line) {
      const auto base = uint16_t(200 * layer + 10 * line);
      for (std::size_t position = 0; position < 3; ++position) {
        CHECK_EQUAL(key(cache, layer, line, position), uint16_t(base + position));
        CHECK_EQUAL(value(cache, layer, line, position), uint16_t(100 + base + position));
      }
      CHECK_EQUAL(key(cache, layer, line, 3), base);
      CHECK_EQUAL(value(cache, layer, line, 3), uint16_t(100 + base));
      CHECK_EQUAL(key(cache, layer, line, 4), uint16_t{0});
    }
  }
}

TEST(pad_rows_are_left_out) {
  StaticKvCache cache = cache_of(2);
  fill_new(cache, kTokens);
  CHECK_EQUAL(cache.store(kTokens, 1), std::size_t{2 * 2 * 4 * 2});
  CHECK_EQUAL(key(cache, 1, 3, 0), uint16_t{232});
  CHECK_EQUAL(value(cache, 1, 3, 0), uint16_t{332});
  CHECK_EQUAL(key(cache, 1, 3, 1), uint16_t{0});
}

TEST(what_has_no_room_is_dropped) {
  StaticKvCache cache = cache_of(2);
  fill_new(cache, kTokens);
  cache.store(kTokens, 3);
  CHECK_EQUAL(cache.store(kTokens, 3), std::size_t{2 * 2 * 2 * 4 * 2});
  CHECK_EQUAL(cache.used(), std::size_t{6});
  CHECK_EQUAL(key(cache, 0, 1, 4), uint16_t{11});
  CHECK_EQUAL(key(cache, 0, 2, 0), uint16_t{20});
  cache.clear();
  CHECK_EQUAL(cache.used(), std::size_t{0});
}

TEST(elements_are_as_wide_as_the_program_says) {
  StaticKvCache bytes = cache_of(1);
  bytes.new_keys(0)[0] = 7;
  CHECK_EQUAL(bytes.store(1, 1), std::size_t{2 * 2 * 4});
  CHECK_EQUAL(bytes.keys(0)[0], uint8_t{7});
  CHECK_EQUAL(cache_of(4).tensor_bytes(), std::size_t{4 * kPast * 4});
  CHECK_EQUAL(bytes.tensor_bytes(), std::size_t{4 * kPast});
  CHECK_EQUAL(bytes.new_tensor_bytes(2), std::size_t{4 * 2});
}

TEST(each_tensor_is_announced_to_its_memory) {
  announced = 0;
  auto cache = StaticKvCache::create(kKv, 2, kPast, kTokens, counting_memory);
  REQUIRE(cache.ok());
  CHECK(cache.value().is_shared());
  CHECK_EQUAL(announced, std::size_t{8});
  CHECK(allocated_bytes >= 4 * cache.value().tensor_bytes() + 4 * cache.value().new_tensor_bytes(kTokens));
}

TEST(without_memory_there_is_no_cache) {
  const auto cache = StaticKvCache::create(kKv, 2, kPast, kTokens, no_memory);
  REQUIRE(!cache.ok());
  CHECK_CONTAINS(cache.error().message, "no memory for a KV cache of 5 positions and 2 layers");
}

}  // namespace kz
