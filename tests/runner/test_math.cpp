#include <cstdint>
#include <cstring>

#include "check.h"
#include "exact_math.h"
#include "noise.h"
#include "philox.h"

namespace kz {
namespace {

double relative_error(double actual, double expected) {
  return expected == 0.0 ? std::fabs(actual) : std::fabs(actual - expected) / std::fabs(expected);
}

uint64_t bits_of(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

}  // namespace

TEST(log_agrees_with_the_library_everywhere_it_is_used) {
  double worst = 0.0;
  for (uint32_t index = 0; index < 200000; ++index) {
    const PhiloxCounter words = philox4x32({index, 0, 0, 0}, {1, 2});
    const double u = (words[0] + 0.5) * 0x1p-32;
    worst = std::max(worst, relative_error(exact_log(u), std::log(u)));
    const double e = -std::log(u);
    worst = std::max(worst, relative_error(exact_log(e), std::log(e)));
  }
  CHECK(worst < 1e-15);
}

TEST(log_agrees_near_one_and_at_powers_of_two) {
  for (int step = 1; step < 1000; ++step) {
    const double above = 1.0 + step * 0x1p-40;
    const double below = 1.0 - step * 0x1p-33;
    CHECK(relative_error(exact_log(above), std::log(above)) < 1e-15);
    CHECK(relative_error(exact_log(below), std::log(below)) < 1e-15);
  }
  for (int exponent = -1000; exponent <= 1000; exponent += 7) {
    const double x = std::ldexp(1.0, exponent);
    CHECK(relative_error(exact_log(x), std::log(x)) < 1e-15);
  }
  CHECK_EQUAL(exact_log(1.0), 0.0);
}

// Golden: a platform where this fails would draw other codes from the same seed.
TEST(noise_has_the_same_bits_on_every_platform) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a, a word at a time
  for (uint32_t code = 0; code < 4096; ++code) {
    hash = (hash ^ bits_of(GumbelNoise(1, 2, 3).at(code))) * 0x100000001b3;
    hash = (hash ^ bits_of(exact_exp(-0.01 * code))) * 0x100000001b3;
  }
  CHECK_EQUAL(hash, uint64_t{2965360460364939743});
}

TEST(exp_agrees_with_the_library) {
  for (int step = 0; step < 70000; ++step) {
    const double x = -0.01 * step + 1e-3;
    if (x <= 0.0) {
      CHECK(relative_error(exact_exp(x), std::exp(x)) < 2e-15);
    }
  }
  CHECK_EQUAL(exact_exp(0.0), 1.0);
  CHECK_EQUAL(exact_exp(-701.0), 0.0);
}

}  // namespace kz
