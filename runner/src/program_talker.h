#pragma once

#include <memory>

#include "kv_cache.h"
#include "program.h"
#include "talker.h"
#include "transformer_pass.h"

namespace kz {

/// The talker of a bundle: methods `prefill` and `decode` of talker.pte on one KV cache.
class ProgramTalker final : public Talker {
 public:
  /// LoadFailed when the program's constants or methods do not fit the contract.
  static Result<std::unique_ptr<ProgramTalker>> load(const Program& program);

  const TalkerSizes& sizes() const override { return sizes_; }
  void reset() override { cache_.clear(); }
  Status prefill(Span<const float> embeds) override { return run(*prefill_, embeds); }
  Status decode(Span<const float> embed) override { return run(*decode_, embed); }
  Span<float> logits() override { return last_->result(kLogits); }
  Span<const float> hidden() override { return last_->result(kHidden); }
  uint64_t kv_copied_bytes() const override { return prefill_->copied_bytes() + decode_->copied_bytes(); }

 private:
  static constexpr std::size_t kLogits = 0;
  static constexpr std::size_t kHidden = 1;

  ProgramTalker(const TalkerSizes& sizes, KvCache cache, std::unique_ptr<TransformerPass> prefill,
                std::unique_ptr<TransformerPass> decode);
  Status run(TransformerPass& pass, Span<const float> embeds);

  TalkerSizes sizes_;
  KvCache cache_;
  std::unique_ptr<TransformerPass> prefill_;
  std::unique_ptr<TransformerPass> decode_;
  TransformerPass* last_;  ///< whose results are current
};

}  // namespace kz
