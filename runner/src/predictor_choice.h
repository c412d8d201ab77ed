#pragma once

#include <functional>
#include <memory>

#include "frame_predictor.h"

namespace kz {

/// Draws with the fused predictor where that can draw as asked, otherwise step by step.
class PredictorChoice final : public FramePredictor {
 public:
  using Loader = std::function<Result<std::unique_ptr<FramePredictor>>()>;

  /// `load_steps` is called by the first `prepare` that needs it, if any, and may be empty.
  PredictorChoice(std::unique_ptr<FramePredictor> fused, Loader load_steps);

  const FramePredictorSizes& sizes() const override { return fused_->sizes(); }
  Status prepare(const SamplingOptions& options) override;
  Status draw(const FrameStart& start, const SamplingOptions& options, Span<int16_t> codes, Span<float> embedding_sum) override;
  uint64_t calls() const override;
  uint64_t kv_copied_bytes() const override;
  double predictor_ms() const override;
  double sample_ms() const override;

 private:
  Status load_steps();

  std::unique_ptr<FramePredictor> fused_;
  std::unique_ptr<FramePredictor> steps_;  ///< null until needed
  Loader load_steps_;
  FramePredictor* chosen_;
};

}  // namespace kz
