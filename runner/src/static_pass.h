#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "error.h"
#include "method.h"
#include "span.h"
#include "static_kv_cache.h"

namespace kz {

/// What a cached method of fixed shapes must look like; checked against the method's own metadata.
struct StaticPassShape {
  KvShape kv;
  std::size_t tokens = 1;                  ///< T, rows of one call
  std::size_t width = 0;                   ///< D, of an input embedding
  std::vector<std::size_t> result_widths;  ///< outputs before the new keys and values, each float32 [1, width]
  float mask_value = 0.0f;                 ///< what the mask adds to a score that must not count
};

/// One method of a cached transformer whose past has a fixed length, bound to a StaticKvCache.
///
///   inputs   embeds float32 [1, T, D], positions int32 [T], mask float32 [1, T, P+T],
///            past keys x L [1, KV, H, P], past values x L [1, KV, P, H], of any element type
///   outputs  results float32 [1, width] of the last row, new keys x L [1, KV, H, T], new values x L [1, KV, T, H]
///
/// Fewer than T rows are right-aligned, as in TransformerPass; pad rows repeat the first row, as a norm of nothing but zeros is
/// noise on the HTP. Nothing allocates after creation. Not thread-safe.
class StaticPass {
 public:
  /// Length P and element size of the past that `method` reads. LoadFailed when its shape is another.
  struct Past {
    std::size_t positions = 0;
    std::size_t element_bytes = 0;
  };
  static Result<Past> past_of(const Method& method, const StaticPassShape& shape);

  /// Binds `method` to `cache`, which must outlive it and stay where it is. LoadFailed when they do not fit.
  static Result<std::unique_ptr<StaticPass>> create(std::unique_ptr<Method> method, StaticPassShape shape, StaticKvCache& cache);

  /// Runs `rows` embeddings [rows, D] (1 <= rows <= T) at the cache's next positions and appends their keys and values.
  /// ExecutionFailed when they do not fit the method. What is stored behind the last position that the past has room for is
  /// dropped: no later call can read it.
  Status run(Span<const float> embeds);

  /// Result `index` of the last run, [width]; the caller may overwrite it. Valid until the next run.
  Span<float> result(std::size_t index) { return {results_[index].data(), shape_.result_widths[index]}; }

  /// Bytes of keys and values moved so far.
  uint64_t copied_bytes() const { return copied_bytes_; }

 private:
  StaticPass(std::unique_ptr<Method> method, StaticPassShape shape, StaticKvCache& cache);

  Status bind();
  Status bind_cache();

  std::unique_ptr<Method> method_;
  StaticPassShape shape_;
  StaticKvCache& cache_;
  std::vector<float> embeds_;
  std::vector<int32_t> positions_;
  std::vector<float> mask_;
  std::vector<std::vector<float>> results_;
  uint64_t copied_bytes_ = 0;
};

}  // namespace kz
