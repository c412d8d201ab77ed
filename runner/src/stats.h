#pragma once

#include <chrono>
#include <cstdint>

namespace kz {

/// Wall time since construction or the last restart.
class Stopwatch {
 public:
  void restart() { start_ = Clock::now(); }
  double elapsed_ms() const { return std::chrono::duration<double, std::milli>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

/// Adds the wall time of its own life to a total in milliseconds, which must outlive it.
class TimedScope {
 public:
  explicit TimedScope(double& total_ms) : total_ms_(total_ms) {}
  ~TimedScope() { total_ms_ += stopwatch_.elapsed_ms(); }
  TimedScope(const TimedScope&) = delete;
  TimedScope& operator=(const TimedScope&) = delete;

 private:
  double& total_ms_;
  Stopwatch stopwatch_;
};

/// Largest resident size of this process so far, mapped files included; 0 where the system does not tell.
uint64_t peak_rss_bytes();

}  // namespace kz
