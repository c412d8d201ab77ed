#pragma once

#include <memory>
#include <vector>

#include "frame_predictor.h"
#include "method.h"

namespace kz {

/// What the method of a fused code predictor was made for.
struct FusedShape {
  FramePredictorSizes sizes;
  std::size_t top_k = 0;         ///< codes a draw chooses from; 0 for all
  double min_temperature = 0.0;  ///< the least temperature whose inverse the method represents
};

/// A whole frame as one call of a method that draws, looks up and feeds back inside:
///
///   inputs   hidden [1, 1, D], embedding of codebook 0's code [1, 1, D], Gumbel noise [code_groups - 1, codebook_size],
///            inverse temperature [1]; all float32
///   outputs  codes int32 [1, code_groups - 1], sum of the frame's embeddings float32 [1, 1, D]
///
/// It draws greedily (noise of zeros), or without top-p from the top k it was made for.
class FusedCodePredictor final : public FramePredictor {
 public:
  /// LoadFailed when `method` does not have the shape.
  static Result<std::unique_ptr<FusedCodePredictor>> create(std::unique_ptr<Method> method, const FusedShape& shape);

  const FramePredictorSizes& sizes() const override { return shape_.sizes; }
  /// BadRequest, naming the option, for what the method cannot draw with.
  Status prepare(const SamplingOptions& options) override;
  Status draw(const FrameStart& start, const SamplingOptions& options, Span<int16_t> codes, Span<float> embedding_sum) override;
  uint64_t calls() const override { return calls_; }
  uint64_t kv_copied_bytes() const override { return 0; }
  double predictor_ms() const override { return predictor_ms_; }
  double sample_ms() const override { return sample_ms_; }

 private:
  FusedCodePredictor(std::unique_ptr<Method> method, const FusedShape& shape);

  Status check_method() const;
  Status bind();
  void fill_noise(const FrameStart& start, bool greedy);
  Status execute();
  Status take_codes(std::size_t frame, Span<int16_t> codes) const;

  std::unique_ptr<Method> method_;
  FusedShape shape_;
  std::vector<float> hidden_;     ///< [D], then slack, as all inputs
  std::vector<float> embedding_;  ///< [D]
  std::vector<float> noise_;      ///< [code_groups - 1, codebook_size]
  std::vector<float> inverse_temperature_;
  std::vector<int32_t> codes_;        ///< [code_groups - 1]
  std::vector<float> embedding_sum_;  ///< [D]
  bool noise_is_zero_ = true;
  uint64_t calls_ = 0;
  double predictor_ms_ = 0.0;
  double sample_ms_ = 0.0;
};

}  // namespace kz
