#include "noise.h"

#include "exact_math.h"

namespace kz {

GumbelNoise::GumbelNoise(uint64_t seed, uint32_t frame, uint32_t codebook)
    : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}, frame_(frame), codebook_(codebook) {}

double GumbelNoise::at(uint32_t code) {
  const uint32_t block = code / 4;
  if (block != block_) {
    words_ = philox4x32({block, codebook_, frame_, 0}, key_);
    block_ = block;
  }
  return gumbel_of(words_[code % 4]);
}

double gumbel_of(uint32_t word) {
  const double u = (word + 0.5) * 0x1p-32;  // never 0 or 1, so both logarithms are finite
  return -exact_log(-exact_log(u));
}

}  // namespace kz
