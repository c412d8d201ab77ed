#pragma once

#include <memory>
#include <string>
#include <vector>

#include "manifest.h"
#include "speech_decoder.h"

namespace kz {

/// A bundle's speech decoder, and the backends its programs run on.
struct LoadedSpeechDecoder {
  std::unique_ptr<SpeechDecoder> decoder;
  std::vector<std::string> backends;
};

/// Loads program `speech_decoder`: its method `decode`; or, where constant `segments` says how many, methods `decode_0`,
/// `decode_1`, ..., which may be in program `speech_decoder_npu` too.
Result<LoadedSpeechDecoder> load_speech_decoder(const Manifest& manifest);

}  // namespace kz
