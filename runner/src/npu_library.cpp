#include "npu_library.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "mapped_file.h"

namespace kz {
namespace {

constexpr char kLibrary[] = "/libQnnHtp.so";
constexpr std::size_t kParts = 3;
constexpr std::size_t kLeastBuildDigits = 6;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Length of the digits that `text` begins with.
std::size_t digits(std::string_view text) {
  return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_digit) - text.begin());
}

/// `2.49.40` when `text` begins with `2.49.40.260810104044`.
std::optional<std::string> version_at(std::string_view text) {
  std::size_t length = 0;
  for (std::size_t part = 0; part < kParts; ++part) {
    const std::size_t count = digits(text.substr(length));
    if (count == 0 || count > 4 || length + count >= text.size() || text[length + count] != '.') {
      return std::nullopt;
    }
    length += count + 1;
  }
  return digits(text.substr(length)) < kLeastBuildDigits ? std::nullopt : std::optional(std::string(text.substr(0, length - 1)));
}

}  // namespace

std::optional<std::string> qnn_version_in(Span<const uint8_t> library) {
  const std::string_view text(reinterpret_cast<const char*>(library.data()), library.size());
  for (std::size_t at = text.find('v'); at != std::string_view::npos; at = text.find('v', at + 1)) {
    if (auto version = version_at(text.substr(at + 1, 64)); version.has_value()) {
      return version;
    }
  }
  return std::nullopt;
}

std::optional<std::string> npu_library_version() {
  const char* path = std::getenv("LD_LIBRARY_PATH");
  std::string_view folders = path != nullptr ? path : "";
  while (!folders.empty()) {
    const std::string_view folder = folders.substr(0, folders.find(':'));
    folders.remove_prefix(std::min(folder.size() + 1, folders.size()));
    if (const auto file = MappedFile::open(std::string(folder) + kLibrary); file.ok()) {
      return qnn_version_in(file.value().bytes());
    }
  }
  return std::nullopt;
}

}  // namespace kz
