#include "sha256.h"

#include <algorithm>
#include <cstring>

namespace kz {
namespace {

constexpr std::array<uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

constexpr std::size_t kLengthBytes = 8;

uint32_t rotate(uint32_t word, int bits) { return (word >> bits) | (word << (32 - bits)); }

uint32_t big_endian(const uint8_t* bytes) {
  return static_cast<uint32_t>(bytes[0]) << 24 | static_cast<uint32_t>(bytes[1]) << 16 | static_cast<uint32_t>(bytes[2]) << 8 |
         static_cast<uint32_t>(bytes[3]);
}

std::array<uint32_t, 64> schedule(const uint8_t* block) {
  std::array<uint32_t, 64> words;
  for (std::size_t t = 0; t < 16; ++t) {
    words[t] = big_endian(block + 4 * t);
  }
  for (std::size_t t = 16; t < 64; ++t) {
    const uint32_t early = words[t - 15];
    const uint32_t late = words[t - 2];
    words[t] = words[t - 16] + words[t - 7] + (rotate(early, 7) ^ rotate(early, 18) ^ (early >> 3)) +
               (rotate(late, 17) ^ rotate(late, 19) ^ (late >> 10));
  }
  return words;
}

}  // namespace

void Sha256::update(Span<const uint8_t> bytes) {
  total_bytes_ += bytes.size();
  const uint8_t* next = bytes.data();
  std::size_t left = bytes.size();
  while (left > 0) {
    if (pending_bytes_ == 0 && left >= kBlockBytes) {
      compress(next);
      next += kBlockBytes;
      left -= kBlockBytes;
      continue;
    }
    const std::size_t count = std::min(left, kBlockBytes - pending_bytes_);
    std::memcpy(pending_.data() + pending_bytes_, next, count);
    pending_bytes_ += count;
    next += count;
    left -= count;
    if (pending_bytes_ == kBlockBytes) {
      compress(pending_.data());
      pending_bytes_ = 0;
    }
  }
}

std::string Sha256::finish() {
  // A one bit, zeros up to the last eight bytes of a block, and the length in bits.
  std::array<uint8_t, kBlockBytes + kLengthBytes> padding = {0x80};
  const std::size_t filled = pending_bytes_ + 1 + kLengthBytes;
  const std::size_t zeros = (kBlockBytes - filled % kBlockBytes) % kBlockBytes;
  const uint64_t bits = total_bytes_ * 8;
  for (std::size_t index = 0; index < kLengthBytes; ++index) {
    padding[1 + zeros + index] = static_cast<uint8_t>(bits >> (8 * (kLengthBytes - 1 - index)));
  }
  update({padding.data(), 1 + zeros + kLengthBytes});
  static const char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const uint32_t word : state_) {
    for (int shift = 28; shift >= 0; shift -= 4) {
      hex += kDigits[(word >> shift) & 15u];
    }
  }
  return hex;
}

void Sha256::compress(const uint8_t* block) {
  const auto words = schedule(block);
  auto [a, b, c, d, e, f, g, h] = state_;
  for (std::size_t t = 0; t < 64; ++t) {
    const uint32_t choice = (e & f) ^ (~e & g);
    const uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
    const uint32_t first = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + choice + kRound[t] + words[t];
    const uint32_t second = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + majority;
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const std::array<uint32_t, 8> result = {a, b, c, d, e, f, g, h};
  for (std::size_t index = 0; index < result.size(); ++index) {
    state_[index] += result[index];
  }
}

}  // namespace kz
