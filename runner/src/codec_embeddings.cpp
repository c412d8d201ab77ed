#include "codec_embeddings.h"

#include <cstring>
#include <utility>

namespace kz {
namespace {

template <typename T>
T read_at(const uint8_t* data, std::size_t index) {
  T value;
  std::memcpy(&value, data + index * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

std::size_t element_bytes(TableType type) { return type == TableType::Float32 ? sizeof(float) : sizeof(uint16_t); }

Result<CodecEmbeddings> CodecEmbeddings::create(Layout layout, MappedFile file) {
  uint64_t rows = 0;
  for (const int64_t group_rows : layout.rows) {
    rows += static_cast<uint64_t>(group_rows);
  }
  const uint64_t expected = rows * static_cast<uint64_t>(layout.width) * element_bytes(layout.type);
  if (file.bytes().size() != expected) {
    return make_error(ErrorCode::LoadFailed,
                      "the codec embedding table has %zu bytes instead of %llu; it is truncated or foreign: export the bundle "
                      "again with kz export",
                      file.bytes().size(), static_cast<unsigned long long>(expected));
  }
  CodecEmbeddings embeddings(std::move(layout), file.bytes());
  embeddings.file_ = std::move(file);
  return embeddings;
}

CodecEmbeddings::CodecEmbeddings(Layout layout, Span<const uint8_t> bytes) : layout_(std::move(layout)), bytes_(bytes) {
  std::size_t next = 0;
  for (const int64_t rows : layout_.rows) {
    first_row_.push_back(next);
    next += static_cast<std::size_t>(rows);
  }
}

void CodecEmbeddings::copy_row(std::size_t group, int32_t code, Span<float> out) const {
  const uint8_t* data = row(group, code);
  for (std::size_t column = 0; column < width(); ++column) {
    out[column] =
        layout_.type == TableType::Float32 ? read_at<float>(data, column) : half_to_float(read_at<uint16_t>(data, column));
  }
}

const uint8_t* CodecEmbeddings::row(std::size_t group, int32_t code) const {
  const std::size_t index = first_row_[group] + static_cast<std::size_t>(code);
  return bytes_.data() + index * width() * element_bytes(layout_.type);
}

float half_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1Fu;
  const uint32_t mantissa = bits & 0x3FFu;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, exact in float32
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wide_exponent = exponent == 0x1F ? 0xFFu : exponent + 112;
  const uint32_t wide = sign | (wide_exponent << 23) | (mantissa << 13);
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

}  // namespace kz
