#include "speech_decoder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "contract.h"
#include "program_sizes.h"
#include "sampler.h"

namespace kz {
namespace {

constexpr std::size_t kSlackElements = Method::kReadSlackBytes / sizeof(float);

Result<SpeechDecoderSizes> read_sizes(const Program& program) {
  SpeechDecoderSizes sizes;
  KZ_TRY(read_size(program, "code_groups", sizes.code_groups, 1, 256));
  KZ_TRY(read_size(program, "codebook_size", sizes.codebook_size, 1, contract::kMaxVocabulary));
  KZ_TRY(read_size(program, "max_frames", sizes.max_frames, 1, 1 << 16));
  KZ_TRY(read_size(program, "samples_per_frame", sizes.samples_per_frame, 1, 1 << 16));
  KZ_TRY(read_size(program, "sample_rate", sizes.sample_rate));
  KZ_TRY(read_size(program, "state_count", sizes.state_count, 0));
  return sizes;
}

bool is_tensor(const TensorSpec& spec, ElementType type, std::size_t elements) {
  return spec.type == type && spec.elements() == elements;
}

}  // namespace

Result<std::unique_ptr<SpeechDecoder>> SpeechDecoder::load(const Program& program) {
  KZ_TRY_ASSIGN(const SpeechDecoderSizes sizes, read_sizes(program));
  KZ_TRY_ASSIGN(auto method, program.load_method(contract::kDecodeMethod));
  std::unique_ptr<SpeechDecoder> decoder(new SpeechDecoder(sizes, std::move(method)));
  KZ_TRY(decoder->check_method());
  decoder->allocate();
  return decoder;
}

SpeechDecoder::SpeechDecoder(const SpeechDecoderSizes& sizes, std::unique_ptr<Method> method)
    : sizes_(sizes), method_(std::move(method)) {}

Status SpeechDecoder::check_method() const {
  const auto& inputs = method_->inputs();
  const auto& outputs = method_->outputs();
  bool fits = inputs.size() == 1 + sizes_.state_count && outputs.size() == inputs.size() &&
              is_tensor(inputs[0], ElementType::Int64, sizes_.code_groups * sizes_.max_frames) &&
              is_tensor(outputs[0], ElementType::Float32, sizes_.max_frames * sizes_.samples_per_frame);
  for (std::size_t index = 1; fits && index < inputs.size(); ++index) {
    fits = inputs[index].type == ElementType::Float32 && outputs[index].type == ElementType::Float32 &&
           inputs[index].sizes == outputs[index].sizes;
  }
  if (!fits) {
    return make_error(ErrorCode::LoadFailed,
                      "method %s of the speech decoder does not fit its constants; export the checkpoint again with kz export",
                      method_->name().c_str());
  }
  return {};
}

void SpeechDecoder::allocate() {
  codes_.resize(sizes_.code_groups * sizes_.max_frames + kSlackElements);
  audio_.resize(sizes_.max_frames * sizes_.samples_per_frame + kSlackElements);
  for (std::size_t index = 1; index < method_->inputs().size(); ++index) {
    states_.emplace_back(method_->inputs()[index].elements() + kSlackElements, 0.0f);
  }
  next_states_ = states_;
}

void SpeechDecoder::reset() {
  for (auto& state : states_) {
    std::fill(state.begin(), state.end(), 0.0f);
  }
}

Status SpeechDecoder::decode(Span<const int16_t> codes, Span<float> audio) {
  Status status = check_codes(codes);
  if (status.ok()) {
    status = decode_pieces(codes, audio);
  }
  if (!status.ok()) {
    reset();
  }
  return status;
}

Status SpeechDecoder::check_codes(Span<const int16_t> codes) const {
  for (std::size_t index = 0; index < codes.size(); ++index) {
    if (codes[index] < 0 || static_cast<std::size_t>(codes[index]) >= sizes_.codebook_size) {
      return make_error(ErrorCode::BadPayload, "code %d of frame %zu, codebook %zu is not between 0 and %zu; check the codes",
                        codes[index], index / sizes_.code_groups, index % sizes_.code_groups, sizes_.codebook_size - 1);
    }
  }
  return {};
}

Status SpeechDecoder::decode_pieces(Span<const int16_t> codes, Span<float> audio) {
  const std::size_t frames = codes.size() / sizes_.code_groups;
  for (std::size_t first = 0; first < frames; first += sizes_.max_frames) {
    const std::size_t count = std::min(sizes_.max_frames, frames - first);
    KZ_TRY(decode_piece({codes.data() + first * sizes_.code_groups, count * sizes_.code_groups},
                        {audio.data() + first * sizes_.samples_per_frame, count * sizes_.samples_per_frame}));
  }
  return {};
}

Status SpeechDecoder::decode_piece(Span<const int16_t> codes, Span<float> audio) {
  const std::size_t frames = codes.size() / sizes_.code_groups;
  for (std::size_t frame = 0; frame < frames; ++frame) {
    for (std::size_t group = 0; group < sizes_.code_groups; ++group) {
      codes_[group * frames + frame] = codes[frame * sizes_.code_groups + group];
    }
  }
  const std::array<int32_t, 3> sizes{1, static_cast<int32_t>(sizes_.code_groups), static_cast<int32_t>(frames)};
  KZ_TRY(method_->set_input(0, codes_.data(), {sizes.data(), 3}));
  KZ_TRY(method_->bind_output(0, audio_.data(), sizes_.max_frames * sizes_.samples_per_frame * sizeof(float)));
  KZ_TRY(bind_states());
  KZ_TRY(method_->execute());
  states_.swap(next_states_);
  std::copy_n(audio_.begin(), audio.size(), audio.begin());
  if (const std::size_t sample = first_non_finite(audio); sample < audio.size()) {
    return make_error(ErrorCode::NonFiniteAudio,
                      "the speech decoder gave a sample that is not a number, %zu samples into its chunk; "
                      "export the checkpoint again, with --quant fp32 if it was quantised",
                      sample);
  }
  return {};
}

Status SpeechDecoder::bind_states() {
  for (std::size_t index = 0; index < states_.size(); ++index) {
    const TensorSpec& spec = method_->inputs()[1 + index];
    KZ_TRY(method_->set_input(1 + index, states_[index].data(), spec.sizes));
    KZ_TRY(method_->bind_output(1 + index, next_states_[index].data(), spec.elements() * sizeof(float)));
  }
  return {};
}

}  // namespace kz
