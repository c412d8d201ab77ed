#include "scoring_code_predictor.h"

#include <algorithm>
#include <utility>

namespace kz {
namespace {

constexpr std::size_t kSlackElements = Method::kReadSlackBytes / sizeof(float);

bool is_floats(const std::vector<TensorSpec>& tensors, std::size_t elements) {
  return tensors.size() == 1 && tensors[0].type == ElementType::Float32 && tensors[0].elements() == elements;
}

}  // namespace

Result<std::unique_ptr<CodePredictor>> ScoringCodePredictor::create(std::unique_ptr<Method> method,
                                                                    const CodePredictorSizes& sizes) {
  std::unique_ptr<ScoringCodePredictor> predictor(new ScoringCodePredictor(std::move(method), sizes));
  KZ_TRY(predictor->check_method());
  KZ_TRY(predictor->bind());
  return std::unique_ptr<CodePredictor>(std::move(predictor));
}

ScoringCodePredictor::ScoringCodePredictor(std::unique_ptr<Method> method, const CodePredictorSizes& sizes)
    : method_(std::move(method)),
      sizes_(sizes),
      embeds_(sizes.code_groups * sizes.hidden_size + kSlackElements),
      scores_((sizes.code_groups - 1) * sizes.codebook_size) {}

Status ScoringCodePredictor::check_method() const {
  if (!is_floats(method_->inputs(), sizes_.code_groups * sizes_.hidden_size) || !is_floats(method_->outputs(), scores_.size())) {
    return make_error(ErrorCode::LoadFailed,
                      "method %s has another shape than the bundle's sizes ask for; export the checkpoint again with kz export",
                      method_->name().c_str());
  }
  return {};
}

Status ScoringCodePredictor::bind() {
  KZ_TRY(method_->set_input(0, embeds_.data(), method_->inputs()[0].sizes));
  return method_->bind_output(0, scores_.data(), scores_.size() * sizeof(float));
}

/// Rows that are not known yet are zeros: whatever they were, the last frame's must not tell in a quantised program's rounding.
Result<Span<float>> ScoringCodePredictor::start_frame(Span<const float> hidden, Span<const float> embedding) {
  std::fill(embeds_.begin(), embeds_.end(), 0.0f);
  set_row(0, hidden);
  set_row(1, embedding);
  rows_ = 2;
  return score();
}

Result<Span<float>> ScoringCodePredictor::next_codebook(Span<const float> embedding) {
  set_row(rows_++, embedding);
  return score();
}

void ScoringCodePredictor::set_row(std::size_t row, Span<const float> embedding) {
  std::copy(embedding.begin(), embedding.end(), embeds_.begin() + static_cast<std::ptrdiff_t>(row * sizes_.hidden_size));
}

Result<Span<float>> ScoringCodePredictor::score() {
  KZ_TRY(method_->execute());
  ++calls_;
  return Span<float>(scores_.data() + (rows_ - 2) * sizes_.codebook_size, sizes_.codebook_size);
}

}  // namespace kz
