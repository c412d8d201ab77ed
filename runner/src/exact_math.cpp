#include "exact_math.h"

#include <cstdint>
#include <cstring>

namespace kz {
namespace {

constexpr double kLn2High = 6.93147180369123816490e-01;  // low 32 bits zero: exponent * kLn2High is exact
constexpr double kLn2Low = 1.90821492927058770002e-10;
constexpr double kLog2E = 1.44269504088896338700e+00;
constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr int kMantissaBits = 52;
constexpr int kExponentBias = 1023;

/// Series of atanh(s) / s - 1 in powers of s * s, and of exp(r) in powers of r; highest power first.
constexpr double kAtanhSeries[] = {1.0 / 25, 1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15,
                                   1.0 / 13, 1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3};
constexpr double kExpSeries[] = {
    1.0 / 87178291200, 1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
    1.0 / 720,         1.0 / 120,        1.0 / 24,        1.0 / 6,        1.0 / 2,       1.0,          1.0};

double from_bits(uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

uint64_t to_bits(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

double power_of_two(int exponent) { return from_bits(static_cast<uint64_t>(exponent + kExponentBias) << kMantissaBits); }

}  // namespace

double exact_log(double x) {
  const uint64_t bits = to_bits(x);
  int exponent = static_cast<int>(bits >> kMantissaBits) - kExponentBias + 1;
  constexpr uint64_t kMantissaMask = (uint64_t{1} << kMantissaBits) - 1;
  double mantissa = from_bits((bits & kMantissaMask) | (uint64_t{kExponentBias - 1} << kMantissaBits));  // [0.5, 1)
  if (mantissa < kSqrtHalf) {
    mantissa *= 2.0;
    exponent -= 1;
  }
  // log(m) = 2 atanh(s) with s = (m - 1) / (m + 1), |s| <= 0.172: 12 terms of the series leave less than 1e-19.
  const double s = (mantissa - 1.0) / (mantissa + 1.0);
  const double s2 = s * s;
  double tail = 0.0;
  for (const double coefficient : kAtanhSeries) {
    tail = (tail + coefficient) * s2;
  }
  const double log_mantissa = 2.0 * s + 2.0 * s * tail;
  return exponent * kLn2High + (log_mantissa + exponent * kLn2Low);
}

double exact_exp(double x) {
  if (x < -700.0) {
    return 0.0;
  }
  const int exponent = static_cast<int>(x * kLog2E - 0.5);          // to nearest, as x <= 0
  const double r = (x - exponent * kLn2High) - exponent * kLn2Low;  // |r| <= ln(2) / 2
  double sum = 0.0;
  for (const double coefficient : kExpSeries) {
    sum = sum * r + coefficient;
  }
  return sum * power_of_two(exponent);
}

}  // namespace kz
