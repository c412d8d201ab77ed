#include "speech_decoder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "sampler.h"

namespace kz {
namespace {

constexpr std::size_t kSlackElements = Method::kReadSlackBytes / sizeof(float);

}  // namespace

Result<std::unique_ptr<SpeechDecoder>> SpeechDecoder::create(const SpeechDecoderSizes& sizes,
                                                             std::vector<std::unique_ptr<Method>> methods, bool fixed_frames) {
  Segments segments;
  for (auto& method : methods) {
    KZ_TRY_ASSIGN(auto segment, DecoderSegment::create(std::move(method)));
    segments.push_back(std::move(segment));
  }
  std::unique_ptr<SpeechDecoder> decoder(new SpeechDecoder(sizes, std::move(segments), fixed_frames));
  KZ_TRY(decoder->check_segments());
  return decoder;
}

SpeechDecoder::SpeechDecoder(const SpeechDecoderSizes& sizes, Segments segments, bool fixed_frames)
    : sizes_(sizes),
      segments_(std::move(segments)),
      fixed_frames_(fixed_frames),
      chunk_(sizes.max_frames * sizes.code_groups),
      wide_codes_(chunk_.size() + kSlackElements),
      short_codes_(chunk_.size() + kSlackElements) {}

Status SpeechDecoder::check_segments() const {
  bool fits = !segments_.empty();
  if (fits) {
    const TensorSpec& codes = segments_.front()->input();
    fits = (codes.type == ElementType::Int64 || codes.type == ElementType::Int32) && codes.elements() == chunk_.size() &&
           segments_.back()->output().size() == sizes_.max_frames * sizes_.samples_per_frame;
  }
  for (std::size_t index = 1; fits && index < segments_.size(); ++index) {
    const TensorSpec& input = segments_[index]->input();
    fits = input.type == ElementType::Float32 && input.elements() == segments_[index - 1]->output().size();
  }
  if (!fits) {
    return make_error(ErrorCode::LoadFailed,
                      "the speech decoder's methods do not fit its constants; export the checkpoint again with kz export");
  }
  return {};
}

std::size_t SpeechDecoder::state_count() const {
  std::size_t count = 0;
  for (const auto& segment : segments_) {
    count += segment->state_count();
  }
  return count;
}

void SpeechDecoder::reset() {
  pending_ = 0;
  for (const auto& segment : segments_) {
    segment->reset();
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
  std::size_t count = 0;
  for (std::size_t first = 0; first < frames; first += count) {
    count = std::min(sizes_.max_frames - pending_, frames - first);
    KZ_TRY(decode_piece({codes.data() + first * sizes_.code_groups, count * sizes_.code_groups},
                        {audio.data() + first * sizes_.samples_per_frame, count * sizes_.samples_per_frame}));
  }
  return {};
}

/// Decodes the chunk that `codes` continue, which they do not outgrow.
Status SpeechDecoder::decode_piece(Span<const int16_t> codes, Span<float> audio) {
  std::copy(codes.begin(), codes.end(), chunk_.begin() + static_cast<std::ptrdiff_t>(pending_ * sizes_.code_groups));
  const std::size_t frames = pending_ + codes.size() / sizes_.code_groups;
  KZ_TRY(run_segments(frames));
  const float* samples = segments_.back()->output().data() + pending_ * sizes_.samples_per_frame;
  std::copy_n(samples, audio.size(), audio.begin());
  pending_ = fixed_frames_ ? frames % sizes_.max_frames : 0;
  if (pending_ == 0) {
    for (const auto& segment : segments_) {
      segment->keep();
    }
  }
  if (const std::size_t sample = first_non_finite(audio); sample < audio.size()) {
    return make_error(ErrorCode::NonFiniteAudio,
                      "the speech decoder gave a sample that is not a number, %zu samples into its chunk; "
                      "export the checkpoint again, with --quant fp32 if it was quantised",
                      sample);
  }
  return {};
}

void SpeechDecoder::set_code(std::size_t index, int16_t code) {
  wide_codes_[index] = code;
  short_codes_[index] = code;
}

/// The chunk's first `frames` frames as the first method takes them, code 0 in those it must have besides.
void SpeechDecoder::fill_codes(std::size_t frames) {
  const std::size_t taken = fixed_frames_ ? sizes_.max_frames : frames;
  for (std::size_t frame = 0; frame < taken; ++frame) {
    for (std::size_t group = 0; group < sizes_.code_groups; ++group) {
      set_code(group * taken + frame, frame < frames ? chunk_[frame * sizes_.code_groups + group] : int16_t{0});
    }
  }
}

Status SpeechDecoder::run_segments(std::size_t frames) {
  fill_codes(frames);
  const auto taken = static_cast<int32_t>(fixed_frames_ ? sizes_.max_frames : frames);
  const std::array<int32_t, 3> sizes{1, static_cast<int32_t>(sizes_.code_groups), taken};
  const bool wide = segments_.front()->input().type == ElementType::Int64;
  const void* codes = wide ? static_cast<const void*>(wide_codes_.data()) : short_codes_.data();
  KZ_TRY(segments_.front()->run(codes, {sizes.data(), sizes.size()}));
  for (std::size_t index = 1; index < segments_.size(); ++index) {
    KZ_TRY(segments_[index]->run(segments_[index - 1]->output().data(), segments_[index]->input().sizes));
  }
  return {};
}

}  // namespace kz
