#pragma once

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

/// The few things the runner's tests need of a test framework.
///
///   TEST(name) { CHECK(condition); CHECK_EQUAL(actual, expected); }
///
/// A failed check is printed and the test goes on; `run_all_tests` returns the exit code.
namespace kz::test {

struct Test {
  const char* name;
  void (*body)();
};

inline std::vector<Test>& all_tests() {
  static std::vector<Test> tests;
  return tests;
}

inline int& failures() {
  static int count = 0;
  return count;
}

struct Registration {
  Registration(const char* name, void (*body)()) { all_tests().push_back({name, body}); }
};

inline void fail(const char* file, int line, const std::string& what) {
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
  ++failures();
}

inline std::string show(const std::string& value) { return '"' + value + '"'; }
inline std::string show(const char* value) { return show(std::string(value)); }
inline std::string show(bool value) { return value ? "true" : "false"; }

template <typename T>
std::string show(const T& value) {
  return std::to_string(value);
}

template <typename T>
std::string show(const std::vector<T>& values) {
  std::string text = "[";
  for (const T& value : values) {
    text += (text.size() > 1 ? ", " : "") + show(value);
  }
  return text + "]";
}

template <typename A, typename B>
void check_equal(const char* file, int line, const char* text, const A& actual, const B& expected) {
  if (!(actual == expected)) {
    fail(file, line, std::string(text) + " is " + show(actual) + ", not " + show(expected));
  }
}

inline void check_contains(const char* file, int line, const std::string& text, const std::string& part) {
  if (text.find(part) == std::string::npos) {
    fail(file, line, show(text) + " does not contain " + show(part));
  }
}

inline int run_all_tests() {
  for (const Test& test : all_tests()) {
    const int before = failures();
    test.body();
    std::printf("%s %s\n", failures() == before ? "ok    " : "FAILED", test.name);
  }
  return failures() == 0 ? 0 : 1;
}

}  // namespace kz::test

#define TEST(name)                                                             \
  static void test_##name();                                                   \
  static const kz::test::Registration registration_##name(#name, test_##name); \
  static void test_##name()

#define CHECK(condition)                                           \
  do {                                                             \
    if (!(condition)) {                                            \
      kz::test::fail(__FILE__, __LINE__, "not true: " #condition); \
    }                                                              \
  } while (false)

#define CHECK_EQUAL(actual, expected) kz::test::check_equal(__FILE__, __LINE__, #actual, actual, expected)
#define CHECK_CONTAINS(text, part) kz::test::check_contains(__FILE__, __LINE__, text, part)

/// Ends the test when `condition` does not hold.
#define REQUIRE(condition)                                         \
  do {                                                             \
    if (!(condition)) {                                            \
      kz::test::fail(__FILE__, __LINE__, "not true: " #condition); \
      return;                                                      \
    }                                                              \
  } while (false)
