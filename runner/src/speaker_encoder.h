#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "error.h"
#include "method.h"
#include "program.h"
#include "span.h"

namespace kz {

/// Sizes of a speaker encoder, from its program's constants.
struct SpeakerEncoderSizes {
  std::size_t mel_bins = 0;
  std::size_t min_mel_frames = 0;
  std::size_t max_mel_frames = 0;
  std::size_t embedding_size = 0;
  std::size_t sample_rate = 0;  ///< Hz, of the audio the mel is made from
};

/// Turns a mel spectrogram into a speaker embedding. Method `encode` of speaker_encoder.pte. Not thread-safe.
class SpeakerEncoder {
 public:
  /// LoadFailed when the program's constants or method do not fit the contract.
  static Result<std::unique_ptr<SpeakerEncoder>> load(const Program& program);

  const SpeakerEncoderSizes& sizes() const { return sizes_; }

  /// Embedding [embedding_size] of `mel` [mel_frames, mel_bins], min_mel_frames to max_mel_frames long. Valid until the next
  /// call. Errors: NonFiniteEmbedding, ExecutionFailed.
  Result<Span<const float>> encode(Span<const float> mel);

 private:
  SpeakerEncoder(const SpeakerEncoderSizes& sizes, std::unique_ptr<Method> method);
  Status check_method() const;

  SpeakerEncoderSizes sizes_;
  std::unique_ptr<Method> method_;
  std::vector<float> mel_;  ///< a copy with slack behind it
  std::vector<float> embedding_;
};

}  // namespace kz
