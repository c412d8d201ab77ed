#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "span.h"

namespace kz {

/// SHA-256 (FIPS 180-4) of bytes that come in pieces. Not thread-safe.
class Sha256 {
 public:
  void update(Span<const uint8_t> bytes);

  /// The digest of everything so far, 64 lower-case hexadecimal digits. Ends the use of this object.
  std::string finish();

 private:
  static constexpr std::size_t kBlockBytes = 64;

  void compress(const uint8_t* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, kBlockBytes> pending_ = {};
  std::size_t pending_bytes_ = 0;
  uint64_t total_bytes_ = 0;
};

}  // namespace kz
