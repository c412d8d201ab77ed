#include "threads.h"

#include <algorithm>
#include <cstdio>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

namespace kz {
namespace {

/// Indices of the CPUs the scheduler may put this process on; empty where the system does not tell.
std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
#if defined(__linux__)
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) {
        cpus.push_back(cpu);
      }
    }
  }
#endif
  return cpus;
}

/// Top clock of `cpu`; 0 where the system does not tell, as in most virtual machines.
uint64_t max_khz_of(int cpu) {
  char path[96];
  std::snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/cpuinfo_max_freq", cpu);
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) {
    return 0;
  }
  unsigned long long khz = 0;
  const bool read = std::fscanf(file, "%llu", &khz) == 1;
  std::fclose(file);
  return read ? khz : 0;
}

}  // namespace

unsigned default_thread_count() {
  std::vector<uint64_t> max_khz;
  for (const int cpu : allowed_cpus()) {
    max_khz.push_back(max_khz_of(cpu));
  }
  if (max_khz.empty()) {
    return std::max(1u, std::thread::hardware_concurrency());
  }
  return count_performance_cores(max_khz);
}

unsigned count_performance_cores(const std::vector<uint64_t>& max_khz) {
  if (max_khz.empty()) {
    return 1;
  }
  const auto [slowest, fastest] = std::minmax_element(max_khz.begin(), max_khz.end());
  if (*slowest == 0) {
    return static_cast<unsigned>(max_khz.size());
  }
  const auto is_fast = [top = *fastest](uint64_t khz) { return khz * 10 >= top * 8; };
  return static_cast<unsigned>(std::count_if(max_khz.begin(), max_khz.end(), is_fast));
}

}  // namespace kz
