#pragma once

#include <cstddef>

namespace kz::test {

/// How often `operator new` was called in this process so far. Link allocation_count.cpp, which replaces it.
std::size_t allocation_count();

}  // namespace kz::test
