#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "program.h"
#include "transformer_pass.h"

namespace kz {

/// Reads constant `name` into `size`. LoadFailed when it is missing or outside [low, high]; the default bound is beyond any real
/// model and keeps products of sizes far from overflow.
Status read_size(const Program& program, const char* name, std::size_t& size, int64_t low = 1, int64_t high = 1 << 20);

/// Loads a transformer method of `program`, with `mask_value` filled in from its constants.
Result<std::unique_ptr<TransformerPass>> load_pass(const Program& program, const char* method_name, PassShape shape);

}  // namespace kz
