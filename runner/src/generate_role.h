#pragma once

#include <memory>

#include "codec_embeddings.h"
#include "generator.h"
#include "manifest.h"
#include "program_frame_predictor.h"
#include "program_talker.h"
#include "role.h"

namespace kz {

/// Answers `generate`: the talker, the code predictor and the codec embeddings of a bundle.
class GenerateRole final : public Role {
 public:
  static Result<std::unique_ptr<Role>> load(const Manifest& manifest);

  Json describe() const override;
  const char* request_type() const override { return "generate"; }
  Status handle(const Message& request, Channel& channel) override;

 private:
  GenerateRole(std::unique_ptr<ProgramTalker> talker, std::unique_ptr<CodecEmbeddings> embeddings,
               std::unique_ptr<FramePredictor> predictor, std::vector<std::string> backends);

  std::unique_ptr<ProgramTalker> talker_;
  std::unique_ptr<CodecEmbeddings> embeddings_;
  std::unique_ptr<FramePredictor> predictor_;
  Generator generator_;
  std::vector<std::string> backends_;
};

}  // namespace kz
