#include <cstdio>
#include <cstdlib>
#include <string>

#include "check.h"
#include "npu_library.h"

namespace kz {
namespace {

std::string version_in(const std::string& content) {
  return qnn_version_in({reinterpret_cast<const uint8_t*>(content.data()), content.size()}).value_or("none");
}

}  // namespace

TEST(the_build_id_tells_the_version) {
  CHECK_EQUAL(version_in(std::string("ELF vv2 v1.2 \0v2.49.40.260810104044\0rest", 40)), std::string("2.49.40"));
  CHECK_EQUAL(version_in("v2.49.40.260810"), std::string("2.49.40"));
  CHECK_EQUAL(version_in("v2.49.40"), std::string("none"));
  CHECK_EQUAL(version_in("v2.49.40.12345"), std::string("none"));
  CHECK_EQUAL(version_in("v2.49..260810104044"), std::string("none"));
  CHECK_EQUAL(version_in(""), std::string("none"));
}

TEST(the_library_is_looked_for_where_the_loader_looks) {
  char folder[] = "/tmp/kz-npu-library-XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  const std::string library = std::string(folder) + "/libQnnHtp.so";
  std::FILE* file = std::fopen(library.c_str(), "wb");
  REQUIRE(file != nullptr);
  std::fputs("..v2.36.0.250627101419..", file);
  std::fclose(file);
  ::setenv("LD_LIBRARY_PATH", (std::string("/nowhere:") + folder).c_str(), 1);
  CHECK_EQUAL(npu_library_version().value_or("none"), std::string("2.36.0"));
  std::remove(library.c_str());
  CHECK(!npu_library_version().has_value());
  ::unsetenv("LD_LIBRARY_PATH");
  CHECK(!npu_library_version().has_value());
  std::remove(folder);
}

}  // namespace kz
