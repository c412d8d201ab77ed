#include <algorithm>
#include <memory>

#include "check.h"
#include "fake_method.h"
#include "scoring_code_predictor.h"

namespace kz {
namespace {

using test::FakeMethod;

constexpr std::size_t kWidth = 2;
constexpr std::size_t kGroups = 4;
constexpr std::size_t kCodes = 3;

CodePredictorSizes sizes() {
  CodePredictorSizes sizes;
  sizes.hidden_size = kWidth;
  sizes.code_groups = kGroups;
  sizes.codebook_size = kCodes;
  return sizes;
}

TensorSpec floats(std::vector<int32_t> dims) {
  TensorSpec spec;
  spec.type = ElementType::Float32;
  spec.sizes = std::move(dims);
  return spec;
}

/// Score `code` of row i is the sum of rows 0 to i + 1 of the input, plus the code.
std::unique_ptr<FakeMethod> scoring_method() {
  auto method = std::make_unique<FakeMethod>(std::vector<TensorSpec>{floats({1, int32_t(kGroups), int32_t(kWidth)})},
                                             std::vector<TensorSpec>{floats({int32_t(kGroups) - 1, int32_t(kCodes)})});
  method->work = [](FakeMethod& fake) {
    float sum = fake.input(0)[0] + fake.input(0)[1];
    for (std::size_t row = 0; row + 1 < kGroups; ++row) {
      sum += fake.input(0)[(row + 1) * kWidth] + fake.input(0)[(row + 1) * kWidth + 1];
      for (std::size_t code = 0; code < kCodes; ++code) {
        fake.output(0)[row * kCodes + code] = sum + float(code);
      }
    }
  };
  return method;
}

std::vector<float> copied(const Result<Span<float>>& scores) {
  CHECK(scores.ok());
  return scores.ok() ? std::vector<float>(scores.value().begin(), scores.value().end()) : std::vector<float>{};
}

}  // namespace

TEST(each_step_scores_the_next_codebook) {
  FakeMethod& method = *scoring_method().release();
  auto predictor = ScoringCodePredictor::create(std::unique_ptr<Method>(&method), sizes());
  REQUIRE(predictor.ok());
  for (std::size_t frame = 1; frame <= 2; ++frame) {
    const std::vector<float> hidden{1.0f, 2.0f}, first{10.0f, 20.0f}, second{100.0f, 200.0f}, third{1000.0f, 2000.0f};
    CHECK_EQUAL(copied(predictor.value()->start_frame(hidden, first)), (std::vector<float>{33.0f, 34.0f, 35.0f}));
    CHECK_EQUAL(method.input(0)[2 * kWidth], 0.0f);  // nothing of the frame before
    CHECK_EQUAL(copied(predictor.value()->next_codebook(second)), (std::vector<float>{333.0f, 334.0f, 335.0f}));
    CHECK_EQUAL(copied(predictor.value()->next_codebook(third)), (std::vector<float>{3333.0f, 3334.0f, 3335.0f}));
    CHECK_EQUAL(predictor.value()->calls(), uint64_t{3 * frame});
  }
}

TEST(a_failed_call_comes_through) {
  auto method = scoring_method();
  method->failure = make_error(ErrorCode::ExecutionFailed, "broken");
  auto predictor = ScoringCodePredictor::create(std::move(method), sizes());
  REQUIRE(predictor.ok());
  const std::vector<float> row(kWidth);
  CHECK_EQUAL(predictor.value()->start_frame(row, row).error().message, "broken");
}

TEST(a_method_of_another_shape_is_refused) {
  CodePredictorSizes other = sizes();
  other.codebook_size = kCodes + 1;
  CHECK(ScoringCodePredictor::create(scoring_method(), other).error().code == ErrorCode::LoadFailed);
}

}  // namespace kz
