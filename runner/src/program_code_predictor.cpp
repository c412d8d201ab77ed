#include "program_code_predictor.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "contract.h"
#include "program_sizes.h"

namespace kz {
namespace {

constexpr std::size_t kFrameStartTokens = 2;  // the talker's hidden state, the embedding of codebook 0's code
constexpr std::size_t kSlackElements = Method::kReadSlackBytes / sizeof(float);

Result<CodePredictorSizes> read_sizes(const Program& program) {
  CodePredictorSizes sizes;
  KZ_TRY(read_size(program, "layers", sizes.layers));
  KZ_TRY(read_size(program, "kv_heads", sizes.kv_heads));
  KZ_TRY(read_size(program, "head_dim", sizes.head_dim));
  KZ_TRY(read_size(program, "hidden_size", sizes.hidden_size));
  KZ_TRY(read_size(program, "predictor_hidden_size", sizes.predictor_hidden_size));
  KZ_TRY(read_size(program, "code_groups", sizes.code_groups, 2, 256));
  KZ_TRY(read_size(program, "codebook_size", sizes.codebook_size, 1, contract::kMaxVocabulary));
  return sizes;
}

PassShape pass_shape(const CodePredictorSizes& sizes, std::size_t tokens, std::size_t needed_past) {
  PassShape shape;
  shape.kv = {sizes.layers, sizes.kv_heads, sizes.head_dim};
  shape.tokens = tokens;
  shape.width = sizes.hidden_size;
  shape.result_widths = {sizes.predictor_hidden_size};
  shape.needed_past = needed_past;
  return shape;
}

Status check_head(const Method& head, const CodePredictorSizes& sizes) {
  const auto is_row = [](const std::vector<TensorSpec>& tensors, std::size_t width) {
    return tensors.size() == 1 && tensors[0].type == ElementType::Float32 && tensors[0].elements() == width;
  };
  if (!is_row(head.inputs(), sizes.predictor_hidden_size) || !is_row(head.outputs(), sizes.codebook_size)) {
    return make_error(ErrorCode::LoadFailed,
                      "method %s has another shape than the bundle's sizes ask for; export the checkpoint "
                      "again with kz export",
                      head.name().c_str());
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<ProgramCodePredictor>> ProgramCodePredictor::load(const Program& program) {
  KZ_TRY_ASSIGN(const CodePredictorSizes sizes, read_sizes(program));
  KZ_TRY_ASSIGN(auto prefill, load_pass(program, contract::kPrefillMethod, pass_shape(sizes, kFrameStartTokens, 1)));
  KZ_TRY_ASSIGN(auto decode, load_pass(program, contract::kDecodeMethod, pass_shape(sizes, 1, sizes.code_groups - 1)));
  Heads heads;
  for (std::size_t index = 0; index + 1 < sizes.code_groups; ++index) {
    KZ_TRY_ASSIGN(auto head, program.load_method(contract::kHeadMethodPrefix + std::to_string(index)));
    KZ_TRY(check_head(*head, sizes));
    heads.push_back(std::move(head));
  }
  const KvShape kv{sizes.layers, sizes.kv_heads, sizes.head_dim};
  KZ_TRY_ASSIGN(KvCache cache, KvCache::create(kv, sizes.code_groups, 0));
  std::unique_ptr<ProgramCodePredictor> predictor(
      new ProgramCodePredictor(sizes, std::move(cache), std::move(prefill), std::move(decode), std::move(heads)));
  KZ_TRY(predictor->bind_heads());
  return predictor;
}

ProgramCodePredictor::ProgramCodePredictor(const CodePredictorSizes& sizes, KvCache cache,
                                           std::unique_ptr<TransformerPass> prefill, std::unique_ptr<TransformerPass> decode,
                                           Heads heads)
    : sizes_(sizes),
      cache_(std::move(cache)),
      prefill_(std::move(prefill)),
      decode_(std::move(decode)),
      heads_(std::move(heads)),
      frame_start_(kFrameStartTokens * sizes.hidden_size),
      logits_(sizes.codebook_size + kSlackElements) {}

Status ProgramCodePredictor::bind_heads() {
  for (const auto& head : heads_) {
    KZ_TRY(head->bind_output(0, logits_.data(), sizes_.codebook_size * sizeof(float)));
  }
  return {};
}

Result<Span<float>> ProgramCodePredictor::start_frame(Span<const float> hidden, Span<const float> embedding) {
  cache_.clear();
  next_head_ = 0;
  std::copy(hidden.begin(), hidden.end(), frame_start_.begin());
  std::copy(embedding.begin(), embedding.end(), frame_start_.begin() + static_cast<std::ptrdiff_t>(sizes_.hidden_size));
  KZ_TRY(prefill_->run(frame_start_, cache_));
  return run_head(prefill_->result(0));
}

Result<Span<float>> ProgramCodePredictor::next_codebook(Span<const float> embedding) {
  KZ_TRY(decode_->run(embedding, cache_));
  return run_head(decode_->result(0));
}

/// `hidden` carries the pass's slack behind it.
Result<Span<float>> ProgramCodePredictor::run_head(Span<const float> hidden) {
  Method& head = *heads_[next_head_++];
  const std::array<int32_t, 2> sizes{1, static_cast<int32_t>(hidden.size())};
  KZ_TRY(head.set_input(0, hidden.data(), {sizes.data(), 2}));
  KZ_TRY(head.execute());
  ++head_calls_;
  return Span<float>(logits_.data(), sizes_.codebook_size);
}

}  // namespace kz
