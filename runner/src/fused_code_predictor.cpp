#include "fused_code_predictor.h"

#include <algorithm>
#include <utility>

#include "noise.h"
#include "stats.h"

namespace kz {
namespace {

constexpr std::size_t kInputs = 4;
constexpr std::size_t kOutputs = 2;
constexpr std::size_t kSlackElements = Method::kReadSlackBytes / sizeof(float);

bool is_tensor(const TensorSpec& spec, ElementType type, std::size_t elements) {
  return spec.type == type && spec.elements() == elements;
}

/// 0 for every way to say that all codes stay.
std::size_t effective_top_k(int64_t top_k, std::size_t codebook_size) {
  const auto count = static_cast<uint64_t>(top_k);
  return count < codebook_size ? static_cast<std::size_t>(count) : 0;
}

}  // namespace

Result<std::unique_ptr<FusedCodePredictor>> FusedCodePredictor::create(std::unique_ptr<Method> method, const FusedShape& shape) {
  std::unique_ptr<FusedCodePredictor> predictor(new FusedCodePredictor(std::move(method), shape));
  KZ_TRY(predictor->check_method());
  KZ_TRY(predictor->bind());
  return predictor;
}

FusedCodePredictor::FusedCodePredictor(std::unique_ptr<Method> method, const FusedShape& shape)
    : method_(std::move(method)),
      shape_(shape),
      hidden_(shape.sizes.hidden_size + kSlackElements),
      embedding_(shape.sizes.hidden_size + kSlackElements),
      noise_((shape.sizes.code_groups - 1) * shape.sizes.codebook_size + kSlackElements),
      inverse_temperature_(1 + kSlackElements),
      codes_(shape.sizes.code_groups - 1),
      embedding_sum_(shape.sizes.hidden_size) {}

Status FusedCodePredictor::check_method() const {
  const FramePredictorSizes& sizes = shape_.sizes;
  const std::size_t steps = sizes.code_groups - 1;
  const auto& inputs = method_->inputs();
  const auto& outputs = method_->outputs();
  const bool fits = inputs.size() == kInputs && outputs.size() == kOutputs &&
                    is_tensor(inputs[0], ElementType::Float32, sizes.hidden_size) &&
                    is_tensor(inputs[1], ElementType::Float32, sizes.hidden_size) &&
                    is_tensor(inputs[2], ElementType::Float32, steps * sizes.codebook_size) &&
                    is_tensor(inputs[3], ElementType::Float32, 1) && is_tensor(outputs[0], ElementType::Int32, steps) &&
                    is_tensor(outputs[1], ElementType::Float32, sizes.hidden_size);
  if (!fits) {
    return make_error(ErrorCode::LoadFailed,
                      "method %s has another shape than the bundle's sizes ask for; export the checkpoint again with kz export",
                      method_->name().c_str());
  }
  return {};
}

Status FusedCodePredictor::bind() {
  const void* const inputs[kInputs] = {hidden_.data(), embedding_.data(), noise_.data(), inverse_temperature_.data()};
  for (std::size_t index = 0; index < kInputs; ++index) {
    KZ_TRY(method_->set_input(index, inputs[index], method_->inputs()[index].sizes));
  }
  KZ_TRY(method_->bind_output(0, codes_.data(), codes_.size() * sizeof(int32_t)));
  return method_->bind_output(1, embedding_sum_.data(), embedding_sum_.size() * sizeof(float));
}

Status FusedCodePredictor::prepare(const SamplingOptions& options) {
  constexpr char kRemedy[] = "leave the option out, or export with the step-by-step code predictor too";
  if (options.greedy) {
    return {};
  }
  if (options.top_p < 1.0) {
    return make_error(ErrorCode::BadRequest, "this bundle's code predictor draws without top-p, not with predictor_top_p %g; %s",
                      options.top_p, kRemedy);
  }
  if (effective_top_k(options.top_k, shape_.sizes.codebook_size) != shape_.top_k) {
    return make_error(ErrorCode::BadRequest,
                      "this bundle's code predictor draws from the best %zu codes (0 is all), not with predictor_top_k %lld; %s",
                      shape_.top_k, static_cast<long long>(options.top_k), kRemedy);
  }
  if (options.temperature < shape_.min_temperature) {
    return make_error(ErrorCode::BadRequest,
                      "this bundle's code predictor draws at temperatures from %g, not with predictor_temperature %g; %s",
                      shape_.min_temperature, options.temperature, kRemedy);
  }
  return {};
}

Status FusedCodePredictor::draw(const FrameStart& start, const SamplingOptions& options, Span<int16_t> codes,
                                Span<float> embedding_sum) {
  {
    const TimedScope timed(sample_ms_);
    std::copy(start.hidden.begin(), start.hidden.end(), hidden_.begin());
    std::copy(start.embedding.begin(), start.embedding.end(), embedding_.begin());
    fill_noise(start, options.greedy);
    inverse_temperature_[0] = options.greedy ? 1.0f : static_cast<float>(1.0 / options.temperature);
  }
  KZ_TRY(execute());
  std::copy(embedding_sum_.begin(), embedding_sum_.end(), embedding_sum.begin());
  return take_codes(start.frame, codes);
}

void FusedCodePredictor::fill_noise(const FrameStart& start, bool greedy) {
  if (greedy && noise_is_zero_) {
    return;
  }
  const std::size_t width = shape_.sizes.codebook_size;
  for (std::size_t step = 0; step < codes_.size(); ++step) {
    GumbelNoise noise(start.seed, static_cast<uint32_t>(start.frame), static_cast<uint32_t>(step + 1));
    for (std::size_t code = 0; code < width; ++code) {
      noise_[step * width + code] = greedy ? 0.0f : static_cast<float>(noise.at(static_cast<uint32_t>(code)));
    }
  }
  noise_is_zero_ = greedy;
}

Status FusedCodePredictor::execute() {
  const TimedScope timed(predictor_ms_);
  KZ_TRY(method_->execute());
  ++calls_;
  return {};
}

/// Scores stay inside the method: only what reaches the sum of embeddings can be seen not to be a number.
Status FusedCodePredictor::take_codes(std::size_t frame, Span<int16_t> codes) const {
  if (first_non_finite(embedding_sum_) < embedding_sum_.size()) {
    return make_error(ErrorCode::NonFiniteLogits,
                      "frame %zu: the code predictor gave a score that is not finite; export the checkpoint again in another "
                      "precision",
                      frame);
  }
  for (std::size_t step = 0; step < codes_.size(); ++step) {
    if (codes_[step] < 0 || static_cast<std::size_t>(codes_[step]) >= shape_.sizes.codebook_size) {
      return make_error(ErrorCode::ExecutionFailed,
                        "frame %zu, codebook %zu: the code predictor gave code %d, which does not exist; export the checkpoint "
                        "again with kz export",
                        frame, step + 1, codes_[step]);
    }
    codes[step] = static_cast<int16_t>(codes_[step]);
  }
  return {};
}

}  // namespace kz
