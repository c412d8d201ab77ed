#include "program_sizes.h"

#include <utility>

namespace kz {

Status read_size(const Program& program, const char* name, std::size_t& size, int64_t low, int64_t high) {
  KZ_TRY_ASSIGN(const int64_t value, program.read_int(name, low, high));
  size = static_cast<std::size_t>(value);
  return {};
}

Result<std::unique_ptr<TransformerPass>> load_pass(const Program& program, const char* method_name, PassShape shape) {
  KZ_TRY_ASSIGN(const double mask_value, program.read_double("mask_value"));
  shape.mask_value = static_cast<float>(mask_value);
  KZ_TRY_ASSIGN(auto method, program.load_method(method_name));
  return TransformerPass::create(std::move(method), std::move(shape));
}

}  // namespace kz
