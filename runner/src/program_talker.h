#pragma once

#include <memory>

#include "program.h"
#include "talker.h"
#include "talker_steps.h"

namespace kz {

/// The talker of a bundle: methods `prefill` and `decode` of talker.pte on one KV cache.
class ProgramTalker final : public Talker {
 public:
  /// LoadFailed when the program's constants or methods do not fit the contract.
  static Result<std::unique_ptr<ProgramTalker>> load(const Program& program);

  const TalkerSizes& sizes() const override { return sizes_; }
  void reset() override { steps_->reset(); }
  Status prefill(Span<const float> embeds) override { return steps_->prefill(embeds); }
  Status decode(Span<const float> embed) override { return steps_->decode(embed); }
  Span<float> logits() override { return steps_->result(kLogits); }
  Span<const float> hidden() override { return steps_->result(kHidden); }
  uint64_t kv_copied_bytes() const override { return steps_->copied_bytes(); }

 private:
  static constexpr std::size_t kLogits = 0;
  static constexpr std::size_t kHidden = 1;

  ProgramTalker(const TalkerSizes& sizes, std::unique_ptr<TalkerSteps> steps);

  TalkerSizes sizes_;
  std::unique_ptr<TalkerSteps> steps_;
};

}  // namespace kz
