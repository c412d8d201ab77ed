#pragma once

#include <cstddef>
#include <cstdint>

#include "error.h"
#include "sampler.h"
#include "span.h"

namespace kz {

/// Sizes of what predicts frames.
struct FramePredictorSizes {
  std::size_t hidden_size = 0;  ///< of the talker's hidden state and of the embeddings
  std::size_t code_groups = 0;
  std::size_t codebook_size = 0;
};

/// What the codes of one frame behind codebook 0 depend on.
struct FrameStart {
  Span<const float> hidden;     ///< the talker's hidden state [hidden_size]
  Span<const float> embedding;  ///< of codebook 0's code [hidden_size]
  uint64_t seed = 0;
  std::size_t frame = 0;
};

/// Draws codebooks 1, 2, ... of frames, with the noise of (seed, frame, codebook, code) whatever does the drawing.
/// Not thread-safe; `draw` allocates nothing.
class FramePredictor {
 public:
  virtual ~FramePredictor() = default;

  virtual const FramePredictorSizes& sizes() const = 0;

  /// Gets ready for frames drawn with `options`. BadRequest when it cannot draw with them, LoadFailed when a program that it
  /// needs for them cannot be loaded.
  virtual Status prepare(const SamplingOptions& options) = 0;

  /// Draws the frame's other codes into `codes` [code_groups - 1] and writes the sum of all its embeddings, codebook 0's too,
  /// to `embedding_sum` [hidden_size]. NonFiniteLogits names the frame, and the codebook where it is known. `options` are those
  /// of `prepare`.
  virtual Status draw(const FrameStart& start, const SamplingOptions& options, Span<int16_t> codes,
                      Span<float> embedding_sum) = 0;

  /// Program calls so far.
  virtual uint64_t calls() const = 0;
  /// Bytes of keys and values copied so far because a program could not use the cache in place.
  virtual uint64_t kv_copied_bytes() const = 0;
  /// Wall milliseconds so far in programs, and outside of them: sampling, noise, embedding lookups.
  virtual double predictor_ms() const = 0;
  virtual double sample_ms() const = 0;
};

}  // namespace kz
