#include <functional>
#include <memory>

#include "allocation_count.h"
#include "check.h"
#include "code_predictor.h"
#include "generator.h"
#include "step_frame_predictor.h"

namespace kz {
namespace {

constexpr std::size_t kWidth = 2;
constexpr std::size_t kGroups = 3;
constexpr std::size_t kCodes = 4;
constexpr std::size_t kVocab = 6;  // 4 codes, then EOS and another control id
constexpr int32_t kEos = 4;
constexpr std::size_t kContext = 16;
constexpr std::size_t kPrefill = 4;

/// Records what it is fed; scores are all zero but for one code, which the test chooses for each token.
class FakeTalker final : public Talker {
 public:
  FakeTalker() : logits_(kVocab), hidden_(kWidth) {
    sizes_.context_length = kContext;
    sizes_.prefill_tokens = kPrefill;
    sizes_.hidden_size = kWidth;
    sizes_.vocab_size = kVocab;
    sizes_.code_groups = kGroups;
    sizes_.codebook_size = kCodes;
    sizes_.codec_eos_id = kEos;
    sizes_.suppress_from = int32_t(kCodes);
    chunks.reserve(64);
    inputs.reserve(4096);
  }

  const TalkerSizes& sizes() const override { return sizes_; }
  void reset() override {
    chunks.clear();
    inputs.clear();
    decodes_ = 0;
  }
  Status prefill(Span<const float> embeds) override {
    chunks.push_back(embeds.size() / kWidth);
    return score(0);
  }
  Status decode(Span<const float> embed) override {
    inputs.insert(inputs.end(), embed.begin(), embed.end());
    return score(++decodes_);
  }
  Span<float> logits() override { return logits_; }
  Span<const float> hidden() override { return hidden_; }
  uint64_t kv_copied_bytes() const override { return 10 * (decodes_ + 1); }

  std::vector<std::size_t> chunks;
  std::vector<float> inputs;  ///< of decode, one after another
  std::function<int32_t(std::size_t frame)> favourite = [](std::size_t) { return 1; };
  std::function<void(std::size_t frame, Span<float> logits)> adjust = [](std::size_t, Span<float>) {};
  Status failure;

 private:
  Status score(std::size_t frame) {
    std::fill(logits_.begin(), logits_.end(), 0.0f);
    logits_[std::size_t(favourite(frame))] = 5.0f;
    adjust(frame, logits_);
    hidden_ = {float(frame), 0.5f};
    return failure;
  }

  TalkerSizes sizes_;
  std::vector<float> logits_;
  std::vector<float> hidden_;
  std::size_t decodes_ = 0;
};

/// Favours code `codebook` for codebooks 1 and 2.
class FakePredictor final : public CodePredictor {
 public:
  FakePredictor() : logits_(kCodes) {
    sizes_.hidden_size = kWidth;
    sizes_.code_groups = kGroups;
    sizes_.codebook_size = kCodes;
    seen.reserve(4096);
  }

  const CodePredictorSizes& sizes() const override { return sizes_; }
  Result<Span<float>> start_frame(Span<const float> hidden, Span<const float> embedding) override {
    seen.insert(seen.end(), hidden.begin(), hidden.end());
    seen.insert(seen.end(), embedding.begin(), embedding.end());
    return score(1);
  }
  Result<Span<float>> next_codebook(Span<const float> embedding) override {
    seen.insert(seen.end(), embedding.begin(), embedding.end());
    return score(2);
  }
  uint64_t calls() const override { return calls_; }
  uint64_t kv_copied_bytes() const override { return 0; }

  std::vector<float> seen;
  bool broken = false;

 private:
  Result<Span<float>> score(std::size_t codebook) {
    ++calls_;
    std::fill(logits_.begin(), logits_.end(), 0.0f);
    logits_[codebook] = broken ? NAN : 5.0f;
    return Span<float>(logits_);
  }

  CodePredictorSizes sizes_;
  std::vector<float> logits_;
  uint64_t calls_ = 0;
};

class FakeSink final : public FrameSink {
 public:
  FakeSink() { codes.reserve(4096); }

  Status on_frame(std::size_t index, Span<const int16_t> frame) override {
    CHECK_EQUAL(index, codes.size() / kGroups);
    codes.insert(codes.end(), frame.begin(), frame.end());
    allocations_at_frame[index % 8] = test::allocation_count();
    return failure;
  }
  bool is_cancelled() override { return polls++ >= cancel_after; }

  std::vector<int16_t> codes;
  std::size_t polls = 0;
  std::size_t cancel_after = SIZE_MAX;
  std::size_t allocations_at_frame[8] = {};
  Status failure;
};

std::vector<float> make_table() {
  std::vector<float> table;
  for (std::size_t row = 0; row < kVocab + 2 * kCodes; ++row) {
    table.push_back(float(row));  // group 0: 0 to 5; group 1: 6 to 9; group 2: 10 to 13
    table.push_back(float(row) / 10);
  }
  return table;
}

struct Fixture {
  Fixture() {
    request.hidden_size = kWidth;
    request.prompt.assign(kWidth, 0.0f);
    request.pad = {1000.0f, 0.0f};
    request.max_frames = 3;
    request.talker.greedy = true;
    request.predictor.greedy = true;
  }

  Result<Generation> run() {
    Generator generator(talker, frames, embeddings);
    return generator.run(request, sink);
  }

  FakeTalker talker;
  FakeSink sink;
  GenerateRequest request;
  const std::vector<float> table = make_table();
  const CodecEmbeddings embeddings{
      CodecEmbeddings::Layout{TableType::Float32, {kVocab, kCodes, kCodes}, kWidth},
      {reinterpret_cast<const uint8_t*>(table.data()), table.size() * sizeof(float)}};
  FakePredictor& predictor = *new FakePredictor;  ///< `frames` owns it
  StepFramePredictor frames{std::unique_ptr<CodePredictor>(&predictor), embeddings};
};

}  // namespace

TEST(frames_come_until_the_cap) {
  Fixture f;
  const auto done = f.run();
  REQUIRE(done.ok());
  CHECK(done.value().stop_reason == StopReason::FrameCap);
  CHECK_EQUAL(done.value().frames, std::size_t{3});
  CHECK_EQUAL(f.sink.codes, (std::vector<int16_t>{1, 1, 2, 1, 1, 2, 1, 1, 2}));
  CHECK_EQUAL(done.value().calls_per_frame, 3.0);
  CHECK_EQUAL(f.talker.inputs.size(), 2 * kWidth);  // none after the last frame
}

TEST(eos_ends_the_frames) {
  Fixture f;
  f.talker.favourite = [](std::size_t frame) { return frame == 2 ? kEos : 3; };
  const auto done = f.run();
  REQUIRE(done.ok());
  CHECK(done.value().stop_reason == StopReason::Eos);
  CHECK_EQUAL(done.value().frames, std::size_t{2});
}

TEST(eos_is_forbidden_before_min_frames) {
  Fixture f;
  f.talker.favourite = [](std::size_t) { return kEos; };
  f.request.min_frames = 2;
  const auto done = f.run();
  REQUIRE(done.ok());
  CHECK(done.value().stop_reason == StopReason::Eos);
  CHECK_EQUAL(f.sink.codes, (std::vector<int16_t>{0, 1, 2, 0, 1, 2}));
}

TEST(control_ids_are_never_drawn) {
  Fixture f;
  f.talker.favourite = [](std::size_t) { return 5; };
  CHECK(f.run().ok());
  CHECK_EQUAL(f.sink.codes[0], int16_t{0});
}

TEST(the_penalty_sees_earlier_frames_of_this_run_only) {
  Fixture f;
  f.request.repetition_penalty = 10.0;
  f.talker.adjust = [](std::size_t, Span<float> logits) { logits[2] = 4.0f; };
  CHECK(f.run().ok());
  CHECK_EQUAL(std::vector<int16_t>({f.sink.codes[0], f.sink.codes[3], f.sink.codes[6]}), (std::vector<int16_t>{1, 2, 1}));
  const std::vector<int16_t> first = f.sink.codes;
  f.sink.codes.clear();
  CHECK(f.run().ok());
  CHECK_EQUAL(f.sink.codes, first);
}

TEST(the_talker_is_fed_the_sum_of_embeddings_and_text_then_pad) {
  Fixture f;
  f.request.trailing = {100.0f, 0.0f};  // one token of text
  CHECK(f.run().ok());
  // Codes 1, 1, 2 are rows 1, 7 and 12.
  const float second = 0.1f + 0.7f + 1.2f;
  CHECK_EQUAL(f.talker.inputs, (std::vector<float>{120.0f, second, 1020.0f, second}));
}

TEST(the_predictor_is_fed_hidden_state_and_embeddings) {
  Fixture f;
  f.request.max_frames = 1;
  CHECK(f.run().ok());
  CHECK_EQUAL(f.predictor.seen, (std::vector<float>{0.0f, 0.5f, 1.0f, 0.1f, 7.0f, 0.7f}));
}

TEST(only_the_first_chunk_of_a_prompt_is_short) {
  const auto chunks_of = [](std::size_t tokens) {
    Fixture f;
    f.request.prompt.assign(tokens * kWidth, 0.0f);
    f.request.max_frames = 1;
    CHECK(f.run().ok());
    return f.talker.chunks;
  };
  CHECK_EQUAL(chunks_of(1), (std::vector<std::size_t>{1}));
  CHECK_EQUAL(chunks_of(4), (std::vector<std::size_t>{4}));
  CHECK_EQUAL(chunks_of(5), (std::vector<std::size_t>{1, 4}));
  CHECK_EQUAL(chunks_of(10), (std::vector<std::size_t>{2, 4, 4}));
}

TEST(the_context_limits_the_frames) {
  Fixture f;
  f.request.prompt.assign((kContext - 2) * kWidth, 0.0f);
  f.request.max_frames = 100;
  const auto done = f.run();
  REQUIRE(done.ok());
  CHECK(done.value().stop_reason == StopReason::FrameCap);
  CHECK_EQUAL(done.value().frames, std::size_t{2});
}

TEST(a_prompt_that_leaves_no_room_is_refused_by_how_much) {
  Fixture f;
  f.request.prompt.assign((kContext + 2) * kWidth, 0.0f);
  const auto done = f.run();
  REQUIRE(!done.ok());
  CHECK(done.error().code == ErrorCode::TooLong);
  CHECK_CONTAINS(done.error().message, "has 18 tokens, 3 more than leave room");
}

TEST(a_prompt_of_another_width_is_refused) {
  Fixture f;
  f.request.hidden_size = 3;
  CHECK(f.run().error().code == ErrorCode::BadRequest);
}

TEST(cancelling_stops_within_a_frame) {
  Fixture f;
  f.sink.cancel_after = 3;  // asked before the prompt chunk, then before each frame
  const auto done = f.run();
  REQUIRE(done.ok());
  CHECK(done.value().stop_reason == StopReason::Cancelled);
  CHECK_EQUAL(done.value().frames, std::size_t{2});
}

TEST(cancelling_stops_between_prompt_chunks) {
  Fixture f;
  f.request.prompt.assign(12 * kWidth, 0.0f);
  f.sink.cancel_after = 1;
  const auto done = f.run();
  REQUIRE(done.ok());
  CHECK(done.value().stop_reason == StopReason::Cancelled);
  CHECK_EQUAL(f.talker.chunks.size(), std::size_t{1});
  CHECK_EQUAL(done.value().calls_per_frame, 0.0);
}

TEST(scores_that_are_not_finite_are_named) {
  Fixture f;
  f.talker.adjust = [](std::size_t frame, Span<float> logits) { logits[5] = frame == 1 ? INFINITY : 0.0f; };
  const auto talker_broken = f.run();
  REQUIRE(!talker_broken.ok());
  CHECK(talker_broken.error().code == ErrorCode::NonFiniteLogits);
  CHECK_CONTAINS(talker_broken.error().message, "frame 1, codebook 0");

  Fixture g;
  g.predictor.broken = true;
  CHECK_CONTAINS(g.run().error().message, "frame 0, codebook 1");
}

TEST(errors_of_models_and_sink_come_through) {
  Fixture f;
  f.talker.failure = make_error(ErrorCode::ExecutionFailed, "talker");
  CHECK_EQUAL(f.run().error().message, "talker");
  Fixture g;
  g.sink.failure = make_error(ErrorCode::StreamClosed, "sink");
  CHECK(g.run().error().code == ErrorCode::StreamClosed);
}

TEST(copied_bytes_are_those_of_this_run) {
  Fixture f;
  const auto done = f.run();
  REQUIRE(done.ok());
  CHECK_EQUAL(done.value().kv_copied_bytes, uint64_t{20});
}

TEST(the_same_seed_gives_the_same_codes_whatever_came_before) {
  Fixture f;
  f.request.talker.greedy = f.request.predictor.greedy = false;
  f.request.max_frames = 12;
  f.request.seed = 5;
  Generator generator(f.talker, f.frames, f.embeddings);
  const auto codes_of = [&](uint64_t seed) {
    f.sink.codes.clear();
    f.request.seed = seed;
    CHECK(generator.run(f.request, f.sink).ok());
    return f.sink.codes;
  };
  const auto first = codes_of(5);
  CHECK(codes_of(6) != first);
  CHECK_EQUAL(codes_of(5), first);
}

TEST(frames_allocate_nothing) {
  Fixture f;
  f.request.talker.greedy = f.request.predictor.greedy = false;
  f.request.talker.top_k = f.request.predictor.top_k = 3;
  f.request.talker.top_p = f.request.predictor.top_p = 0.9;
  f.request.repetition_penalty = 1.05;
  f.request.min_frames = 8;
  f.request.max_frames = 8;
  f.request.trailing = {1.0f, 2.0f};
  const auto done = f.run();
  REQUIRE(done.ok());
  CHECK_EQUAL(done.value().frames, std::size_t{8});
  CHECK_EQUAL(f.sink.allocations_at_frame[7], f.sink.allocations_at_frame[0]);
  CHECK(test::allocation_count() > 0);
}

}  // namespace kz
