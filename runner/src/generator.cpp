#include "generator.h"

#include <algorithm>

#include "stats.h"

namespace kz {
namespace {

std::size_t most_codes(const Talker& talker, const CodePredictor& predictor) {
  return std::max(talker.sizes().vocab_size, predictor.sizes().codebook_size);
}

Status expect_finite(Span<const float> logits, std::size_t frame, std::size_t codebook) {
  if (first_non_finite(logits) < logits.size()) {
    return make_error(
        ErrorCode::NonFiniteLogits,
        "frame %zu, codebook %zu: the model gave a score that is not finite; export the checkpoint again, with --quant "
        "fp32 if it was quantised",
        frame, codebook);
  }
  return {};
}

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

Generator::Generator(Talker& talker, CodePredictor& predictor, const CodecEmbeddings& embeddings)
    : talker_(talker),
      predictor_(predictor),
      embeddings_(embeddings),
      sampler_(most_codes(talker, predictor)),
      history_(talker.sizes().vocab_size),
      codes_(talker.sizes().code_groups),
      embedding_(talker.sizes().hidden_size),
      next_(talker.sizes().hidden_size) {}

Result<Generation> Generator::run(const GenerateRequest& request, FrameSink& sink) {
  KZ_TRY(check(request));
  talker_.reset();
  history_.clear();
  done_ = Generation{};
  const uint64_t copied_before = talker_.kv_copied_bytes() + predictor_.kv_copied_bytes();
  const uint64_t calls_before = predictor_.calls();
  KZ_TRY_ASSIGN(const StopReason reason, generate_frames(request, sink));
  done_.stop_reason = reason;
  done_.kv_copied_bytes = talker_.kv_copied_bytes() + predictor_.kv_copied_bytes() - copied_before;
  if (done_.frames > 0) {
    const auto predictor_calls = static_cast<double>(predictor_.calls() - calls_before);
    done_.calls_per_frame = 1.0 + predictor_calls / static_cast<double>(done_.frames);
  }
  return done_;
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
  const int32_t code = draw(logits, request.talker, request.seed, frame, 0);
  history_.add(code);
  return code;
}

/// Draws codebooks 1, 2, ... and leaves the sum of all the frame's embeddings in `next_`.
Status Generator::draw_other_codes(const GenerateRequest& request, std::size_t frame, int32_t first_code) {
  codes_[0] = static_cast<int16_t>(first_code);
  embeddings_.copy_row(0, first_code, embedding_);
  next_ = embedding_;
  for (std::size_t codebook = 1; codebook < codes_.size(); ++codebook) {
    KZ_TRY_ASSIGN(const Span<float> logits, predict(codebook));
    KZ_TRY(expect_finite(logits, frame, codebook));
    const TimedScope timed(done_.sample_ms);
    const int32_t code = draw(logits, request.predictor, request.seed, frame, codebook);
    codes_[codebook] = static_cast<int16_t>(code);
    embeddings_.copy_row(codebook, code, embedding_);
    add_to(next_, embedding_);
  }
  return {};
}

Result<Span<float>> Generator::predict(std::size_t codebook) {
  const TimedScope timed(done_.predictor_ms);
  return codebook == 1 ? predictor_.start_frame(talker_.hidden(), embedding_) : predictor_.next_codebook(embedding_);
}

int32_t Generator::draw(Span<const float> logits, const SamplingOptions& options, uint64_t seed, std::size_t frame,
                        std::size_t codebook) {
  const GumbelNoise noise(seed, static_cast<uint32_t>(frame), static_cast<uint32_t>(codebook));
  return sampler_.draw(logits, options, noise);
}

Status Generator::advance_talker(const GenerateRequest& request, std::size_t frame) {
  const TimedScope timed(done_.talker_ms);
  const std::size_t width = request.hidden_size;
  const bool has_text = frame < request.trailing.size() / width;
  add_to(next_, has_text ? Span<const float>(request.trailing.data() + frame * width, width) : Span<const float>(request.pad));
  return talker_.decode(next_);
}

}  // namespace kz
