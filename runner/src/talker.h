#pragma once

#include <cstddef>
#include <cstdint>

#include "error.h"
#include "span.h"

namespace kz {

/// Sizes of a talker, from its program's constants.
struct TalkerSizes {
  std::size_t context_length = 0;  ///< positions: prompt tokens plus frames
  std::size_t prefill_tokens = 0;  ///< most tokens of one prefill call
  std::size_t layers = 0;
  std::size_t kv_heads = 0;
  std::size_t head_dim = 0;
  std::size_t hidden_size = 0;
  std::size_t vocab_size = 0;
  std::size_t code_groups = 0;
  std::size_t codebook_size = 0;
  int32_t codec_eos_id = 0;
  int32_t suppress_from = 0;  ///< codes from here on are never drawn, but for EOS
};

/// The model that predicts codebook 0, one step a frame. Not thread-safe.
class Talker {
 public:
  virtual ~Talker() = default;

  virtual const TalkerSizes& sizes() const = 0;

  /// Forgets all tokens.
  virtual void reset() = 0;

  /// Appends 1 to prefill_tokens prompt embeddings [tokens, hidden_size].
  virtual Status prefill(Span<const float> embeds) = 0;

  /// Appends one embedding [hidden_size]. The tokens appended so far must be fewer than context_length.
  virtual Status decode(Span<const float> embed) = 0;

  /// Of the last token: scores of codebook 0 [vocab_size], which the caller may overwrite, and the final hidden state
  /// [hidden_size]. Valid until the next prefill or decode.
  virtual Span<float> logits() = 0;
  virtual Span<const float> hidden() = 0;

  /// Bytes of keys and values copied so far because a program could not use the cache in place.
  virtual uint64_t kv_copied_bytes() const = 0;
};

}  // namespace kz
