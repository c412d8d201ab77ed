#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "error.h"
#include "span.h"

namespace kz {

enum class ElementType { Float32, Float16, Int64, Int32, Int16, UInt16, Int8, UInt8, Other };

/// Bytes of one element; 0 for Other.
std::size_t element_bytes(ElementType type);

/// An input or output of a method. Dynamic dimensions carry their upper bound.
struct TensorSpec {
  ElementType type = ElementType::Other;
  std::vector<int32_t> sizes;
  /// The program owns the buffer: data is copied in or out. Otherwise the caller's buffer is used in place.
  bool planned = false;

  /// Elements at the upper bound.
  std::size_t elements() const;
};

/// One executable method of a program. Not thread-safe; buffers are read and written only during `execute`.
///
/// Backends may read a few bytes past the end of an input: give each buffer kReadSlackBytes of slack.
class Method {
 public:
  static constexpr std::size_t kReadSlackBytes = 128;

  virtual ~Method() = default;

  virtual const std::string& name() const = 0;
  virtual const std::vector<TensorSpec>& inputs() const = 0;
  virtual const std::vector<TensorSpec>& outputs() const = 0;

  /// Points input `index` at `data`, of that input's type and of shape `sizes` (dynamic dimensions may be smaller than the
  /// spec's). `data` must stay valid until `execute` returns.
  virtual Status set_input(std::size_t index, const void* data, Span<const int32_t> sizes) = 0;

  /// Has output `index` written to `data`, which must hold `bytes` bytes, the output's size at its upper bound, until
  /// `execute` returns.
  virtual Status bind_output(std::size_t index, void* data, std::size_t bytes) = 0;

  /// Runs the method on what is bound. ExecutionFailed names the method and the runtime's reason.
  virtual Status execute() = 0;
};

}  // namespace kz
