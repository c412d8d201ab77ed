#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "code_history.h"
#include "error.h"
#include "noise.h"
#include "span.h"

namespace kz {

/// How one codebook is drawn.
struct SamplingOptions {
  bool greedy = false;       ///< take the largest logit (the lowest code on a tie); the fields below are not used
  double temperature = 1.0;  ///< > 0
  int64_t top_k = 0;         ///< >= 0; 0 keeps all
  double top_p = 1.0;        ///< in [0, 1]; 1 keeps all, 0 keeps the best
};

/// What is done to codebook 0's logits before anything is drawn from them.
struct LogitRules {
  double repetition_penalty = 1.0;  ///< > 0; 1 is none
  int32_t suppress_from = 0;        ///< codes >= this are never drawn, but for `eos`
  int32_t eos = 0;
  bool forbid_eos = false;
};

/// Applies `rules` to `logits` in place: the repetition penalty once for each id of `history` (positive logits are divided,
/// the others multiplied, in float32 as the reference does), then suppression, then the ban on EOS. Banned codes become -inf.
void apply_rules(const LogitRules& rules, const CodeHistory& history, Span<float> logits);

/// Draws codes as the reference's logits warpers do, in their order: temperature, top-k, top-p, then a draw from what is left.
/// The draw is Gumbel-max. All arithmetic is exact_math's, so the result does not depend on the platform.
/// Not thread-safe; nothing allocates after construction.
class Sampler {
 public:
  /// `max_codes`: longest `logits` it will be given.
  explicit Sampler(std::size_t max_codes);

  /// The codes a draw chooses from, ascending: top-k (ties with the k-th largest stay), then top-p (from the least probable
  /// up, codes go while their cumulative probability is <= 1 - top_p; the best stays). -inf is never kept.
  /// Valid until the next call.
  Span<const int32_t> keep(Span<const float> logits, const SamplingOptions& options);

  /// One code of `logits` ([codes], none NaN or +inf, at least one finite).
  int32_t draw(Span<const float> logits, const SamplingOptions& options, GumbelNoise noise);

 private:
  void keep_top_k(Span<const float> logits, int64_t top_k);
  void keep_top_p(Span<const float> logits, double temperature, double top_p);

  std::vector<int32_t> kept_;
  std::vector<float> ranking_;
  std::vector<double> weights_;
};

/// Index of the first element of `logits` that is NaN or infinite, or `logits.size()`.
std::size_t first_non_finite(Span<const float> logits);

/// NonFiniteLogits, naming frame and codebook, when one of `logits` is NaN or infinite.
Status expect_finite(Span<const float> logits, std::size_t frame, std::size_t codebook);

/// Index of the largest of `logits`, the lowest one on a tie.
int32_t argmax(Span<const float> logits);

}  // namespace kz
