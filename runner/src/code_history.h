#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "span.h"

namespace kz {

/// The distinct codebook-0 ids emitted so far, for the repetition penalty. Adding never allocates.
class CodeHistory {
 public:
  explicit CodeHistory(std::size_t vocab_size) : seen_(vocab_size, 0) { distinct_.reserve(vocab_size); }

  void clear() {
    for (const int32_t code : distinct_) {
      seen_[static_cast<std::size_t>(code)] = 0;
    }
    distinct_.clear();
  }

  /// `code` must be in [0, vocab_size).
  void add(int32_t code) {
    uint8_t& seen = seen_[static_cast<std::size_t>(code)];
    if (seen == 0) {
      seen = 1;
      distinct_.push_back(code);
    }
  }

  Span<const int32_t> distinct() const { return distinct_; }

 private:
  std::vector<uint8_t> seen_;
  std::vector<int32_t> distinct_;
};

}  // namespace kz
