#include "program_frame_predictor.h"

#include <utility>

#include "contract.h"
#include "fused_code_predictor.h"
#include "predictor_choice.h"
#include "program.h"
#include "program_code_predictor.h"
#include "program_sizes.h"
#include "scoring_code_predictor.h"
#include "step_frame_predictor.h"

namespace kz {
namespace {

Result<Program> open_program(const Manifest& manifest, const char* name) {
  KZ_TRY_ASSIGN(const Manifest::FileEntry file, manifest.program(name));
  return Program::open(file.path, file.bytes);
}

Status check_sizes(const Manifest& manifest, const FramePredictorSizes& sizes) {
  KZ_TRY(manifest.expect_size("hidden_size", sizes.hidden_size));
  KZ_TRY(manifest.expect_size("code_groups", sizes.code_groups));
  return manifest.expect_size("codebook_size", sizes.codebook_size);
}

template <typename Sizes>
Status read_sizes(const Program& program, Sizes& sizes) {
  KZ_TRY(read_size(program, "hidden_size", sizes.hidden_size));
  KZ_TRY(read_size(program, "code_groups", sizes.code_groups, 2, 256));
  return read_size(program, "codebook_size", sizes.codebook_size, 1, contract::kMaxVocabulary);
}

Result<std::unique_ptr<FramePredictor>> load_fused(const Program& program) {
  FusedShape shape;
  KZ_TRY(read_sizes(program, shape.sizes));
  KZ_TRY(read_size(program, "top_k", shape.top_k, 0, contract::kMaxVocabulary));
  KZ_TRY_ASSIGN(shape.min_temperature, program.read_double("min_temperature"));
  KZ_TRY_ASSIGN(auto method, program.load_method(contract::kFrameMethod));
  KZ_TRY_ASSIGN(auto predictor, FusedCodePredictor::create(std::move(method), shape));
  return std::unique_ptr<FramePredictor>(std::move(predictor));
}

Result<std::unique_ptr<CodePredictor>> load_scoring(const Program& program) {
  CodePredictorSizes sizes;
  KZ_TRY(read_sizes(program, sizes));
  KZ_TRY_ASSIGN(auto method, program.load_method(contract::kScoreMethod));
  return ScoringCodePredictor::create(std::move(method), sizes);
}

Result<std::unique_ptr<CodePredictor>> load_cached(const Program& program) {
  KZ_TRY_ASSIGN(auto predictor, ProgramCodePredictor::load(program));
  return std::unique_ptr<CodePredictor>(std::move(predictor));
}

Result<std::unique_ptr<FramePredictor>> load_steps(const Program& program, const CodecEmbeddings& embeddings) {
  KZ_TRY_ASSIGN(auto predictor, program.has_method(contract::kScoreMethod) ? load_scoring(program) : load_cached(program));
  return std::unique_ptr<FramePredictor>(std::make_unique<StepFramePredictor>(std::move(predictor), embeddings));
}

PredictorChoice::Loader steps_loader(const Manifest& manifest, const CodecEmbeddings& embeddings) {
  if (!manifest.has_program(contract::kCodePredictorSteps)) {
    return {};
  }
  return [manifest, &embeddings]() -> Result<std::unique_ptr<FramePredictor>> {
    KZ_TRY_ASSIGN(const Program program, open_program(manifest, contract::kCodePredictorSteps));
    return load_steps(program, embeddings);
  };
}

}  // namespace

Result<LoadedFramePredictor> load_frame_predictor(const Manifest& manifest, const CodecEmbeddings& embeddings) {
  KZ_TRY_ASSIGN(const Program program, open_program(manifest, contract::kCodePredictor));
  LoadedFramePredictor loaded;
  loaded.backends = program.backends();
  if (program.has_method(contract::kFrameMethod)) {
    KZ_TRY_ASSIGN(auto fused, load_fused(program));
    loaded.predictor = std::make_unique<PredictorChoice>(std::move(fused), steps_loader(manifest, embeddings));
  } else {
    KZ_TRY_ASSIGN(loaded.predictor, load_steps(program, embeddings));
  }
  KZ_TRY(check_sizes(manifest, loaded.predictor->sizes()));
  return loaded;
}

}  // namespace kz
