#include "check.h"
#include "fake_method.h"
#include "transformer_pass.h"

namespace kz {
namespace {

using test::FakeMethod;

constexpr std::size_t kTokens = 3;
constexpr std::size_t kWidth = 2;
constexpr std::size_t kLayers = 2;
constexpr int32_t kMaxPast = 7;
constexpr float kDrop = -1e9f;
const KvShape kKv{kLayers, 1, 2};

std::vector<TensorSpec> input_specs() {
  const TensorSpec past{ElementType::Float32, {kMaxPast, 1, 2}, false};
  return {{ElementType::Float32, {1, kTokens, kWidth}, false},
          {ElementType::Int64, {kTokens}, false},
          {ElementType::Float32, {1, kTokens, kMaxPast + int32_t(kTokens)}, false},
          past,
          past,
          past,
          past};
}

std::vector<TensorSpec> output_specs() {
  const TensorSpec rows{ElementType::Float32, {kTokens, 1, 2}, false};
  return {{ElementType::Float32, {1, 4}, false}, rows, rows, rows, rows};
}

PassShape pass_shape() {
  PassShape shape;
  shape.kv = kKv;
  shape.tokens = kTokens;
  shape.width = kWidth;
  shape.result_widths = {4};
  shape.needed_past = kMaxPast;
  shape.mask_value = kDrop;
  return shape;
}

/// Writes row r of new tensor n (keys of layer 0, 1, values of layer 0, 1) as 100 * n + position, and the sum of embeds as
/// result.
void write_positions(FakeMethod& method) {
  const auto* positions = static_cast<const int64_t*>(method.bound_inputs[1].data);
  for (std::size_t tensor = 0; tensor < 2 * kLayers; ++tensor) {
    for (std::size_t row = 0; row < kTokens; ++row) {
      method.output(1 + tensor)[2 * row] = 100.0f * float(tensor) + float(positions[row]);
    }
  }
  method.output(0)[0] = method.input(0)[kTokens * kWidth - 1];
}

struct Fixture {
  explicit Fixture(PassShape shape = pass_shape(), std::vector<TensorSpec> inputs = input_specs(),
                   std::vector<TensorSpec> outputs = output_specs()) {
    auto owned = std::make_unique<FakeMethod>(std::move(inputs), std::move(outputs));
    method = owned.get();
    method->work = write_positions;
    auto created = TransformerPass::create(std::move(owned), std::move(shape));
    if (created.ok()) {
      pass = std::move(created.value());
    } else {
      refusal = created.error().message;
    }
  }

  FakeMethod* method;  // dangles once `refusal` is set
  std::unique_ptr<TransformerPass> pass;
  std::string refusal;
  KvCache cache = std::move(KvCache::create(kKv, 8, kTokens - 1).value());
};

std::vector<float> mask_of(const FakeMethod& method) {
  const auto& mask = method.bound_inputs[2];
  const auto count = std::size_t(mask.sizes[1] * mask.sizes[2]);
  return {method.input(2), method.input(2) + count};
}

std::vector<int64_t> positions_of(const FakeMethod& method) {
  const auto* positions = static_cast<const int64_t*>(method.bound_inputs[1].data);
  return {positions, positions + kTokens};
}

const std::vector<float> kThreeRows{1, 2, 3, 4, 5, 6};
const std::vector<float> kOneRow{7, 8};

}  // namespace

TEST(an_empty_cache_is_one_masked_row) {
  Fixture f;
  CHECK(f.pass->run(kThreeRows, f.cache).ok());
  CHECK_EQUAL(f.method->bound_inputs[3].sizes, (std::vector<int32_t>{1, 1, 2}));
  CHECK(f.method->input(3) == f.cache.blank_row());
  CHECK_EQUAL(mask_of(*f.method), (std::vector<float>{kDrop, 0, kDrop, kDrop,  //
                                                      kDrop, 0, 0, kDrop,      //
                                                      kDrop, 0, 0, 0}));
  CHECK_EQUAL(positions_of(*f.method), (std::vector<int64_t>{0, 1, 2}));
  CHECK_EQUAL(f.cache.used(), std::size_t{3});
}

TEST(a_short_chunk_is_right_aligned) {
  Fixture f;
  CHECK(f.pass->run(kOneRow, f.cache).ok());
  CHECK_EQUAL(std::vector<float>(f.method->input(0), f.method->input(0) + 6), (std::vector<float>{0, 0, 0, 0, 7, 8}));
  CHECK_EQUAL(positions_of(*f.method), (std::vector<int64_t>{0, 0, 0}));
  CHECK_EQUAL(mask_of(*f.method), (std::vector<float>{kDrop, 0, kDrop, kDrop,     // pad rows see themselves
                                                      kDrop, kDrop, 0, kDrop,     //
                                                      kDrop, kDrop, kDrop, 0}));  // and nobody sees them
  CHECK(f.method->output(1) == f.cache.keys(0, -2));
  CHECK_EQUAL(f.cache.used(), std::size_t{1});
}

TEST(the_past_is_the_cache_itself_and_new_rows_land_behind_it) {
  Fixture f;
  CHECK(f.pass->run(kOneRow, f.cache).ok());
  CHECK(f.pass->run(kThreeRows, f.cache).ok());
  CHECK(f.method->input(3) == f.cache.keys(0, 0));
  CHECK(f.method->input(4) == f.cache.keys(1, 0));
  CHECK(f.method->input(5) == f.cache.values(0, 0));
  CHECK(f.method->output(2) == f.cache.keys(1, 1));
  CHECK(f.method->output(4) == f.cache.values(1, 1));
  CHECK_EQUAL(mask_of(*f.method), (std::vector<float>{0, 0, kDrop, kDrop,  //
                                                      0, 0, 0, kDrop,      //
                                                      0, 0, 0, 0}));
  CHECK_EQUAL(positions_of(*f.method), (std::vector<int64_t>{1, 2, 3}));
  for (int position = 0; position < 4; ++position) {
    CHECK_EQUAL(f.cache.keys(1, position)[0], 100.0f + float(position));
    CHECK_EQUAL(f.cache.values(0, position)[0], 200.0f + float(position));
  }
  CHECK_EQUAL(f.pass->copied_bytes(), uint64_t{0});
  CHECK_EQUAL(f.pass->calls(), uint64_t{2});
}

TEST(results_are_those_of_the_last_run) {
  Fixture f;
  CHECK(f.pass->run(kThreeRows, f.cache).ok());
  CHECK_EQUAL(f.pass->result(0).size(), std::size_t{4});
  CHECK_EQUAL(f.pass->result(0)[0], 6.0f);
}

TEST(a_failure_leaves_the_cache_as_it_was) {
  Fixture f;
  f.method->failure = make_error(ErrorCode::ExecutionFailed, "out of order");
  CHECK_EQUAL(f.pass->run(kThreeRows, f.cache).error().message, "out of order");
  CHECK_EQUAL(f.cache.used(), std::size_t{0});
}

TEST(rows_that_do_not_fit_are_refused) {
  Fixture f;
  CHECK(!f.pass->run({}, f.cache).ok());
  CHECK(!f.pass->run(std::vector<float>(8), f.cache).ok());
  f.cache.advance(7);
  CHECK(!f.pass->run(kThreeRows, f.cache).ok());
  CHECK(f.pass->run(kOneRow, f.cache).ok());
  CHECK_CONTAINS(f.pass->run(kOneRow, f.cache).error().message, "method fake cannot take 1 rows behind 8 of 8");
}

TEST(what_a_program_copies_by_itself_is_counted) {
  auto inputs = input_specs();
  auto outputs = output_specs();
  inputs[3].planned = true;
  outputs[4].planned = true;
  Fixture f(pass_shape(), inputs, outputs);
  CHECK(f.pass->run(kThreeRows, f.cache).ok());
  CHECK_EQUAL(f.pass->copied_bytes(), uint64_t{(1 + kTokens) * 2 * sizeof(float)});
}

TEST(methods_that_do_not_fit_are_refused) {
  const auto refusal = [](std::size_t index, const TensorSpec& spec) {
    auto inputs = input_specs();
    inputs[index] = spec;
    return Fixture(pass_shape(), inputs).refusal;
  };
  CHECK_CONTAINS(refusal(0, {ElementType::Float32, {1, kTokens, 3}, false}), "input 0 of method fake has another type or shape");
  CHECK_CONTAINS(refusal(1, {ElementType::Float32, {kTokens}, false}), "input 1 of method fake");
  CHECK_CONTAINS(refusal(2, {ElementType::Float32, {1, kTokens, 5}, false}), "input 2 of method fake");
  CHECK_CONTAINS(refusal(6, {ElementType::Float32, {kMaxPast - 1, 1, 2}, false}), "input 6 of method fake");
  CHECK_CONTAINS(refusal(5, {ElementType::Other, {}, false}), "kz export");
}

TEST(methods_with_missing_parts_are_refused) {
  auto outputs = output_specs();
  outputs.pop_back();
  CHECK_CONTAINS(Fixture(pass_shape(), input_specs(), outputs).refusal, "has 7 inputs and 4 outputs instead of 7 and 5");
}

TEST(outputs_that_do_not_fit_are_refused) {
  auto outputs = output_specs();
  outputs[0].sizes = {1, 5};
  CHECK_CONTAINS(Fixture(pass_shape(), input_specs(), outputs).refusal, "output 0 of method fake");
}

}  // namespace kz
