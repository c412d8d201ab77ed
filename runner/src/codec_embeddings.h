#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "error.h"
#include "mapped_file.h"
#include "span.h"

namespace kz {

enum class TableType { Float32, Float16 };

/// Bytes of one element of a table of `type`.
std::size_t element_bytes(TableType type);

/// The embedding tables of the code groups, one after another, each [rows, width], row-major, little-endian.
/// Group 0 is the talker's codec embedding, group g > 0 the code predictor's embedding of codebook g.
class CodecEmbeddings {
 public:
  /// Layout of the tables: `rows[g]` rows of `width` elements for group g.
  struct Layout {
    TableType type = TableType::Float32;
    std::vector<int64_t> rows;
    int64_t width = 0;
  };

  /// Takes over the mapped file. LoadFailed when its size is not the one `layout` asks for.
  static Result<CodecEmbeddings> create(Layout layout, MappedFile file);

  /// For tables already in memory: `bytes` must outlive the object and hold exactly what `layout` describes.
  CodecEmbeddings(Layout layout, Span<const uint8_t> bytes);

  std::size_t groups() const { return layout_.rows.size(); }
  std::size_t width() const { return static_cast<std::size_t>(layout_.width); }

  /// Writes the row of `code` of `group`, which must exist, into `out` [width] as float32.
  void copy_row(std::size_t group, int32_t code, Span<float> out) const;

 private:
  const uint8_t* row(std::size_t group, int32_t code) const;

  Layout layout_;
  std::vector<std::size_t> first_row_;  ///< of each group
  std::optional<MappedFile> file_;
  Span<const uint8_t> bytes_;
};

/// The value of IEEE half-precision `bits`.
float half_to_float(uint16_t bits);

}  // namespace kz
