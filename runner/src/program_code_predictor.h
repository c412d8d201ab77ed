#pragma once

#include <memory>
#include <vector>

#include "code_predictor.h"
#include "kv_cache.h"
#include "method.h"
#include "program.h"
#include "transformer_pass.h"

namespace kz {

/// The code predictor of a bundle: methods `prefill` (2 tokens), `decode` and `head_0`, `head_1`, ... of code_predictor.pte.
/// Each step runs one decode and the one head it needs.
class ProgramCodePredictor final : public CodePredictor {
 public:
  /// LoadFailed when the program's constants or methods do not fit the contract.
  static Result<std::unique_ptr<ProgramCodePredictor>> load(const Program& program);

  const CodePredictorSizes& sizes() const override { return sizes_; }
  Result<Span<float>> start_frame(Span<const float> hidden, Span<const float> embedding) override;
  Result<Span<float>> next_codebook(Span<const float> embedding) override;
  uint64_t calls() const override { return prefill_->calls() + decode_->calls() + head_calls_; }
  uint64_t kv_copied_bytes() const override { return prefill_->copied_bytes() + decode_->copied_bytes(); }

 private:
  using Heads = std::vector<std::unique_ptr<Method>>;

  ProgramCodePredictor(const CodePredictorSizes& sizes, KvCache cache, std::unique_ptr<TransformerPass> prefill,
                       std::unique_ptr<TransformerPass> decode, Heads heads);
  Status bind_heads();
  Result<Span<float>> run_head(Span<const float> hidden);

  CodePredictorSizes sizes_;
  KvCache cache_;
  std::unique_ptr<TransformerPass> prefill_;
  std::unique_ptr<TransformerPass> decode_;
  Heads heads_;
  std::size_t next_head_ = 0;
  uint64_t head_calls_ = 0;
  std::vector<float> frame_start_;  ///< [2, hidden_size]
  std::vector<float> logits_;       ///< [codebook_size], then slack
};

}  // namespace kz
