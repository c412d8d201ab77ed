#include "sampler.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "exact_math.h"

namespace kz {
namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();

void penalise_repetitions(double penalty, const CodeHistory& history, Span<float> logits) {
  const float factor = static_cast<float>(penalty);
  for (const int32_t code : history.distinct()) {
    float& logit = logits[static_cast<std::size_t>(code)];
    logit = logit > 0.0f ? logit / factor : logit * factor;
  }
}

}  // namespace

void apply_rules(const LogitRules& rules, const CodeHistory& history, Span<float> logits) {
  if (rules.repetition_penalty != 1.0) {
    penalise_repetitions(rules.repetition_penalty, history, logits);
  }
  for (std::size_t code = static_cast<std::size_t>(rules.suppress_from); code < logits.size(); ++code) {
    if (code != static_cast<std::size_t>(rules.eos)) {
      logits[code] = kBanned;
    }
  }
  if (rules.forbid_eos) {
    logits[static_cast<std::size_t>(rules.eos)] = kBanned;
  }
}

Sampler::Sampler(std::size_t max_codes) {
  kept_.reserve(max_codes);
  ranking_.reserve(max_codes);
  weights_.reserve(max_codes);
}

Span<const int32_t> Sampler::keep(Span<const float> logits, const SamplingOptions& options) {
  keep_top_k(logits, options.top_k);
  if (options.top_p < 1.0) {
    keep_top_p(logits, options.temperature, options.top_p);
  }
  return kept_;
}

int32_t Sampler::draw(Span<const float> logits, const SamplingOptions& options, GumbelNoise noise) {
  if (options.greedy) {
    return argmax(logits);
  }
  int32_t best = 0;
  double best_score = -std::numeric_limits<double>::infinity();
  for (const int32_t code : keep(logits, options)) {
    const double logit = logits[static_cast<std::size_t>(code)];
    const double score = logit / options.temperature + noise.at(static_cast<uint32_t>(code));
    if (score > best_score) {
      best_score = score;
      best = code;
    }
  }
  return best;
}

/// The temperature does not reorder logits, so the k-th largest is found without it.
void Sampler::keep_top_k(Span<const float> logits, int64_t top_k) {
  float threshold = std::numeric_limits<float>::lowest();
  if (top_k > 0 && static_cast<uint64_t>(top_k) < logits.size()) {
    ranking_.assign(logits.begin(), logits.end());
    const auto kth = ranking_.begin() + (top_k - 1);
    std::nth_element(ranking_.begin(), kth, ranking_.end(), std::greater<float>());
    threshold = std::max(threshold, *kth);
  }
  kept_.clear();
  for (std::size_t code = 0; code < logits.size(); ++code) {
    if (logits[code] >= threshold) {
      kept_.push_back(static_cast<int32_t>(code));
    }
  }
}

void Sampler::keep_top_p(Span<const float> logits, double temperature, double top_p) {
  if (kept_.empty()) {
    return;
  }
  const auto logit_of = [&](int32_t code) { return logits[static_cast<std::size_t>(code)]; };
  std::sort(kept_.begin(), kept_.end(),
            [&](int32_t a, int32_t b) { return logit_of(a) != logit_of(b) ? logit_of(a) < logit_of(b) : a < b; });
  const double largest = logit_of(kept_.back());
  weights_.clear();
  double total = 0.0;
  for (const int32_t code : kept_) {
    weights_.push_back(exact_exp((logit_of(code) - largest) / temperature));
    total += weights_.back();
  }
  double cumulative = 0.0;
  std::size_t dropped = 0;
  while (dropped + 1 < kept_.size()) {
    cumulative += weights_[dropped] / total;
    if (!(cumulative <= 1.0 - top_p)) {
      break;
    }
    ++dropped;
  }
  kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(dropped));
  std::sort(kept_.begin(), kept_.end());
}

std::size_t first_non_finite(Span<const float> logits) {
  std::size_t index = 0;
  while (index < logits.size() && std::isfinite(logits[index])) {
    ++index;
  }
  return index;
}

Status expect_finite(Span<const float> logits, std::size_t frame, std::size_t codebook) {
  if (first_non_finite(logits) < logits.size()) {
    return make_error(
        ErrorCode::NonFiniteLogits,
        "frame %zu, codebook %zu: the model gave a score that is not finite; export the checkpoint again, with --quant "
        "fp32 if it was quantised",
        frame, codebook);
  }
  return {};
}

int32_t argmax(Span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace kz
