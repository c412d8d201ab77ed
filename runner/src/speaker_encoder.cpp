#include "speaker_encoder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "contract.h"
#include "program_sizes.h"
#include "sampler.h"

namespace kz {
namespace {

constexpr std::size_t kSlackElements = Method::kReadSlackBytes / sizeof(float);

Result<SpeakerEncoderSizes> read_sizes(const Program& program) {
  SpeakerEncoderSizes sizes;
  KZ_TRY(read_size(program, "mel_bins", sizes.mel_bins, 1, 4096));
  KZ_TRY(read_size(program, "min_mel_frames", sizes.min_mel_frames));
  KZ_TRY(read_size(program, "max_mel_frames", sizes.max_mel_frames, static_cast<int64_t>(sizes.min_mel_frames)));
  KZ_TRY(read_size(program, "embedding_size", sizes.embedding_size));
  KZ_TRY(read_size(program, "sample_rate", sizes.sample_rate));
  return sizes;
}

}  // namespace

Result<std::unique_ptr<SpeakerEncoder>> SpeakerEncoder::load(const Program& program) {
  KZ_TRY_ASSIGN(const SpeakerEncoderSizes sizes, read_sizes(program));
  KZ_TRY_ASSIGN(auto method, program.load_method(contract::kEncodeMethod));
  std::unique_ptr<SpeakerEncoder> encoder(new SpeakerEncoder(sizes, std::move(method)));
  KZ_TRY(encoder->check_method());
  KZ_TRY(encoder->method_->bind_output(0, encoder->embedding_.data(), sizes.embedding_size * sizeof(float)));
  return encoder;
}

SpeakerEncoder::SpeakerEncoder(const SpeakerEncoderSizes& sizes, std::unique_ptr<Method> method)
    : sizes_(sizes), method_(std::move(method)), embedding_(sizes.embedding_size) {}

Status SpeakerEncoder::check_method() const {
  const auto& inputs = method_->inputs();
  const auto& outputs = method_->outputs();
  const bool fits = inputs.size() == 1 && outputs.size() == 1 && inputs[0].type == ElementType::Float32 &&
                    inputs[0].elements() >= sizes_.max_mel_frames * sizes_.mel_bins && outputs[0].type == ElementType::Float32 &&
                    outputs[0].elements() == sizes_.embedding_size;
  if (!fits) {
    return make_error(ErrorCode::LoadFailed,
                      "method %s of the speaker encoder does not fit its constants; export the checkpoint again with kz export",
                      method_->name().c_str());
  }
  return {};
}

Result<Span<const float>> SpeakerEncoder::encode(Span<const float> mel) {
  mel_.assign(mel.begin(), mel.end());
  mel_.resize(mel.size() + kSlackElements, 0.0f);
  const auto frames = static_cast<int32_t>(mel.size() / sizes_.mel_bins);
  const std::array<int32_t, 3> sizes{1, frames, static_cast<int32_t>(sizes_.mel_bins)};
  KZ_TRY(method_->set_input(0, mel_.data(), {sizes.data(), 3}));
  KZ_TRY(method_->execute());
  if (first_non_finite(embedding_) < embedding_.size()) {
    return make_error(ErrorCode::NonFiniteEmbedding,
                      "the speaker encoder gave an embedding that is not a number; try another recording");
  }
  return Span<const float>(embedding_);
}

}  // namespace kz
