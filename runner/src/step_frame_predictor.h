#pragma once

#include <memory>
#include <vector>

#include "code_predictor.h"
#include "codec_embeddings.h"
#include "frame_predictor.h"

namespace kz {

/// Frames code by code: scores from the model, drawn and looked up here. Draws with any options.
class StepFramePredictor final : public FramePredictor {
 public:
  /// Both must fit each other; `embeddings` must outlive it.
  StepFramePredictor(std::unique_ptr<CodePredictor> predictor, const CodecEmbeddings& embeddings);

  const FramePredictorSizes& sizes() const override { return sizes_; }
  Status prepare(const SamplingOptions&) override { return {}; }
  Status draw(const FrameStart& start, const SamplingOptions& options, Span<int16_t> codes, Span<float> embedding_sum) override;
  uint64_t calls() const override { return predictor_->calls(); }
  uint64_t kv_copied_bytes() const override { return predictor_->kv_copied_bytes(); }
  double predictor_ms() const override { return predictor_ms_; }
  double sample_ms() const override { return sample_ms_; }

 private:
  Result<Span<float>> predict(const FrameStart& start, std::size_t codebook);

  std::unique_ptr<CodePredictor> predictor_;
  const CodecEmbeddings& embeddings_;
  FramePredictorSizes sizes_;
  Sampler sampler_;
  std::vector<float> embedding_;  ///< [hidden_size] of the code drawn last
  double predictor_ms_ = 0.0;
  double sample_ms_ = 0.0;
};

}  // namespace kz
