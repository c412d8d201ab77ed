#pragma once

#include <memory>
#include <vector>

#include "code_predictor.h"
#include "method.h"

namespace kz {

/// Steps of a method without a cache: each call scores a frame's whole sequence anew, and one row of the scores is new.
///
///   input    embeds float32 [1, code_groups, D]: the talker's hidden state, then the embeddings of the codes so far
///   output   scores float32 [code_groups - 1, codebook_size]; row i depends on rows up to i + 1 of the input
///
/// Nothing allocates after creation.
class ScoringCodePredictor final : public CodePredictor {
 public:
  /// LoadFailed when `method` does not have the shape. Of `sizes`, what concerns caches is not looked at.
  static Result<std::unique_ptr<CodePredictor>> create(std::unique_ptr<Method> method, const CodePredictorSizes& sizes);

  const CodePredictorSizes& sizes() const override { return sizes_; }
  Result<Span<float>> start_frame(Span<const float> hidden, Span<const float> embedding) override;
  Result<Span<float>> next_codebook(Span<const float> embedding) override;
  uint64_t calls() const override { return calls_; }
  uint64_t kv_copied_bytes() const override { return 0; }

 private:
  ScoringCodePredictor(std::unique_ptr<Method> method, const CodePredictorSizes& sizes);

  Status check_method() const;
  Status bind();
  void set_row(std::size_t row, Span<const float> embedding);
  Result<Span<float>> score();

  std::unique_ptr<Method> method_;
  CodePredictorSizes sizes_;
  std::vector<float> embeds_;  ///< [code_groups, D], then slack
  std::vector<float> scores_;  ///< [code_groups - 1, codebook_size]
  std::size_t rows_ = 0;       ///< of `embeds_` that belong to this frame
  uint64_t calls_ = 0;
};

}  // namespace kz
