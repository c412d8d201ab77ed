#pragma once

#include <memory>
#include <vector>

#include "error.h"
#include "method.h"
#include "span.h"

namespace kz {

/// One method of a speech decoder: what it makes of a chunk, with state that is carried from chunk to chunk.
///
///   inputs   a chunk, then states float32
///   outputs  what becomes of the chunk, float32, then the new states
///
/// Nothing allocates after creation. Not thread-safe.
class DecoderSegment {
 public:
  /// LoadFailed when inputs and outputs do not fit each other.
  static Result<std::unique_ptr<DecoderSegment>> create(std::unique_ptr<Method> method);

  const TensorSpec& input() const { return method_->inputs()[0]; }
  std::size_t state_count() const { return states_.size(); }

  /// Zeroes the states.
  void reset();

  /// Runs on `chunk`, of the input's type and of shape `sizes`, from the states kept last.
  Status run(const void* chunk, Span<const int32_t> sizes);

  /// The states after the last run are those the next one starts from.
  void keep() { states_.swap(next_states_); }

  /// Of the last run: as many elements as the output has at its upper bound, slack behind them.
  Span<float> output() { return {output_.data(), method_->outputs()[0].elements()}; }

 private:
  explicit DecoderSegment(std::unique_ptr<Method> method) : method_(std::move(method)) {}

  Status check() const;
  void allocate();
  Status bind_states();

  std::unique_ptr<Method> method_;
  std::vector<float> output_;
  /// States are read from one set of buffers and written to the other, which then trade places: nothing is copied.
  std::vector<std::vector<float>> states_;
  std::vector<std::vector<float>> next_states_;
};

}  // namespace kz
