#pragma once

namespace kz {

/// Natural logarithm of a positive, finite, normal `x`, within a few units in the last place.
/// Built from IEEE additions, multiplications and divisions only, so every platform returns the same bits; libm's does not.
/// Depends on the runner being compiled without fused multiply-adds (-ffp-contract=off).
double exact_log(double x);

/// e to the power of `x` for `x` <= 0, with the same guarantee; 0 below -700.
double exact_exp(double x);

}  // namespace kz
