#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "decoder_segment.h"
#include "error.h"
#include "method.h"
#include "span.h"

namespace kz {

/// Sizes of a speech decoder, from its program's constants.
struct SpeechDecoderSizes {
  std::size_t code_groups = 0;
  std::size_t codebook_size = 0;
  std::size_t max_frames = 0;  ///< of one call
  std::size_t samples_per_frame = 0;
  std::size_t sample_rate = 0;  ///< Hz
};

/// Turns frames of codes into sound, carrying its state from call to call: frames decoded in pieces of any size give the samples
/// of one go. Not thread-safe.
///
/// One method, or several that hand chunks on (parts of a decoder may be on an NPU). A method on an NPU takes chunks of exactly
/// max_frames frames. A chunk that is not full yet is decoded with frames of code 0 behind its own, which no earlier frame hears;
/// the next frames are decoded with it once more, from the states before it.
class SpeechDecoder {
 public:
  /// `methods` in the order they are run; the first takes codes int64 or int32 [1, code_groups, frames], the last gives audio
  /// [1, frames * samples_per_frame]. `fixed_frames`: they take max_frames frames, no fewer. LoadFailed when they do not fit the
  /// sizes or each other.
  static Result<std::unique_ptr<SpeechDecoder>> create(const SpeechDecoderSizes& sizes,
                                                       std::vector<std::unique_ptr<Method>> methods, bool fixed_frames);

  const SpeechDecoderSizes& sizes() const { return sizes_; }
  std::size_t state_count() const;

  /// Forgets all frames: the next one is the first of an utterance.
  void reset();

  /// Decodes `codes` [frames, code_groups] into `audio` [frames * samples_per_frame], in [-1, 1]. On an error (BadPayload: a
  /// code outside the codebook; NonFiniteAudio; ExecutionFailed) the state is reset.
  Status decode(Span<const int16_t> codes, Span<float> audio);

 private:
  using Segments = std::vector<std::unique_ptr<DecoderSegment>>;

  SpeechDecoder(const SpeechDecoderSizes& sizes, Segments segments, bool fixed_frames);

  Status check_segments() const;
  Status check_codes(Span<const int16_t> codes) const;
  Status decode_pieces(Span<const int16_t> codes, Span<float> audio);
  Status decode_piece(Span<const int16_t> codes, Span<float> audio);
  void set_code(std::size_t index, int16_t code);
  void fill_codes(std::size_t frames);
  Status run_segments(std::size_t frames);

  SpeechDecoderSizes sizes_;
  Segments segments_;
  bool fixed_frames_;
  std::vector<int16_t> chunk_;        ///< [max_frames, code_groups]: frames of the current chunk
  std::size_t pending_ = 0;           ///< frames of `chunk_` that were decoded, but not kept
  std::vector<int64_t> wide_codes_;   ///< [code_groups, frames], for a first method that takes int64
  std::vector<int32_t> short_codes_;  ///< the same for int32
};

}  // namespace kz
