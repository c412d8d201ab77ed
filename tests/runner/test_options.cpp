#include "check.h"
#include "options.h"

namespace kz {
namespace {

Result<Options> parse(std::vector<std::string> arguments) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) {
    pointers.push_back(argument.data());
  }
  return parse_options(Span<char* const>(pointers.data(), pointers.size()));
}

std::string refusal(const std::vector<std::string>& arguments) {
  const auto options = parse(arguments);
  return options.ok() ? "accepted" : options.error().message;
}

}  // namespace

TEST(all_options) {
  const auto options = parse({"--role", "decode", "--bundle", "b", "--threads", "3", "--log-level", "debug"});
  REQUIRE(options.ok());
  CHECK(options.value().role == RoleName::Decode);
  CHECK_EQUAL(options.value().bundle, "b");
  CHECK(options.value().threads == 3u);
  CHECK(!options.value().hash_files);
  CHECK(parse({"--hash-files", "--role", "decode", "--bundle", "b"}).value().hash_files);
  CHECK(options.value().log_level == LogLevel::Debug);
}

TEST(threads_are_unset_by_default) {
  const auto options = parse({"--role", "embed", "--bundle", "b"});
  REQUIRE(options.ok());
  CHECK(!options.value().threads.has_value());
}

TEST(version_and_help_need_nothing_else) {
  CHECK(parse({"--version"}).ok());
  CHECK(parse({"--help"}).ok());
}

TEST(wrong_command_lines_are_named) {
  CHECK_CONTAINS(refusal({}), "--bundle and --role are needed");
  CHECK_CONTAINS(refusal({"--bundle", "b"}), "--bundle and --role are needed");
  CHECK_CONTAINS(refusal({"--bundle"}), "--bundle needs a value");
  CHECK_CONTAINS(refusal({"--role", "sing"}), "--role does not take \"sing\"; use generate, decode or embed");
  CHECK_CONTAINS(refusal({"--log-level", "loud"}), "use error, warning, info or debug");
  CHECK_CONTAINS(refusal({"--loud"}), "unknown option --loud");
  for (const char* count : {"0", "-1", "257", "two", "2x", "", " 2", "99999999999999999999999"}) {
    CHECK_CONTAINS(refusal({"--threads", count}), "use a number from 1 to 256");
  }
}

}  // namespace kz
