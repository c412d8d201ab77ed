#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include "allocation_count.h"
#include "check.h"
#include "code_predictor.h"
#include "codec_embeddings.h"
#include "fake_method.h"
#include "fused_code_predictor.h"
#include "predictor_choice.h"
#include "step_frame_predictor.h"

namespace kz {
namespace {

using test::FakeMethod;

constexpr std::size_t kWidth = 2;
constexpr std::size_t kGroups = 3;
constexpr std::size_t kSteps = kGroups - 1;
constexpr std::size_t kCodes = 6;
constexpr std::size_t kTopK = 4;
const FramePredictorSizes kSizes{kWidth, kGroups, kCodes};

/// Scores of a model that forgets everything: the same in every frame, but for what the talker's hidden state adds.
float logit(std::size_t step, std::size_t code, float hidden) {
  return std::sin(float(3 * step + 2 * code)) + hidden * float(code);
}

TensorSpec tensor(ElementType type, std::vector<int32_t> sizes) {
  TensorSpec spec;
  spec.type = type;
  spec.sizes = std::move(sizes);
  return spec;
}

/// What the graph of a fused predictor does, written as the runner's own sampler never would.
void draw_in_graph(FakeMethod& method) {
  const float* noise = method.input(2);
  auto* codes = reinterpret_cast<int32_t*>(method.output(0));
  float sum = method.input(1)[0];
  for (std::size_t step = 0; step < kSteps; ++step) {
    std::array<float, kCodes> sorted{};
    std::array<float, kCodes> logits{};
    for (std::size_t code = 0; code < kCodes; ++code) {
      sorted[code] = logits[code] = logit(step, code, method.input(0)[0]);
    }
    std::sort(sorted.begin(), sorted.end(), std::greater<float>());
    float best = -INFINITY;
    for (std::size_t code = 0; code < kCodes; ++code) {
      const float score = (logits[code] - sorted[0]) * *method.input(3) + noise[step * kCodes + code];
      if (logits[code] >= sorted[kTopK - 1] && score > best) {
        best = score;
        codes[step] = int32_t(code);
      }
    }
    sum += float(10 * (step + 1)) + float(codes[step]);
  }
  method.output(1)[0] = sum;
  method.output(1)[1] = method.input(1)[1];
}

std::unique_ptr<FakeMethod> fused_method() {
  auto method = std::make_unique<FakeMethod>(
      std::vector<TensorSpec>{
          tensor(ElementType::Float32, {1, 1, int32_t(kWidth)}),
          tensor(ElementType::Float32, {1, 1, int32_t(kWidth)}),
          tensor(ElementType::Float32, {int32_t(kSteps), int32_t(kCodes)}),
          tensor(ElementType::Float32, {1}),
      },
      std::vector<TensorSpec>{tensor(ElementType::Int32, {1, int32_t(kSteps)}),
                              tensor(ElementType::Float32, {1, 1, int32_t(kWidth)})});
  method->work = draw_in_graph;
  return method;
}

/// The same model step by step.
class FakePredictor final : public CodePredictor {
 public:
  FakePredictor() : logits_(kCodes) {
    sizes_.hidden_size = kWidth;
    sizes_.code_groups = kGroups;
    sizes_.codebook_size = kCodes;
  }
  const CodePredictorSizes& sizes() const override { return sizes_; }
  Result<Span<float>> start_frame(Span<const float> hidden, Span<const float>) override {
    hidden_ = hidden[0];
    step_ = 0;
    return score();
  }
  Result<Span<float>> next_codebook(Span<const float>) override { return score(); }
  uint64_t calls() const override { return calls_; }
  uint64_t kv_copied_bytes() const override { return 3; }

 private:
  Result<Span<float>> score() {
    ++calls_;
    for (std::size_t code = 0; code < kCodes; ++code) {
      logits_[code] = logit(step_, code, hidden_);
    }
    ++step_;
    return Span<float>(logits_);
  }

  CodePredictorSizes sizes_;
  std::vector<float> logits_;
  float hidden_ = 0.0f;
  std::size_t step_ = 0;
  uint64_t calls_ = 0;
};

/// Row `code` of group g > 0 is {10 g + code, 0}.
std::vector<float> make_table() {
  std::vector<float> table(kCodes * kWidth);
  for (std::size_t group = 1; group < kGroups; ++group) {
    for (std::size_t code = 0; code < kCodes; ++code) {
      table.insert(table.end(), {float(10 * group + code), 0.0f});
    }
  }
  return table;
}

struct Drawn {
  std::vector<int16_t> codes = std::vector<int16_t>(kSteps);
  std::vector<float> sum = std::vector<float>(kWidth);
  Status status;
};

Drawn draw(FramePredictor& predictor, const SamplingOptions& options, uint64_t seed, std::size_t frame) {
  const std::vector<float> hidden{0.1f * float(frame % 3), 0.0f};
  const std::vector<float> embedding{100.0f, 7.0f};
  Drawn drawn;
  drawn.status = predictor.draw({hidden, embedding, seed, frame}, options, drawn.codes, drawn.sum);
  return drawn;
}

SamplingOptions sampled() {
  SamplingOptions options;
  options.temperature = 0.8;
  options.top_k = kTopK;
  return options;
}

SamplingOptions greedy() {
  SamplingOptions options;
  options.greedy = true;
  return options;
}

struct Fixture {
  std::vector<float> table = make_table();
  CodecEmbeddings embeddings{CodecEmbeddings::Layout{TableType::Float32, {kCodes, kCodes, kCodes}, kWidth},
                             {reinterpret_cast<const uint8_t*>(table.data()), table.size() * sizeof(float)}};
  FakeMethod& method = *fused_method().release();  ///< `fused` owns it
  std::unique_ptr<FusedCodePredictor> fused =
      std::move(FusedCodePredictor::create(std::unique_ptr<Method>(&method), {kSizes, kTopK, 0.5}).value());

  std::unique_ptr<FramePredictor> steps() const {
    return std::make_unique<StepFramePredictor>(std::make_unique<FakePredictor>(), embeddings);
  }
};

}  // namespace

TEST(a_seed_means_the_same_in_one_call_and_step_by_step) {
  Fixture f;
  const auto steps = f.steps();
  std::vector<int16_t> all;
  for (std::size_t frame = 0; frame < 200; ++frame) {
    for (const SamplingOptions& options : {sampled(), greedy()}) {
      const Drawn one = draw(*f.fused, options, 41, frame);
      const Drawn other = draw(*steps, options, 41, frame);
      CHECK(one.status.ok() && other.status.ok());
      CHECK_EQUAL(one.codes, other.codes);
      CHECK_EQUAL(one.sum, other.sum);
      all.insert(all.end(), one.codes.begin(), one.codes.end());
    }
  }
  CHECK(std::count(all.begin(), all.end(), all[0]) < 300);  // not always the same code
  CHECK_EQUAL(f.fused->calls(), uint64_t{400});
  CHECK_EQUAL(steps->calls(), uint64_t{800});
}

TEST(greedy_noise_is_zero_after_a_sampled_frame) {
  Fixture f;
  CHECK(draw(*f.fused, sampled(), 1, 0).status.ok());
  CHECK(f.method.input(2)[kCodes] != 0.0f);
  CHECK(draw(*f.fused, greedy(), 1, 1).status.ok());
  for (std::size_t index = 0; index < kSteps * kCodes; ++index) {
    CHECK_EQUAL(f.method.input(2)[index], 0.0f);
  }
  CHECK_EQUAL(*f.method.input(3), 1.0f);
}

TEST(what_one_call_cannot_draw_with_is_named) {
  Fixture f;
  CHECK(f.fused->prepare(sampled()).ok());
  CHECK(f.fused->prepare(greedy()).ok());
  SamplingOptions options = sampled();
  options.top_p = 0.9;
  CHECK_CONTAINS(f.fused->prepare(options).error().message, "not with predictor_top_p 0.9; leave the option out, or export");
  options = sampled();
  options.top_k = 5;
  CHECK_CONTAINS(f.fused->prepare(options).error().message, "from the best 4 codes (0 is all), not with predictor_top_k 5");
  options.top_k = 0;
  CHECK(f.fused->prepare(options).error().code == ErrorCode::BadRequest);
  options = sampled();
  options.temperature = 0.4;
  CHECK_CONTAINS(f.fused->prepare(options).error().message, "temperatures from 0.5, not with predictor_temperature 0.4");
  options.greedy = true;
  options.top_p = 0.1;
  CHECK(f.fused->prepare(options).ok());
}

TEST(every_way_to_keep_all_codes_fits_a_method_without_top_k) {
  auto fused = FusedCodePredictor::create(fused_method(), {kSizes, 0, 0.0});
  REQUIRE(fused.ok());
  SamplingOptions options = sampled();
  for (const int64_t top_k : {int64_t{0}, int64_t(kCodes), int64_t{1} << 40}) {
    options.top_k = top_k;
    CHECK(fused.value()->prepare(options).ok());
  }
}

TEST(a_frame_that_is_not_finite_is_named) {
  Fixture f;
  f.method.work = [](FakeMethod& method) { method.output(1)[1] = std::numeric_limits<float>::quiet_NaN(); };
  const Drawn drawn = draw(*f.fused, greedy(), 0, 12);
  REQUIRE(!drawn.status.ok());
  CHECK(drawn.status.error().code == ErrorCode::NonFiniteLogits);
  CHECK_CONTAINS(drawn.status.error().message, "frame 12");
}

TEST(a_code_that_does_not_exist_is_named) {
  Fixture f;
  f.method.work = [](FakeMethod& method) {
    draw_in_graph(method);
    reinterpret_cast<int32_t*>(method.output(0))[1] = int32_t(kCodes);
  };
  CHECK_CONTAINS(draw(*f.fused, greedy(), 0, 3).status.error().message, "frame 3, codebook 2: the code predictor gave code 6");
}

TEST(a_failed_call_comes_through) {
  Fixture f;
  f.method.failure = make_error(ErrorCode::ExecutionFailed, "broken");
  CHECK_EQUAL(draw(*f.fused, greedy(), 0, 0).status.error().message, "broken");
}

TEST(a_method_of_another_shape_is_refused) {
  FramePredictorSizes sizes = kSizes;
  sizes.codebook_size = kCodes + 1;
  const auto fused = FusedCodePredictor::create(fused_method(), {sizes, 0, 0.0});
  REQUIRE(!fused.ok());
  CHECK(fused.error().code == ErrorCode::LoadFailed);
}

TEST(frames_allocate_nothing) {
  Fixture f;
  const std::vector<float> hidden(kWidth), embedding(kWidth);
  Drawn drawn;
  const SamplingOptions options = sampled();
  const std::size_t before = test::allocation_count();
  for (std::size_t frame = 0; frame < 8; ++frame) {
    CHECK(f.fused->draw({hidden, embedding, 1, frame}, options, drawn.codes, drawn.sum).ok());
  }
  CHECK_EQUAL(test::allocation_count(), before);
  CHECK(before > 0);
}

TEST(other_options_are_drawn_step_by_step) {
  Fixture f;
  std::size_t loads = 0;
  PredictorChoice choice(std::move(f.fused), [&]() -> Result<std::unique_ptr<FramePredictor>> {
    ++loads;
    return f.steps();
  });
  CHECK(choice.prepare(sampled()).ok());
  CHECK(draw(choice, sampled(), 5, 0).status.ok());
  CHECK_EQUAL(choice.calls(), uint64_t{1});
  CHECK_EQUAL(loads, std::size_t{0});
  SamplingOptions options = sampled();
  options.top_p = 0.5;
  for (std::size_t round = 1; round <= 2; ++round) {
    CHECK(choice.prepare(options).ok());
    CHECK(draw(choice, options, 5, 0).status.ok());
    CHECK_EQUAL(choice.calls(), 1 + kSteps * round);
    CHECK_EQUAL(loads, std::size_t{1});
  }
  CHECK_EQUAL(choice.kv_copied_bytes(), uint64_t{3});
  CHECK(choice.prepare(sampled()).ok());
  CHECK(draw(choice, sampled(), 5, 0).status.ok());
  CHECK_EQUAL(choice.calls(), uint64_t{2 + 2 * kSteps});
}

TEST(without_steps_the_fused_predictors_refusal_stands) {
  Fixture f;
  PredictorChoice choice(std::move(f.fused), {});
  SamplingOptions options = sampled();
  options.top_p = 0.5;
  CHECK_CONTAINS(choice.prepare(options).error().message, "predictor_top_p 0.5");
  CHECK(choice.prepare(sampled()).ok());
}

TEST(steps_that_cannot_be_loaded_or_do_not_fit_are_an_error) {
  Fixture f;
  bool foreign = false;
  const FramePredictorSizes other{kWidth + 1, kGroups, kCodes};
  PredictorChoice choice(std::move(f.fused), [&]() -> Result<std::unique_ptr<FramePredictor>> {
    if (!foreign) {
      return make_error(ErrorCode::LoadFailed, "no file");
    }
    auto method = std::make_unique<FakeMethod>(
        std::vector<TensorSpec>{tensor(ElementType::Float32, {3}), tensor(ElementType::Float32, {3}),
                                tensor(ElementType::Float32, {int32_t(kSteps), int32_t(kCodes)}),
                                tensor(ElementType::Float32, {1})},
        std::vector<TensorSpec>{tensor(ElementType::Int32, {int32_t(kSteps)}), tensor(ElementType::Float32, {3})});
    return std::unique_ptr<FramePredictor>(
        std::move(FusedCodePredictor::create(std::move(method), {other, 0, 0.0}).value()));
  });
  SamplingOptions options = sampled();
  options.top_p = 0.5;
  CHECK_EQUAL(choice.prepare(options).error().message, "no file");
  foreign = true;
  CHECK_CONTAINS(choice.prepare(options).error().message, "has other sizes");
}

}  // namespace kz
