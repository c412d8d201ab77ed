#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "error.h"
#include "kv_cache.h"
#include "method.h"
#include "span.h"

namespace kz {

/// What a cached transformer method of dynamic past must look like; checked against the method's own metadata.
struct PassShape {
  KvShape kv;
  std::size_t tokens = 1;                  ///< T, rows of one call
  std::size_t width = 0;                   ///< D, of an input embedding
  std::vector<std::size_t> result_widths;  ///< outputs before the new keys and values, each float32 [1, width]
  std::size_t needed_past = 1;             ///< largest past it will be run with; the method's P must reach it
  float mask_value = 0.0f;                 ///< what the mask adds to a score that must not count
};

/// One method of a cached transformer (talker or code predictor; prefill or decode) bound to its buffers.
///
///   inputs   embeds [1, T, D], positions int64 [T], mask [1, T, P+T], past keys x L [P, KV, H], past values x L
///   outputs  results [1, width] of the last row, new keys x L [T, KV, H], new values x L
///
/// Fewer than T rows are right-aligned: pad rows come first, see only themselves and are seen by nobody, so the last row is
/// always the last valid one. The graph reads the past from the cache, as far as it is filled, and writes the new rows behind it.
/// Nothing allocates after creation. Not thread-safe.
class TransformerPass {
 public:
  /// LoadFailed when `method` does not have the shape, naming the first difference.
  static Result<std::unique_ptr<TransformerPass>> create(std::unique_ptr<Method> method, PassShape shape);

  /// Runs `rows` embeddings [rows, D] (1 <= rows <= T) at the cache's next positions and appends their keys and values.
  /// ExecutionFailed when they do not fit the cache or the method.
  Status run(Span<const float> embeds, KvCache& cache);

  /// Result `index` of the last run, [width]; the caller may overwrite it. Valid until the next run.
  Span<float> result(std::size_t index);

  std::size_t tokens() const { return shape_.tokens; }
  /// Calls of `run` so far, and bytes of keys and values copied because they could not be used in place.
  uint64_t calls() const { return calls_; }
  uint64_t copied_bytes() const { return copied_bytes_; }

 private:
  TransformerPass(std::unique_ptr<Method> method, PassShape shape);

  Status check_counts() const;
  Status check_inputs();
  Status check_outputs() const;
  Status allocate();
  Status check_room(std::size_t rows, std::size_t past_rows, const KvCache& cache) const;
  Status bind_inputs(KvCache& cache, std::size_t past_rows);
  Status bind_outputs(KvCache& cache, std::ptrdiff_t first_row);
  void count_planned_copies(std::size_t past_rows);

  std::unique_ptr<Method> method_;
  PassShape shape_;
  std::size_t max_past_ = 0;  ///< upper bound of P in the method
  std::vector<float> embeds_;
  std::vector<int64_t> positions_;
  std::vector<float> mask_;
  std::vector<std::vector<float>> results_;
  uint64_t calls_ = 0;
  uint64_t copied_bytes_ = 0;
};

}  // namespace kz
