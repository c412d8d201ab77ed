#include "check.h"
#include "noise.h"
#include "philox.h"

namespace kz {

// Known answers published with Random123 (kat_vectors, philox4x32, 10 rounds).
TEST(known_answers) {
  const PhiloxCounter zeros = philox4x32({0, 0, 0, 0}, {0, 0});
  CHECK(zeros == (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const PhiloxCounter ones = philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u});
  CHECK(ones == (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  const PhiloxCounter pi = philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0});
  CHECK(pi == (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(noise_is_keyed_on_seed_frame_codebook_and_code) {
  const uint64_t seed = 0x0123456789abcdef;
  const PhiloxCounter words = philox4x32({1723 / 4, 5, 77, 0}, {0x89abcdef, 0x01234567});
  CHECK(GumbelNoise(seed, 77, 5).at(1723) == gumbel_of(words[3]));
}

TEST(noise_does_not_depend_on_the_order_of_calls) {
  GumbelNoise forward(1, 2, 3);
  const double first = forward.at(0);
  const double sixth = forward.at(5);
  GumbelNoise backward(1, 2, 3);
  CHECK(backward.at(5) == sixth);
  CHECK(backward.at(0) == first);
}

TEST(noise_is_finite_at_the_ends) {
  CHECK(std::isfinite(gumbel_of(0)));
  CHECK(std::isfinite(gumbel_of(~0u)));
  CHECK(gumbel_of(0) < -3.0);
  CHECK(gumbel_of(~0u) > 22.0);
}

// Mean Euler's constant, variance pi^2 / 6: 200,000 draws put the mean within 0.003 of it, one standard error.
TEST(noise_has_the_moments_of_a_gumbel_distribution) {
  constexpr int kDraws = 200000;
  GumbelNoise noise(42, 0, 0);
  double sum = 0.0;
  double squares = 0.0;
  for (uint32_t code = 0; code < kDraws; ++code) {
    const double value = noise.at(code);
    sum += value;
    squares += value * value;
  }
  const double mean = sum / kDraws;
  CHECK(std::fabs(mean - 0.5772156649) < 0.012);
  CHECK(std::fabs(squares / kDraws - mean * mean - 1.6449340668) < 0.04);
}

}  // namespace kz
