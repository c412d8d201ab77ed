#include "predictor_choice.h"

#include <utility>

namespace kz {

PredictorChoice::PredictorChoice(std::unique_ptr<FramePredictor> fused, Loader load_steps)
    : fused_(std::move(fused)), load_steps_(std::move(load_steps)), chosen_(fused_.get()) {}

Status PredictorChoice::prepare(const SamplingOptions& options) {
  Status fused = fused_->prepare(options);
  if (fused.ok() || !load_steps_) {
    chosen_ = fused_.get();
    return fused;
  }
  KZ_TRY(load_steps());
  chosen_ = steps_.get();
  return steps_->prepare(options);
}

Status PredictorChoice::load_steps() {
  if (steps_ != nullptr) {
    return {};
  }
  KZ_TRY_ASSIGN(steps_, load_steps_());
  const FramePredictorSizes& steps = steps_->sizes();
  const FramePredictorSizes& fused = fused_->sizes();
  if (steps.hidden_size != fused.hidden_size || steps.code_groups != fused.code_groups ||
      steps.codebook_size != fused.codebook_size) {
    steps_.reset();
    return make_error(ErrorCode::LoadFailed,
                      "the step-by-step code predictor has other sizes than the fused one; export the checkpoint again with "
                      "kz export");
  }
  return {};
}

Status PredictorChoice::draw(const FrameStart& start, const SamplingOptions& options, Span<int16_t> codes,
                             Span<float> embedding_sum) {
  return chosen_->draw(start, options, codes, embedding_sum);
}

uint64_t PredictorChoice::calls() const { return fused_->calls() + (steps_ != nullptr ? steps_->calls() : 0); }

uint64_t PredictorChoice::kv_copied_bytes() const {
  return fused_->kv_copied_bytes() + (steps_ != nullptr ? steps_->kv_copied_bytes() : 0);
}

double PredictorChoice::predictor_ms() const {
  return fused_->predictor_ms() + (steps_ != nullptr ? steps_->predictor_ms() : 0.0);
}

double PredictorChoice::sample_ms() const { return fused_->sample_ms() + (steps_ != nullptr ? steps_->sample_ms() : 0.0); }

}  // namespace kz
