#pragma once

#include <memory>
#include <string>
#include <vector>

#include "manifest.h"
#include "role.h"
#include "speech_decoder.h"

namespace kz {

/// Answers `decode`: the speech decoder of a bundle.
class DecodeRole final : public Role {
 public:
  static Result<std::unique_ptr<Role>> load(const Manifest& manifest);

  Json describe() const override;
  const char* request_type() const override { return "decode"; }
  Status handle(const Message& request, Channel& channel) override;

 private:
  DecodeRole(std::unique_ptr<SpeechDecoder> decoder, std::vector<std::string> backends);

  std::unique_ptr<SpeechDecoder> decoder_;
  std::vector<std::string> backends_;
};

}  // namespace kz
