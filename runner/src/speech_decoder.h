#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "error.h"
#include "method.h"
#include "program.h"
#include "span.h"

namespace kz {

/// Sizes of a speech decoder, from its program's constants.
struct SpeechDecoderSizes {
  std::size_t code_groups = 0;
  std::size_t codebook_size = 0;
  std::size_t max_frames = 0;  ///< of one call
  std::size_t samples_per_frame = 0;
  std::size_t sample_rate = 0;  ///< Hz
  std::size_t state_count = 0;
};

/// Turns frames of codes into sound, carrying its state from call to call: frames decoded in pieces of any size give the samples
/// of one go. Method `decode` of speech_decoder.pte. Not thread-safe.
class SpeechDecoder {
 public:
  /// LoadFailed when the program's constants or method do not fit the contract.
  static Result<std::unique_ptr<SpeechDecoder>> load(const Program& program);

  const SpeechDecoderSizes& sizes() const { return sizes_; }

  /// Forgets all frames: the next one is the first of an utterance.
  void reset();

  /// Decodes `codes` [frames, code_groups] into `audio` [frames * samples_per_frame], in [-1, 1]. On an error (BadPayload: a
  /// code outside the codebook; NonFiniteAudio; ExecutionFailed) the state is reset.
  Status decode(Span<const int16_t> codes, Span<float> audio);

 private:
  SpeechDecoder(const SpeechDecoderSizes& sizes, std::unique_ptr<Method> method);

  Status check_method() const;
  void allocate();
  Status check_codes(Span<const int16_t> codes) const;
  Status decode_pieces(Span<const int16_t> codes, Span<float> audio);
  Status decode_piece(Span<const int16_t> codes, Span<float> audio);
  Status bind_states();

  SpeechDecoderSizes sizes_;
  std::unique_ptr<Method> method_;
  std::vector<int64_t> codes_;  ///< [code_groups, frames]
  std::vector<float> audio_;    ///< [max_frames * samples_per_frame]
  /// States are read from one set of buffers and written to the other, which then trade places: nothing is copied.
  std::vector<std::vector<float>> states_;
  std::vector<std::vector<float>> next_states_;
};

}  // namespace kz
