#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "span.h"

namespace kz {

/// The version in the bytes of an HTP library of QNN, as `2.49.40`; its build id there reads `v2.49.40.260810104044`.
std::optional<std::string> qnn_version_in(Span<const uint8_t> library);

/// The version of the `libQnnHtp.so` that the loader finds in $LD_LIBRARY_PATH; nothing when there is none.
std::optional<std::string> npu_library_version();

}  // namespace kz
