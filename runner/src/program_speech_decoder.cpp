#include "program_speech_decoder.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "contract.h"
#include "program.h"
#include "program_sizes.h"

namespace kz {
namespace {

constexpr char kSegments[] = "segments";
constexpr int64_t kMostSegments = 16;

Result<Program> open_program(const Manifest& manifest, const char* name) {
  KZ_TRY_ASSIGN(const Manifest::FileEntry file, manifest.program(name));
  return Program::open(file.path, file.bytes);
}

Result<SpeechDecoderSizes> read_sizes(const Program& program) {
  SpeechDecoderSizes sizes;
  KZ_TRY(read_size(program, "code_groups", sizes.code_groups, 1, 256));
  KZ_TRY(read_size(program, "codebook_size", sizes.codebook_size, 1, contract::kMaxVocabulary));
  KZ_TRY(read_size(program, "max_frames", sizes.max_frames, 1, 1 << 16));
  KZ_TRY(read_size(program, "samples_per_frame", sizes.samples_per_frame, 1, 1 << 16));
  KZ_TRY(read_size(program, "sample_rate", sizes.sample_rate));
  return sizes;
}

Result<std::unique_ptr<SpeechDecoder>> load_whole(const Program& program) {
  KZ_TRY_ASSIGN(const SpeechDecoderSizes sizes, read_sizes(program));
  KZ_TRY_ASSIGN(const int64_t states, program.read_int("state_count", 0, 1 << 16));
  std::vector<std::unique_ptr<Method>> methods;
  KZ_TRY_ASSIGN(auto method, program.load_method(contract::kDecodeMethod));
  methods.push_back(std::move(method));
  KZ_TRY_ASSIGN(auto decoder, SpeechDecoder::create(sizes, std::move(methods), false));
  if (decoder->state_count() != static_cast<std::size_t>(states)) {
    return make_error(ErrorCode::LoadFailed,
                      "%s has %zu states instead of the %lld it says; export the checkpoint again with kz export",
                      program.path().c_str(), decoder->state_count(), static_cast<long long>(states));
  }
  return decoder;
}

Result<std::unique_ptr<SpeechDecoder>> load_segments(const Program& program, const Program* npu) {
  KZ_TRY_ASSIGN(const SpeechDecoderSizes sizes, read_sizes(program));
  KZ_TRY_ASSIGN(const int64_t count, program.read_int(kSegments, 1, kMostSegments));
  std::vector<std::unique_ptr<Method>> methods;
  for (int64_t index = 0; index < count; ++index) {
    const std::string name = contract::kDecodeMethod + ("_" + std::to_string(index));
    const Program& owner = npu != nullptr && npu->has_method(name.c_str()) ? *npu : program;
    KZ_TRY_ASSIGN(auto method, owner.load_method(name));
    methods.push_back(std::move(method));
  }
  return SpeechDecoder::create(sizes, std::move(methods), true);
}

void add_missing(std::vector<std::string>& names, const std::vector<std::string>& more) {
  for (const std::string& name : more) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(name);
    }
  }
}

}  // namespace

Result<LoadedSpeechDecoder> load_speech_decoder(const Manifest& manifest) {
  KZ_TRY_ASSIGN(const Program program, open_program(manifest, contract::kSpeechDecoder));
  LoadedSpeechDecoder loaded;
  loaded.backends = program.backends();
  if (!program.has_method(kSegments)) {
    KZ_TRY_ASSIGN(loaded.decoder, load_whole(program));
    return loaded;
  }
  std::optional<Program> npu;
  if (manifest.has_program(contract::kSpeechDecoderNpu)) {
    KZ_TRY_ASSIGN(npu, open_program(manifest, contract::kSpeechDecoderNpu));
    add_missing(loaded.backends, npu->backends());
  }
  KZ_TRY_ASSIGN(loaded.decoder, load_segments(program, npu.has_value() ? &*npu : nullptr));
  return loaded;
}

}  // namespace kz
