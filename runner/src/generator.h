#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "code_history.h"
#include "codec_embeddings.h"
#include "error.h"
#include "frame_predictor.h"
#include "request.h"
#include "sampler.h"
#include "span.h"
#include "talker.h"

namespace kz {

/// Where frames go, and where a cancellation comes from. Called on the generating thread, between two steps.
class FrameSink {
 public:
  virtual ~FrameSink() = default;

  /// `codes` [code_groups] are valid during the call only. An error ends the generation with it.
  virtual Status on_frame(std::size_t index, Span<const int16_t> codes) = 0;

  /// Asked before every prompt chunk and every frame.
  virtual bool is_cancelled() = 0;
};

enum class StopReason { Eos, FrameCap, Cancelled };

/// The protocol's name of `reason`; a string literal.
const char* stop_reason_name(StopReason reason);

/// What a generation did. Times are totals over all its frames, in wall milliseconds.
struct Generation {
  StopReason stop_reason = StopReason::FrameCap;
  std::size_t frames = 0;
  double prefill_ms = 0.0;
  double talker_ms = 0.0;
  double predictor_ms = 0.0;
  double sample_ms = 0.0;  ///< sampling of all codebooks and embedding lookups
  uint64_t kv_copied_bytes = 0;
  double calls_per_frame = 0.0;  ///< program calls a whole frame takes
  double npu_calls_per_frame = 0.0;  ///< those of them that run on the NPU
  double kv_copied_bytes_per_step = 0.0;  ///< of `kv_copied_bytes`, what a talker step adds
};

/// The generation loop: prompt in, frames out. One-shot, streaming, batch and serving differ only in the sink.
/// The parts given to it must fit each other (same hidden size and code groups) and outlive it. Not thread-safe.
/// After construction nothing allocates, whatever the number of frames.
class Generator {
 public:
  Generator(Talker& talker, FramePredictor& predictor, const CodecEmbeddings& embeddings);

  /// Runs `request` to its end. Errors: BadRequest (another hidden size, options the predictor cannot draw with), TooLong (the prompt leaves no room for a frame),
  /// NonFiniteLogits (names frame and codebook), and whatever models and sink report. The next run starts afresh either way.
  Result<Generation> run(const GenerateRequest& request, FrameSink& sink);

 private:
  Status check(const GenerateRequest& request) const;
  std::size_t frame_cap(const GenerateRequest& request) const;
  Result<StopReason> generate_frames(const GenerateRequest& request, FrameSink& sink);
  Result<bool> prefill(const GenerateRequest& request, FrameSink& sink);
  Result<int32_t> draw_first_code(const GenerateRequest& request, std::size_t frame);
  Status draw_other_codes(const GenerateRequest& request, std::size_t frame, int32_t first_code);
  Status advance_talker(const GenerateRequest& request, std::size_t frame);

  /// What single frames and steps of the current run came to. A run's last frame may go without a talker step.
  struct Tally {
    uint64_t talker_steps = 0;
    uint64_t talker_npu_calls = 0;
    uint64_t predictor_npu_calls = 0;
    uint64_t step_copied_bytes = 0;
  };
  void tell_averages();

  Talker& talker_;
  FramePredictor& predictor_;
  const CodecEmbeddings& embeddings_;
  Sampler sampler_;
  CodeHistory history_;
  std::vector<int16_t> codes_;    ///< [code_groups] of the current frame
  std::vector<float> embedding_;  ///< [hidden_size] of codebook 0's code
  std::vector<float> next_;       ///< [hidden_size], the talker's next input
  Generation done_;               ///< of the current run, so far
  Tally tally_;
};

}  // namespace kz
