#pragma once

#include <memory>
#include <string>
#include <vector>

#include "manifest.h"
#include "role.h"
#include "speaker_encoder.h"

namespace kz {

/// Answers `embed`: the speaker encoder of a bundle.
class EmbedRole final : public Role {
 public:
  static Result<std::unique_ptr<Role>> load(const Manifest& manifest);

  Json describe() const override;
  const char* request_type() const override { return "embed"; }
  Status handle(const Message& request, Channel& channel) override;

 private:
  EmbedRole(std::unique_ptr<SpeakerEncoder> encoder, std::vector<std::string> backends);

  std::unique_ptr<SpeakerEncoder> encoder_;
  std::vector<std::string> backends_;
};

}  // namespace kz
