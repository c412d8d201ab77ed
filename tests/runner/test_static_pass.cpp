#include "check.h"
#include "fake_method.h"
#include "static_pass.h"

namespace kz {
namespace {

using test::FakeMethod;

constexpr int32_t kTokens = 3;
constexpr int32_t kPast = 4;
constexpr float kDrop = -255.0f;
const KvShape kKv{1, 1, 2};  // layers, kv_heads, head_dim

StaticPassShape pass_shape() { return {kKv, kTokens, 2, {4}, kDrop}; }

std::vector<TensorSpec> input_specs(ElementType type = ElementType::Int16) {
  return {{ElementType::Float32, {1, kTokens, 2}, false},
          {ElementType::Int32, {kTokens}, false},
          {ElementType::Float32, {1, kTokens, kPast + kTokens}, false},
          {type, {1, 1, 2, kPast}, false},
          {type, {1, 1, kPast, 2}, false}};
}

std::vector<TensorSpec> output_specs(ElementType type = ElementType::Int16) {
  return {{ElementType::Float32, {1, 4}, false}, {type, {1, 1, 2, kTokens}, false}, {type, {1, 1, kTokens, 2}, false}};
}

/// New keys and values are the rows' positions, negated for values; the result is the last embedding's first number.
void write_positions(FakeMethod& method) {
  const auto* positions = static_cast<const int32_t*>(method.bound_inputs[1].data);
  auto* keys = static_cast<int16_t*>(method.bound_outputs[1]);
  auto* values = static_cast<int16_t*>(method.bound_outputs[2]);
  for (int row = 0; row < kTokens; ++row) {
    keys[row] = int16_t(positions[row] + 1);
    values[2 * row] = int16_t(-positions[row] - 1);
  }
  method.output(0)[0] = method.input(0)[4];
}

struct Fixture {
  explicit Fixture(std::vector<TensorSpec> inputs = input_specs(), std::vector<TensorSpec> outputs = output_specs()) {
    auto owned = std::make_unique<FakeMethod>(std::move(inputs), std::move(outputs));
    method = owned.get();
    method->work = write_positions;
    auto created = StaticPass::create(std::move(owned), pass_shape(), cache);
    if (created.ok()) {
      pass = std::move(created.value());
    } else {
      refusal = created.error().message;
    }
  }

  StaticKvCache cache = std::move(StaticKvCache::create(kKv, 2, kPast, kTokens, allocate_process_memory).value());
  FakeMethod* method;  // dangles once `refusal` is set
  std::unique_ptr<StaticPass> pass;
  std::string refusal;
};

std::vector<float> mask_line(const FakeMethod& method, int row) {
  const float* line = method.input(2) + row * (kPast + kTokens);
  return {line, line + kPast + kTokens};
}

const std::vector<float> kThreeRows{1, 2, 3, 4, 5, 6};
const std::vector<float> kOneRow{7, 8};

}  // namespace

TEST(pad_rows_repeat_the_first_row) {
  Fixture f;
  CHECK(f.pass->run({kThreeRows.data(), 4}).ok());
  CHECK_EQUAL(std::vector<float>(f.method->input(0), f.method->input(0) + 6), (std::vector<float>{1, 2, 1, 2, 3, 4}));
}

TEST(unused_positions_are_masked_and_new_ones_stored) {
  Fixture f;
  CHECK(f.pass->run(kOneRow).ok());
  CHECK_EQUAL(mask_line(*f.method, 0), (std::vector<float>{kDrop, kDrop, kDrop, kDrop, 0, kDrop, kDrop}));
  CHECK_EQUAL(mask_line(*f.method, 2), (std::vector<float>{kDrop, kDrop, kDrop, kDrop, kDrop, kDrop, 0}));
  CHECK(f.pass->run(kThreeRows).ok());
  CHECK_EQUAL(mask_line(*f.method, 0), (std::vector<float>{0, kDrop, kDrop, kDrop, 0, kDrop, kDrop}));
  CHECK_EQUAL(mask_line(*f.method, 2), (std::vector<float>{0, kDrop, kDrop, kDrop, 0, 0, 0}));
  const auto* keys = reinterpret_cast<int16_t*>(f.cache.keys(0));
  const auto* values = reinterpret_cast<int16_t*>(f.cache.values(0));
  for (int position = 0; position < 4; ++position) {
    CHECK_EQUAL(int(keys[position]), position + 1);
    CHECK_EQUAL(int(values[2 * position]), -position - 1);
  }
  CHECK_EQUAL(f.pass->copied_bytes(), uint64_t{2 * 4 * 2 * 2});
  CHECK_EQUAL(f.pass->result(0)[0], 5.0f);
}

TEST(the_graph_reads_the_cache_itself_and_writes_beside_it) {
  Fixture f;
  CHECK(f.method->bound_inputs[3].data == f.cache.keys(0));
  CHECK(f.method->bound_inputs[4].data == f.cache.values(0));
  CHECK(f.method->bound_outputs[1] == f.cache.new_keys(0));
  CHECK(f.method->bound_outputs[2] == f.cache.new_values(0));
}

TEST(a_full_past_takes_one_last_token) {
  Fixture f;
  CHECK(f.pass->run(kThreeRows).ok());
  CHECK(f.pass->run(kOneRow).ok());
  CHECK(f.pass->run(kOneRow).ok());
  CHECK_CONTAINS(f.pass->run(kOneRow).error().message, "method fake cannot take 1 rows behind 5 of 4; shorten the text");
}

TEST(rows_that_do_not_fit_the_method_are_refused) {
  Fixture f;
  CHECK(!f.pass->run({}).ok());
  CHECK(!f.pass->run(std::vector<float>(8)).ok());
}

TEST(a_failure_leaves_the_cache_as_it_was) {
  Fixture f;
  f.method->failure = make_error(ErrorCode::ExecutionFailed, "out of order");
  CHECK_EQUAL(f.pass->run(kThreeRows).error().message, "out of order");
  CHECK_EQUAL(f.cache.used(), std::size_t{0});
}

TEST(methods_of_another_shape_are_refused) {
  auto few = input_specs();
  few.pop_back();
  CHECK_CONTAINS(Fixture(few).refusal, "the inputs or outputs of method fake have another type or shape");
  auto wide = input_specs();
  wide[0].sizes[2] = 3;
  CHECK_CONTAINS(Fixture(wide).refusal, "the inputs of method fake");
  auto positions = input_specs();
  positions[1].type = ElementType::Int64;
  CHECK_CONTAINS(Fixture(positions).refusal, "the inputs of method fake");
  auto planned = input_specs();
  planned[3].planned = true;
  CHECK_CONTAINS(Fixture(planned).refusal, "the inputs of method fake");
  CHECK_CONTAINS(Fixture(input_specs(), output_specs(ElementType::UInt8)).refusal, "the outputs of method fake");
  CHECK_CONTAINS(Fixture(input_specs(ElementType::Int8), output_specs(ElementType::Int8)).refusal, "past keys and values");
  CHECK_CONTAINS(Fixture(input_specs(ElementType::Other), output_specs(ElementType::Other)).refusal, "the inputs");
}

}  // namespace kz
