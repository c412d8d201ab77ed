#include "stats.h"

#include <sys/resource.h>

#include <cstdio>

namespace kz {
namespace {

/// Peak resident size in KiB as Linux keeps it for this program image; 0 if it cannot be read.
unsigned long long high_water_mark_kib() {
  std::FILE* file = std::fopen("/proc/self/status", "re");
  if (file == nullptr) {
    return 0;
  }
  char line[256];
  unsigned long long kib = 0;
  while (kib == 0 && std::fgets(line, sizeof line, file) != nullptr) {
    if (std::sscanf(line, "VmHWM: %llu", &kib) != 1) {
      kib = 0;
    }
  }
  std::fclose(file);
  return kib;
}

}  // namespace

uint64_t peak_rss_bytes() {
  // getrusage also counts what the parent held between vfork and exec, so it comes second.
  if (const auto kib = high_water_mark_kib(); kib > 0) {
    return kib * 1024;
  }
  struct rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) {
    return 0;
  }
#if defined(__APPLE__)
  return static_cast<uint64_t>(usage.ru_maxrss);  // bytes there, KiB elsewhere
#else
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
#endif
}

}  // namespace kz
