#pragma once

#include <cstddef>
#include <cstdint>

#include "error.h"
#include "span.h"

namespace kz {

/// Sizes of a code predictor, from its program's constants.
struct CodePredictorSizes {
  std::size_t layers = 0;
  std::size_t kv_heads = 0;
  std::size_t head_dim = 0;
  std::size_t hidden_size = 0;            ///< of the embeddings it takes; the talker's
  std::size_t predictor_hidden_size = 0;  ///< of its own layers
  std::size_t code_groups = 0;
  std::size_t codebook_size = 0;
};

/// The model that predicts codebooks 1, 2, ... of one frame in turn. Not thread-safe.
class CodePredictor {
 public:
  virtual ~CodePredictor() = default;

  virtual const CodePredictorSizes& sizes() const = 0;

  /// Starts a frame from the talker's hidden state and the embedding of codebook 0's code, both [hidden_size]; returns the
  /// scores of codebook 1 [codebook_size], which the caller may overwrite. Valid until the next call.
  virtual Result<Span<float>> start_frame(Span<const float> hidden, Span<const float> embedding) = 0;

  /// Continues the frame with the embedding [hidden_size] of the code just drawn; returns the next codebook's scores. At most
  /// code_groups - 2 times a frame.
  virtual Result<Span<float>> next_codebook(Span<const float> embedding) = 0;

  /// Program calls so far.
  virtual uint64_t calls() const = 0;
  /// Bytes of keys and values copied so far because a program could not use the cache in place.
  virtual uint64_t kv_copied_bytes() const = 0;
};

}  // namespace kz
