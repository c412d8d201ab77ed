#include "generator.h"

#include <algorithm>

#include "npu_calls.h"
#include "stats.h"

namespace kz {
namespace {

void add_to(Span<float> sum, Span<const float> term) {
  for (std::size_t index = 0; index < sum.size(); ++index) {
    sum[index] += term[index];
  }
}

}  // namespace

const char* stop_reason_name(StopReason reason) {
  switch (reason) {
    case StopReason::Eos:
      return "eos";
    case StopReason::FrameCap:
      return "frame_cap";
    case StopReason::Cancelled:
      return "cancelled";
  }
  return "unknown";
}

Generator::Generator(Talker& talker, FramePredictor& predictor, const CodecEmbeddings& embeddings)
    : talker_(talker),
      predictor_(predictor),
      embeddings_(embeddings),
      sampler_(talker.sizes().vocab_size),
      history_(talker.sizes().vocab_size),
      codes_(talker.sizes().code_groups),
      embedding_(talker.sizes().hidden_size),
      next_(talker.sizes().hidden_size) {}

Result<Generation> Generator::run(const GenerateRequest& request, FrameSink& sink) {
  KZ_TRY(check(request));
  KZ_TRY(predictor_.prepare(request.predictor));
  talker_.reset();
  history_.clear();
  done_ = Generation{};
  tally_ = Tally{};
  const uint64_t copied_before = talker_.kv_copied_bytes() + predictor_.kv_copied_bytes();
  const uint64_t calls_before = predictor_.calls();
  const double predictor_before = predictor_.predictor_ms();
  const double sample_before = predictor_.sample_ms();
  KZ_TRY_ASSIGN(const StopReason reason, generate_frames(request, sink));
  done_.stop_reason = reason;
  done_.kv_copied_bytes = talker_.kv_copied_bytes() + predictor_.kv_copied_bytes() - copied_before;
  done_.predictor_ms = predictor_.predictor_ms() - predictor_before;
  done_.sample_ms += predictor_.sample_ms() - sample_before;
  if (done_.frames > 0) {
    const auto predictor_calls = static_cast<double>(predictor_.calls() - calls_before);
    done_.calls_per_frame = 1.0 + predictor_calls / static_cast<double>(done_.frames);
  }
  tell_averages();
  return done_;
}

void Generator::tell_averages() {
  const auto frames = static_cast<double>(std::max<std::size_t>(done_.frames, 1));
  const auto steps = static_cast<double>(std::max<uint64_t>(tally_.talker_steps, 1));
  done_.npu_calls_per_frame =
      static_cast<double>(tally_.talker_npu_calls) / steps + static_cast<double>(tally_.predictor_npu_calls) / frames;
  done_.kv_copied_bytes_per_step = static_cast<double>(tally_.step_copied_bytes) / steps;
}

Result<StopReason> Generator::generate_frames(const GenerateRequest& request, FrameSink& sink) {
  KZ_TRY_ASSIGN(const bool prefilled, prefill(request, sink));
  if (!prefilled) {
    return StopReason::Cancelled;
  }
  const std::size_t cap = frame_cap(request);
  for (std::size_t frame = 0;; ++frame) {
    if (sink.is_cancelled()) {
      return StopReason::Cancelled;
    }
    KZ_TRY_ASSIGN(const int32_t first_code, draw_first_code(request, frame));
    if (first_code == talker_.sizes().codec_eos_id) {
      return StopReason::Eos;
    }
    KZ_TRY(draw_other_codes(request, frame, first_code));
    KZ_TRY(sink.on_frame(frame, codes_));
    done_.frames = frame + 1;
    if (done_.frames == cap) {
      return StopReason::FrameCap;
    }
    KZ_TRY(advance_talker(request, frame));
  }
}

Status Generator::check(const GenerateRequest& request) const {
  const TalkerSizes& sizes = talker_.sizes();
  if (request.hidden_size != sizes.hidden_size) {
    return make_error(ErrorCode::BadRequest,
                      "the prompt is %zu wide, this talker needs %zu; use a voice and tables of this bundle", request.hidden_size,
                      sizes.hidden_size);
  }
  const std::size_t tokens = request.prompt.size() / sizes.hidden_size;
  if (tokens >= sizes.context_length) {
    return make_error(ErrorCode::TooLong,
                      "the prompt has %zu tokens, %zu more than leave room for a frame in a context of %zu; shorten the text or "
                      "export with a larger --context",
                      tokens, tokens - sizes.context_length + 1, sizes.context_length);
  }
  return {};
}

std::size_t Generator::frame_cap(const GenerateRequest& request) const {
  const std::size_t tokens = request.prompt.size() / request.hidden_size;
  return std::min(static_cast<std::size_t>(request.max_frames), talker_.sizes().context_length - tokens);
}

/// Only the first chunk is shorter than the program's, so that pad rows fall in front of the cache. False when cancelled.
Result<bool> Generator::prefill(const GenerateRequest& request, FrameSink& sink) {
  const TimedScope timed(done_.prefill_ms);
  const std::size_t width = request.hidden_size;
  const std::size_t tokens = request.prompt.size() / width;
  const std::size_t most = talker_.sizes().prefill_tokens;
  std::size_t count = (tokens - 1) % most + 1;
  for (std::size_t first = 0; first < tokens; first += count, count = most) {
    if (sink.is_cancelled()) {
      return false;
    }
    KZ_TRY(talker_.prefill({request.prompt.data() + first * width, count * width}));
  }
  return true;
}

Result<int32_t> Generator::draw_first_code(const GenerateRequest& request, std::size_t frame) {
  const TimedScope timed(done_.sample_ms);
  const TalkerSizes& sizes = talker_.sizes();
  LogitRules rules;
  rules.repetition_penalty = request.repetition_penalty;
  rules.suppress_from = sizes.suppress_from;
  rules.eos = sizes.codec_eos_id;
  rules.forbid_eos = frame < static_cast<std::size_t>(request.min_frames);
  const Span<float> logits = talker_.logits();
  KZ_TRY(expect_finite(logits, frame, 0));
  apply_rules(rules, history_, logits);
  const GumbelNoise noise(request.seed, static_cast<uint32_t>(frame), 0);
  const int32_t code = sampler_.draw(logits, request.talker, noise);
  history_.add(code);
  return code;
}

/// Draws codebooks 1, 2, ... and leaves the sum of all the frame's embeddings in `next_`.
Status Generator::draw_other_codes(const GenerateRequest& request, std::size_t frame, int32_t first_code) {
  codes_[0] = static_cast<int16_t>(first_code);
  embeddings_.copy_row(0, first_code, embedding_);
  const FrameStart start{talker_.hidden(), embedding_, request.seed, frame};
  const uint64_t npu_before = npu_calls();
  KZ_TRY(predictor_.draw(start, request.predictor, {codes_.data() + 1, codes_.size() - 1}, next_));
  tally_.predictor_npu_calls += npu_calls() - npu_before;
  return {};
}

Status Generator::advance_talker(const GenerateRequest& request, std::size_t frame) {
  const TimedScope timed(done_.talker_ms);
  const std::size_t width = request.hidden_size;
  const bool has_text = frame < request.trailing.size() / width;
  add_to(next_, has_text ? Span<const float>(request.trailing.data() + frame * width, width) : Span<const float>(request.pad));
  const uint64_t npu_before = npu_calls();
  const uint64_t copied_before = talker_.kv_copied_bytes();
  KZ_TRY(talker_.decode(next_));
  ++tally_.talker_steps;
  tally_.talker_npu_calls += npu_calls() - npu_before;
  tally_.step_copied_bytes += talker_.kv_copied_bytes() - copied_before;
  return {};
}

}  // namespace kz
