#include <cstdio>
#include <cstring>

#include "check.h"
#include "codec_embeddings.h"

namespace kz {
namespace {

template <typename T>
Span<const uint8_t> bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)};
}

std::string temporary_file(const void* data, std::size_t size) {
  const std::string path = "test_codec_embeddings.tmp";
  std::FILE* file = std::fopen(path.c_str(), "wb");
  std::fwrite(data, 1, size, file);
  std::fclose(file);
  return path;
}

}  // namespace

TEST(rows_of_a_group_start_where_the_previous_group_ends) {
  const std::vector<float> table{0, 1, 10, 11, 20, 21, 30, 31, 40, 41};  // 3 rows, then 2
  const CodecEmbeddings embeddings({TableType::Float32, {3, 2}, 2}, bytes_of(table));
  std::vector<float> row(2);
  embeddings.copy_row(0, 2, row);
  CHECK_EQUAL(row, (std::vector<float>{20, 21}));
  embeddings.copy_row(1, 0, row);
  CHECK_EQUAL(row, (std::vector<float>{30, 31}));
}

TEST(half_precision_rows_become_float) {
  const std::vector<uint16_t> table{0x3c00, 0xc000, 0x3555, 0x0001};
  const CodecEmbeddings embeddings({TableType::Float16, {2}, 2}, bytes_of(table));
  std::vector<float> row(2);
  embeddings.copy_row(0, 0, row);
  CHECK_EQUAL(row, (std::vector<float>{1.0f, -2.0f}));
  embeddings.copy_row(0, 1, row);
  CHECK_EQUAL(row, (std::vector<float>{0.333251953125f, 0x1p-24f}));
}

TEST(half_precision_covers_its_range) {
  CHECK_EQUAL(half_to_float(0x7bff), 65504.0f);
  CHECK_EQUAL(half_to_float(0x0400), 0x1p-14f);
  CHECK_EQUAL(half_to_float(0x8000), 0.0f);
  CHECK(std::signbit(half_to_float(0x8000)));
  CHECK_EQUAL(half_to_float(0x83ff), -1023 * 0x1p-24f);
  CHECK(std::isinf(half_to_float(0x7c00)));
  CHECK(std::isnan(half_to_float(0x7e00)));
}

TEST(a_file_of_the_wrong_size_is_refused) {
  const std::vector<float> table(10);
  auto file = MappedFile::open(temporary_file(table.data(), 10 * sizeof(float) - 1));
  REQUIRE(file.ok());
  const auto embeddings = CodecEmbeddings::create({TableType::Float32, {3, 2}, 2}, std::move(file.value()));
  REQUIRE(!embeddings.ok());
  CHECK_CONTAINS(embeddings.error().message, "39 bytes instead of 40");
  CHECK_CONTAINS(embeddings.error().message, "kz export");
}

TEST(a_mapped_table_survives_being_moved) {
  const std::vector<float> table{1, 2, 3, 4};
  auto file = MappedFile::open(temporary_file(table.data(), 4 * sizeof(float)));
  REQUIRE(file.ok());
  auto created = CodecEmbeddings::create({TableType::Float32, {2}, 2}, std::move(file.value()));
  REQUIRE(created.ok());
  const CodecEmbeddings embeddings = std::move(created.value());
  std::vector<float> row(2);
  embeddings.copy_row(0, 1, row);
  CHECK_EQUAL(row, (std::vector<float>{3, 4}));
}

TEST(empty_missing_and_odd_files_are_named) {
  CHECK_CONTAINS(MappedFile::open("no/such/file").error().message, "no/such/file: No such file");
  CHECK_CONTAINS(MappedFile::open(temporary_file("", 0)).error().message, "is empty");
  CHECK_CONTAINS(MappedFile::open(".").error().message, "not a file");
}

}  // namespace kz
