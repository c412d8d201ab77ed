#include "embed_role.h"

#include <utility>

#include "answer.h"
#include "contract.h"
#include "program.h"
#include "request.h"
#include "stats.h"

namespace kz {
namespace {

Status check_mel(const EmbedRequest& request, const SpeakerEncoderSizes& sizes) {
  if (request.mel_bins != sizes.mel_bins) {
    return make_error(ErrorCode::BadRequest,
                      "the mel has %zu bins, this speaker encoder needs %zu; compute it with the bundle's settings",
                      request.mel_bins, sizes.mel_bins);
  }
  if (request.mel_frames < sizes.min_mel_frames) {
    return make_error(ErrorCode::BadRequest, "the mel has %zu frames, at least %zu are needed; use a longer recording",
                      request.mel_frames, sizes.min_mel_frames);
  }
  if (request.mel_frames > sizes.max_mel_frames) {
    return make_error(ErrorCode::TooLong, "the mel has %zu frames, at most %zu are allowed; use a shorter recording",
                      request.mel_frames, sizes.max_mel_frames);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Role>> EmbedRole::load(const Manifest& manifest) {
  KZ_TRY_ASSIGN(const Manifest::FileEntry file, manifest.program(contract::kSpeakerEncoder));
  KZ_TRY_ASSIGN(const Program program, Program::open(file.path, file.bytes));
  KZ_TRY_ASSIGN(auto encoder, SpeakerEncoder::load(program));
  KZ_TRY(manifest.expect_size("speaker_embedding_size", encoder->sizes().embedding_size));
  return std::unique_ptr<Role>(new EmbedRole(std::move(encoder), program.backends()));
}

EmbedRole::EmbedRole(std::unique_ptr<SpeakerEncoder> encoder, std::vector<std::string> backends)
    : encoder_(std::move(encoder)), backends_(std::move(backends)) {}

Json EmbedRole::describe() const {
  const SpeakerEncoderSizes& sizes = encoder_->sizes();
  return Json{{"backends", backends_},
              {"mel_bins", sizes.mel_bins},
              {"min_mel_frames", sizes.min_mel_frames},
              {"max_mel_frames", sizes.max_mel_frames},
              {"embedding_size", sizes.embedding_size},
              {"sample_rate", sizes.sample_rate}};
}

Status EmbedRole::handle(const Message& message, Channel& channel) {
  KZ_TRY_ASSIGN(const EmbedRequest request, parse_embed(message));
  KZ_TRY(check_mel(request, encoder_->sizes()));
  const Stopwatch stopwatch;
  KZ_TRY_ASSIGN(const Span<const float> embedding, encoder_->encode(request.mel));
  const std::size_t bytes = embedding.size() * sizeof(float);
  const std::string line = answer_line("embedding", request.id,
                                       Json{{"size", embedding.size()}, {"embed_ms", rounded_ms(stopwatch.elapsed_ms())}}, bytes);
  return channel.send({line.data(), line.size()}, {reinterpret_cast<const uint8_t*>(embedding.data()), bytes});
}

}  // namespace kz
