#include "decode_role.h"

#include <utility>

#include "answer.h"
#include "contract.h"
#include "program_speech_decoder.h"
#include "request.h"
#include "stats.h"

namespace kz {
namespace {

Status check_sizes(const Manifest& manifest, const SpeechDecoderSizes& sizes) {
  KZ_TRY(manifest.expect_size("code_groups", sizes.code_groups));
  KZ_TRY(manifest.expect_size("codebook_size", sizes.codebook_size));
  KZ_TRY(manifest.expect_size("sample_rate", sizes.sample_rate));
  return manifest.expect_size("samples_per_frame", sizes.samples_per_frame);
}

}  // namespace

Result<std::unique_ptr<Role>> DecodeRole::load(const Manifest& manifest) {
  KZ_TRY_ASSIGN(LoadedSpeechDecoder loaded, load_speech_decoder(manifest));
  KZ_TRY(check_sizes(manifest, loaded.decoder->sizes()));
  return std::unique_ptr<Role>(new DecodeRole(std::move(loaded.decoder), std::move(loaded.backends)));
}

DecodeRole::DecodeRole(std::unique_ptr<SpeechDecoder> decoder, std::vector<std::string> backends)
    : decoder_(std::move(decoder)), backends_(std::move(backends)) {}

Json DecodeRole::describe() const {
  const SpeechDecoderSizes& sizes = decoder_->sizes();
  return Json{{"backends", backends_},
              {"code_groups", sizes.code_groups},
              {"codebook_size", sizes.codebook_size},
              {"max_frames", sizes.max_frames},
              {"samples_per_frame", sizes.samples_per_frame},
              {"sample_rate", sizes.sample_rate}};
}

Status DecodeRole::handle(const Message& message, Channel& channel) {
  KZ_TRY_ASSIGN(const DecodeRequest request, parse_decode(message, decoder_->sizes().code_groups));
  const std::size_t samples = request.frames * decoder_->sizes().samples_per_frame;
  if (samples > contract::kMaxPayloadBytes / sizeof(float)) {
    return make_error(ErrorCode::TooLong, "%zu frames make more sound than one answer can carry; send them in several requests",
                      request.frames);
  }
  if (request.reset) {
    decoder_->reset();
  }
  const Stopwatch stopwatch;
  std::vector<float> audio(samples);
  KZ_TRY(decoder_->decode(request.codes, audio));
  const Json fields{
      {"samples", samples}, {"decode_ms", rounded_ms(stopwatch.elapsed_ms())}, {"peak_rss_bytes", peak_rss_bytes()}};
  const std::string line = answer_line("audio", request.id, fields, samples * sizeof(float));
  return channel.send({line.data(), line.size()}, {reinterpret_cast<const uint8_t*>(audio.data()), samples * sizeof(float)});
}

}  // namespace kz
