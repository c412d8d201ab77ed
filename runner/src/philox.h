#pragma once

#include <array>
#include <cstdint>

namespace kz {

/// Philox 4x32-10 of Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (2011): a keyed bijection of a 128-bit
/// counter. The same key and counter give the same four words on every platform, in any order of calls.
using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key);

}  // namespace kz
