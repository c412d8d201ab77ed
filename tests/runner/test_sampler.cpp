#include <limits>
#include <vector>

#include "check.h"
#include "sampler.h"

namespace kz {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<int32_t> kept(const std::vector<float>& logits, const SamplingOptions& options) {
  Sampler sampler(logits.size());
  const auto codes = sampler.keep(logits, options);
  return {codes.begin(), codes.end()};
}

CodeHistory history_of(std::initializer_list<int32_t> codes) {
  CodeHistory history(8);
  for (const int32_t code : codes) {
    history.add(code);
  }
  return history;
}

LogitRules no_rules() {
  LogitRules rules;
  rules.suppress_from = 8;
  rules.eos = 7;
  return rules;
}

using Codes = std::vector<int32_t>;

}  // namespace

TEST(the_penalty_divides_positive_logits_and_multiplies_the_others) {
  std::vector<float> logits{2.0f, -2.0f, 0.0f, 3.0f};
  LogitRules rules = no_rules();
  rules.repetition_penalty = 1.25;
  apply_rules(rules, history_of({0, 1, 2}), logits);
  CHECK_EQUAL(logits, (std::vector<float>{2.0f / 1.25f, -2.0f * 1.25f, 0.0f, 3.0f}));
}

TEST(the_penalty_counts_each_id_once) {
  std::vector<float> logits{2.0f, 1.0f};
  LogitRules rules = no_rules();
  rules.repetition_penalty = 2.0;
  apply_rules(rules, history_of({0, 0, 0}), logits);
  CHECK_EQUAL(logits[0], 1.0f);
}

TEST(a_cleared_history_penalises_nothing) {
  CodeHistory history = history_of({0, 1});
  history.clear();
  CHECK(history.distinct().empty());
  history.add(1);
  CHECK_EQUAL(history.distinct().size(), std::size_t{1});
}

TEST(suppression_spares_eos) {
  std::vector<float> logits(8, 1.0f);
  LogitRules rules = no_rules();
  rules.suppress_from = 5;
  rules.eos = 6;
  apply_rules(rules, history_of({}), logits);
  CHECK_EQUAL(logits, (std::vector<float>{1, 1, 1, 1, 1, -kInfinity, 1, -kInfinity}));
}

TEST(eos_can_be_forbidden) {
  std::vector<float> logits(8, 1.0f);
  LogitRules rules = no_rules();
  rules.forbid_eos = true;
  apply_rules(rules, history_of({}), logits);
  CHECK_EQUAL(logits[7], -kInfinity);
  CHECK_EQUAL(logits[6], 1.0f);
}

TEST(nothing_is_cut_by_default) { CHECK_EQUAL(kept({1, 2, 3}, {}), (Codes{0, 1, 2})); }

TEST(banned_codes_are_never_kept) { CHECK_EQUAL(kept({1, -kInfinity, 3}, {}), (Codes{0, 2})); }

TEST(top_k_keeps_the_largest) {
  SamplingOptions options;
  options.top_k = 2;
  CHECK_EQUAL(kept({1, 4, 3, 2}, options), (Codes{1, 2}));
}

TEST(top_k_keeps_ties_with_the_last) {
  SamplingOptions options;
  options.top_k = 2;
  CHECK_EQUAL(kept({3, 4, 3, 3, 1}, options), (Codes{0, 1, 2, 3}));
}

TEST(top_k_beyond_the_vocabulary_keeps_all) {
  SamplingOptions options;
  options.top_k = 1000000;
  CHECK_EQUAL(kept({1, 2, 3}, options), (Codes{0, 1, 2}));
}

TEST(top_k_larger_than_what_is_allowed_keeps_what_is_allowed) {
  SamplingOptions options;
  options.top_k = 3;
  CHECK_EQUAL(kept({1, -kInfinity, 3, -kInfinity}, options), (Codes{0, 2}));
}

// Probabilities 0.1, 0.2, 0.3, 0.4: cumulative from below 0.1, 0.3, 0.6, 1.
const std::vector<float> kTenths{std::log(0.1f), std::log(0.2f), std::log(0.3f), std::log(0.4f)};

TEST(top_p_drops_from_below) {
  SamplingOptions options;
  options.top_p = 0.8;  // dropped while cumulative <= 0.2
  CHECK_EQUAL(kept(kTenths, options), (Codes{1, 2, 3}));
  options.top_p = 0.65;  // <= 0.35
  CHECK_EQUAL(kept(kTenths, options), (Codes{2, 3}));
}

TEST(top_p_keeps_at_least_the_best) {
  SamplingOptions options;
  options.top_p = 0.0;
  CHECK_EQUAL(kept(kTenths, options), (Codes{3}));
}

TEST(top_p_drops_the_lower_code_of_a_tie_first) {
  SamplingOptions options;
  options.top_p = 0.5;
  CHECK_EQUAL(kept({0, 0, 0, 0}, options), (Codes{2, 3}));
}

TEST(top_p_sees_the_temperature) {
  SamplingOptions options;
  options.top_p = 0.65;
  options.temperature = 100.0;  // nearly uniform: two of four may go, but not a third
  CHECK_EQUAL(kept(kTenths, options), (Codes{1, 2, 3}));
}

TEST(top_p_sees_only_what_top_k_left) {
  SamplingOptions options;
  options.top_k = 2;  // leaves 3/7 and 4/7
  options.top_p = 0.6;
  CHECK_EQUAL(kept(kTenths, options), (Codes{2, 3}));
  options.top_p = 0.5;  // 3/7 <= 0.5
  CHECK_EQUAL(kept(kTenths, options), (Codes{3}));
}

TEST(greedy_takes_the_lowest_of_the_best) {
  SamplingOptions options;
  options.greedy = true;
  Sampler sampler(4);
  CHECK_EQUAL(sampler.draw(std::vector<float>{1, 5, 5, 2}, options, GumbelNoise(1, 0, 0)), 1);
}

TEST(a_draw_is_the_argmax_of_logit_over_temperature_plus_noise) {
  const std::vector<float> logits{0.5f, 1.0f, -0.25f, 0.75f, 0.0f};
  SamplingOptions options;
  options.temperature = 0.7;
  Sampler sampler(logits.size());
  for (uint32_t frame = 0; frame < 200; ++frame) {
    GumbelNoise noise(9, frame, 3);
    int32_t best = 0;
    double best_score = -1e300;
    for (uint32_t code = 0; code < logits.size(); ++code) {
      const double score = logits[code] / 0.7 + noise.at(code);
      if (score > best_score) {
        best_score = score;
        best = static_cast<int32_t>(code);
      }
    }
    CHECK_EQUAL(sampler.draw(logits, options, GumbelNoise(9, frame, 3)), best);
  }
}

TEST(noise_belongs_to_the_code_not_to_its_rank) {
  SamplingOptions all;
  SamplingOptions cut;
  cut.top_k = 3;
  const std::vector<float> logits{3.0f, -50.0f, 2.9f, -50.0f, 2.8f};
  Sampler sampler(logits.size());
  for (uint32_t frame = 0; frame < 100; ++frame) {
    const GumbelNoise noise(5, frame, 0);
    CHECK_EQUAL(sampler.draw(logits, cut, noise), sampler.draw(logits, all, noise));
  }
}

// 40,000 draws of four codes: chi-square with 3 degrees of freedom passes 21.1 once in 10,000.
TEST(draws_follow_the_softmax) {
  SamplingOptions options;
  Sampler sampler(4);
  constexpr uint32_t kDraws = 40000;
  std::vector<double> counts(4, 0.0);
  for (uint32_t frame = 0; frame < kDraws; ++frame) {
    counts[static_cast<std::size_t>(sampler.draw(kTenths, options, GumbelNoise(2024, frame, 1)))] += 1.0;
  }
  double chi_square = 0.0;
  for (std::size_t code = 0; code < 4; ++code) {
    const double expected = kDraws * 0.1 * static_cast<double>(code + 1);
    chi_square += (counts[code] - expected) * (counts[code] - expected) / expected;
  }
  CHECK(chi_square < 21.1);
}

TEST(non_finite_scores_are_found) {
  CHECK_EQUAL(first_non_finite(std::vector<float>{1, 2}), std::size_t{2});
  CHECK_EQUAL(first_non_finite(std::vector<float>{1, NAN, 2}), std::size_t{1});
  CHECK_EQUAL(first_non_finite(std::vector<float>{-kInfinity}), std::size_t{0});
}

}  // namespace kz
