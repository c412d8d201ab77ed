#pragma once

#include <memory>
#include <string>
#include <vector>

#include "codec_embeddings.h"
#include "frame_predictor.h"
#include "manifest.h"

namespace kz {

/// A bundle's frame predictor, and the backends its programs run on.
struct LoadedFramePredictor {
  std::unique_ptr<FramePredictor> predictor;
  std::vector<std::string> backends;
};

/// Loads program `code_predictor`: as one call a frame when it has the method `frame`, otherwise step by step, without a cache
/// when it has the method `score`. Beside the first, `code_predictor_steps` is loaded by the first request that needs it. `embeddings` must outlive the result.
Result<LoadedFramePredictor> load_frame_predictor(const Manifest& manifest, const CodecEmbeddings& embeddings);

}  // namespace kz
