#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "error.h"
#include "message.h"
#include "sampler.h"

namespace kz {

/// Speak a prompt: the `generate` message, checked against nothing but itself.
struct GenerateRequest {
  std::string id;
  std::size_t hidden_size = 0;  ///< D
  std::vector<float> prompt;    ///< [tokens, D], at least one token
  std::vector<float> trailing;  ///< [tokens, D], text that is added frame by frame; may be empty
  std::vector<float> pad;       ///< [D], added once `trailing` is used up
  uint64_t seed = 0;
  int64_t max_frames = 1;
  int64_t min_frames = 0;  ///< EOS cannot come before that many frames
  SamplingOptions talker;
  double repetition_penalty = 1.0;
  SamplingOptions predictor;
};

/// Turn codes into sound: the `decode` message.
struct DecodeRequest {
  std::string id;
  std::size_t frames = 0;
  bool reset = false;          ///< forget the frames of earlier requests first
  std::vector<int16_t> codes;  ///< [frames, code_groups]
};

/// Turn a mel spectrogram into a speaker embedding: the `embed` message.
struct EmbedRequest {
  std::string id;
  std::size_t mel_frames = 0;
  std::size_t mel_bins = 0;
  std::vector<float> mel;  ///< [mel_frames, mel_bins]
};

/// Each fails with BadRequest when a field is missing, unknown, of the wrong type or out of range (the message names it), and
/// with BadPayload when the payload has another size than the header says or holds a number that is not finite.
Result<GenerateRequest> parse_generate(const Message& message);
Result<DecodeRequest> parse_decode(const Message& message, std::size_t code_groups);
Result<EmbedRequest> parse_embed(const Message& message);

}  // namespace kz
