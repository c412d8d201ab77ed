#include "generate_role.h"

#include <algorithm>
#include <utility>

#include "answer.h"
#include "contract.h"
#include "program.h"
#include "request.h"
#include "stats.h"

namespace kz {
namespace {

/// Sends frames as they come and looks for a cancellation in between.
class ChannelSink final : public FrameSink {
 public:
  ChannelSink(Channel& channel, const std::string& id, std::size_t code_groups)
      : channel_(channel), id_(id), line_(id, code_groups * sizeof(int16_t)) {}

  Status on_frame(std::size_t index, Span<const int16_t> codes) override {
    const auto* bytes = reinterpret_cast<const uint8_t*>(codes.data());
    return channel_.send(line_.at(index), {bytes, codes.size() * sizeof(int16_t)});
  }

  bool is_cancelled() override {
    channel_.collect();
    return channel_.take_cancel(id_);
  }

 private:
  Channel& channel_;
  const std::string& id_;
  FrameLine line_;
};

Result<Program> open_program(const Manifest& manifest, const char* name) {
  KZ_TRY_ASSIGN(const Manifest::FileEntry file, manifest.program(name));
  return Program::open(file.path, file.bytes);
}

Status check_talker(const Manifest& manifest, const TalkerSizes& sizes) {
  KZ_TRY(manifest.expect_size("hidden_size", sizes.hidden_size));
  KZ_TRY(manifest.expect_size("layers", sizes.layers));
  KZ_TRY(manifest.expect_size("kv_heads", sizes.kv_heads));
  KZ_TRY(manifest.expect_size("head_dim", sizes.head_dim));
  KZ_TRY(manifest.expect_size("vocab_size", sizes.vocab_size));
  KZ_TRY(manifest.expect_size("code_groups", sizes.code_groups));
  KZ_TRY(manifest.expect_size("codebook_size", sizes.codebook_size));
  KZ_TRY(manifest.expect_size("context_length", sizes.context_length));
  return manifest.expect_size("prefill_tokens", sizes.prefill_tokens);
}

Result<CodecEmbeddings> open_embeddings(const Manifest& manifest, const TalkerSizes& talker) {
  KZ_TRY_ASSIGN(auto layout, manifest.table_layout(contract::kCodecEmbeddings));
  std::vector<int64_t> rows(talker.code_groups, static_cast<int64_t>(talker.codebook_size));
  rows[0] = static_cast<int64_t>(talker.vocab_size);
  if (layout.rows != rows || layout.width != static_cast<int64_t>(talker.hidden_size)) {
    return make_error(ErrorCode::LoadFailed,
                      "the codec embedding table does not fit the programs; export the checkpoint again with "
                      "kz export");
  }
  KZ_TRY_ASSIGN(const Manifest::FileEntry entry, manifest.table(contract::kCodecEmbeddings));
  KZ_TRY_ASSIGN(MappedFile file, MappedFile::open(entry.path));
  if (file.bytes().size() != entry.bytes) {
    return wrong_size(entry.path, file.bytes().size(), entry.bytes);
  }
  return CodecEmbeddings::create(std::move(layout), std::move(file));
}

std::vector<std::string> merged(std::vector<std::string> names, const std::vector<std::string>& more) {
  for (const std::string& name : more) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(name);
    }
  }
  return names;
}

}  // namespace

Result<std::unique_ptr<Role>> GenerateRole::load(const Manifest& manifest) {
  KZ_TRY_ASSIGN(const Program talker_program, open_program(manifest, contract::kTalker));
  KZ_TRY_ASSIGN(auto talker, ProgramTalker::load(talker_program));
  KZ_TRY(check_talker(manifest, talker->sizes()));
  KZ_TRY_ASSIGN(CodecEmbeddings opened, open_embeddings(manifest, talker->sizes()));
  auto embeddings = std::make_unique<CodecEmbeddings>(std::move(opened));
  KZ_TRY_ASSIGN(LoadedFramePredictor loaded, load_frame_predictor(manifest, *embeddings));
  return std::unique_ptr<Role>(new GenerateRole(std::move(talker), std::move(embeddings), std::move(loaded.predictor),
                                                merged(talker_program.backends(), loaded.backends)));
}

GenerateRole::GenerateRole(std::unique_ptr<ProgramTalker> talker, std::unique_ptr<CodecEmbeddings> embeddings,
                           std::unique_ptr<FramePredictor> predictor, std::vector<std::string> backends)
    : talker_(std::move(talker)),
      embeddings_(std::move(embeddings)),
      predictor_(std::move(predictor)),
      generator_(*talker_, *predictor_, *embeddings_),
      backends_(std::move(backends)) {}

Json GenerateRole::describe() const {
  const TalkerSizes& sizes = talker_->sizes();
  return Json{{"backends", backends_},
              {"hidden_size", sizes.hidden_size},
              {"context_length", sizes.context_length},
              {"prefill_tokens", sizes.prefill_tokens},
              {"vocab_size", sizes.vocab_size},
              {"code_groups", sizes.code_groups},
              {"codebook_size", sizes.codebook_size},
              {"codec_eos_id", sizes.codec_eos_id}};
}

Status GenerateRole::handle(const Message& message, Channel& channel) {
  KZ_TRY_ASSIGN(const GenerateRequest request, parse_generate(message));
  ChannelSink sink(channel, request.id, talker_->sizes().code_groups);
  KZ_TRY_ASSIGN(const Generation done, generator_.run(request, sink));
  return channel.send(answer_line("done", request.id,
                                  Json{{"stop_reason", stop_reason_name(done.stop_reason)},
                                       {"frames", done.frames},
                                       {"prefill_ms", rounded_ms(done.prefill_ms)},
                                       {"talker_ms", rounded_ms(done.talker_ms)},
                                       {"predictor_ms", rounded_ms(done.predictor_ms)},
                                       {"sample_ms", rounded_ms(done.sample_ms)},
                                       {"kv_copied_bytes", done.kv_copied_bytes},
                                       {"kv_copied_bytes_per_step", done.kv_copied_bytes_per_step},
                                       {"calls_per_frame", done.calls_per_frame},
                                       {"npu_calls_per_frame", done.npu_calls_per_frame},
                                       {"peak_rss_bytes", peak_rss_bytes()}}));
}

}  // namespace kz
