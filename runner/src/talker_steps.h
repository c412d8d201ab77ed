#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "error.h"
#include "program.h"
#include "span.h"
#include "talker.h"

namespace kz {

/// Prefill and decode of a talker on one cache, whichever way its program keeps it. Not thread-safe.
class TalkerSteps {
 public:
  virtual ~TalkerSteps() = default;

  virtual void reset() = 0;
  virtual Status prefill(Span<const float> embeds) = 0;
  virtual Status decode(Span<const float> embed) = 0;

  /// Output `index` of the last call: logits, hidden state.
  virtual Span<float> result(std::size_t index) = 0;

  /// Bytes of keys and values copied so far because they could not be used in place.
  virtual uint64_t copied_bytes() const = 0;
};

/// The steps of talker.pte, by what its constant `past_dynamic` says. LoadFailed when its methods do not fit `sizes`.
Result<std::unique_ptr<TalkerSteps>> load_talker_steps(const Program& program, const TalkerSizes& sizes);

}  // namespace kz
