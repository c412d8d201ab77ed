#include "step_frame_predictor.h"

#include <algorithm>
#include <utility>

#include "stats.h"

namespace kz {

StepFramePredictor::StepFramePredictor(std::unique_ptr<CodePredictor> predictor, const CodecEmbeddings& embeddings)
    : predictor_(std::move(predictor)),
      embeddings_(embeddings),
      sizes_{predictor_->sizes().hidden_size, predictor_->sizes().code_groups, predictor_->sizes().codebook_size},
      sampler_(sizes_.codebook_size),
      embedding_(sizes_.hidden_size) {}

Status StepFramePredictor::draw(const FrameStart& start, const SamplingOptions& options, Span<int16_t> codes,
                                Span<float> embedding_sum) {
  std::copy(start.embedding.begin(), start.embedding.end(), embedding_.begin());
  std::copy(start.embedding.begin(), start.embedding.end(), embedding_sum.begin());
  for (std::size_t codebook = 1; codebook <= codes.size(); ++codebook) {
    KZ_TRY_ASSIGN(const Span<float> logits, predict(start, codebook));
    const TimedScope timed(sample_ms_);
    KZ_TRY(expect_finite(logits, start.frame, codebook));
    const GumbelNoise noise(start.seed, static_cast<uint32_t>(start.frame), static_cast<uint32_t>(codebook));
    const int32_t code = sampler_.draw(logits, options, noise);
    codes[codebook - 1] = static_cast<int16_t>(code);
    embeddings_.copy_row(codebook, code, embedding_);
    for (std::size_t index = 0; index < embedding_.size(); ++index) {
      embedding_sum[index] += embedding_[index];
    }
  }
  return {};
}

Result<Span<float>> StepFramePredictor::predict(const FrameStart& start, std::size_t codebook) {
  const TimedScope timed(predictor_ms_);
  return codebook == 1 ? predictor_->start_frame(start.hidden, embedding_) : predictor_->next_codebook(embedding_);
}

}  // namespace kz
