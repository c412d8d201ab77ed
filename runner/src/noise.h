#pragma once

#include <cstdint>

#include "philox.h"

namespace kz {

/// Standard Gumbel noise for the draw of one code: a pure function of (seed, frame, codebook, code), so the draw does not
/// depend on the order of calls, on the other requests of a process, on thread counts or on the platform.
class GumbelNoise {
 public:
  GumbelNoise(uint64_t seed, uint32_t frame, uint32_t codebook);

  /// Noise of `code`. Cheapest when codes are asked for in ascending order: four share one Philox block.
  double at(uint32_t code);

 private:
  PhiloxKey key_;
  uint32_t frame_;
  uint32_t codebook_;
  uint32_t block_ = UINT32_MAX;  ///< whose words `words_` holds; codes never reach this block
  PhiloxCounter words_{};
};

/// Maps a Philox word to (0, 1), then to -log(-log(u)).
double gumbel_of(uint32_t word);

}  // namespace kz
