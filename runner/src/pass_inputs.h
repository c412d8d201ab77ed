#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "span.h"

namespace kz {

/// Order of a cached transformer's inputs; the past keys of all layers come first, then the past values.
constexpr std::size_t kEmbeds = 0;
constexpr std::size_t kPositions = 1;
constexpr std::size_t kMask = 2;
constexpr std::size_t kFirstPast = 3;

/// One call of a cached transformer: `rows` new tokens behind `past` cached ones, in a method that takes `tokens` of them after
/// `columns - tokens` rows of past. Fewer rows than tokens are right-aligned: pad rows come first, see only themselves and are
/// seen by nobody.
struct PassRows {
  std::size_t rows;
  std::size_t tokens;
  std::size_t past;
  std::size_t columns;

  std::size_t pad() const { return tokens - rows; }
};

/// Writes `embeds` [rows, D] to the end of `target` [tokens, D], zeros in front.
inline void fill_embeds(Span<const float> embeds, Span<float> target) {
  float* const first = std::fill_n(target.begin(), target.size() - embeds.size(), 0.0f);
  std::copy(embeds.begin(), embeds.end(), first);
}

/// Writes the position of each token, 0 for pad rows, to `target` [tokens].
template <typename Integer>
void fill_positions(const PassRows& pass, Integer* target) {
  for (std::size_t row = 0; row < pass.tokens; ++row) {
    target[row] = row < pass.pad() ? Integer{0} : static_cast<Integer>(pass.past + row - pass.pad());
  }
}

/// Writes 0 for what a row sees and `drop` for what it must not, to `mask` [tokens, columns].
inline void fill_mask(const PassRows& pass, float drop, float* mask) {
  const std::size_t own = pass.columns - pass.tokens;  // column of row 0
  for (std::size_t row = 0; row < pass.tokens; ++row) {
    float* line = mask + row * pass.columns;
    std::fill_n(line, pass.columns, drop);
    if (row < pass.pad()) {
      line[own + row] = 0.0f;
      continue;
    }
    std::fill_n(line, pass.past, 0.0f);
    std::fill_n(line + own + pass.pad(), row - pass.pad() + 1, 0.0f);
  }
}

}  // namespace kz
