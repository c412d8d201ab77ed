#include "talker_steps.h"

#include <utility>

#include "contract.h"
#include "kv_cache.h"
#include "log.h"
#include "npu.h"
#include "program_sizes.h"
#include "static_kv_cache.h"
#include "static_pass.h"
#include "transformer_pass.h"

namespace kz {
namespace {

KvShape kv_shape(const TalkerSizes& sizes) { return {sizes.layers, sizes.kv_heads, sizes.head_dim}; }

/// A cache and the two passes that work on it.
template <typename Cache, typename AnyPass>
class PassSteps : public TalkerSteps {
 public:
  using Pass = std::unique_ptr<AnyPass>;

  void reset() override { cache_.clear(); }
  Status prefill(Span<const float> embeds) override { return run(*prefill_, embeds); }
  Status decode(Span<const float> embed) override { return run(*decode_, embed); }
  Span<float> result(std::size_t index) override { return last_->result(index); }
  uint64_t copied_bytes() const override { return prefill_->copied_bytes() + decode_->copied_bytes(); }

 protected:
  explicit PassSteps(Cache cache) : cache_(std::move(cache)) {}

  void use(Pass prefill, Pass decode) {
    prefill_ = std::move(prefill);
    decode_ = std::move(decode);
    last_ = prefill_.get();
  }

  virtual Status call(AnyPass& pass, Span<const float> embeds) = 0;

  Cache cache_;  // before the passes, which may be bound to it

 private:
  Status run(AnyPass& pass, Span<const float> embeds) {
    KZ_TRY(call(pass, embeds));
    last_ = &pass;
    return {};
  }

  Pass prefill_;
  Pass decode_;
  AnyPass* last_ = nullptr;  ///< whose results are current
};

/// The past grows with the cache; graphs read and write it in place.
class DynamicSteps final : public PassSteps<KvCache, TransformerPass> {
 public:
  static Result<std::unique_ptr<TalkerSteps>> load(const Program& program, const TalkerSizes& sizes) {
    KZ_TRY_ASSIGN(auto prefill, load_pass(program, contract::kPrefillMethod, pass_shape(sizes, sizes.prefill_tokens)));
    KZ_TRY_ASSIGN(auto decode, load_pass(program, contract::kDecodeMethod, pass_shape(sizes, 1)));
    KZ_TRY_ASSIGN(KvCache cache, KvCache::create(kv_shape(sizes), sizes.context_length, sizes.prefill_tokens - 1));
    std::unique_ptr<DynamicSteps> steps(new DynamicSteps(std::move(cache)));
    steps->use(std::move(prefill), std::move(decode));
    return std::unique_ptr<TalkerSteps>(std::move(steps));
  }

 private:
  using PassSteps::PassSteps;

  static PassShape pass_shape(const TalkerSizes& sizes, std::size_t tokens) {
    PassShape shape;
    shape.kv = kv_shape(sizes);
    shape.tokens = tokens;
    shape.width = sizes.hidden_size;
    shape.result_widths = {sizes.vocab_size, sizes.hidden_size};
    shape.needed_past = sizes.context_length > tokens ? sizes.context_length - tokens : 1;
    return shape;
  }

  Status call(TransformerPass& pass, Span<const float> embeds) override { return pass.run(embeds, cache_); }
};

/// The past has its full length always, in the program's own element type.
class StaticSteps final : public PassSteps<StaticKvCache, StaticPass> {
 public:
  static Result<std::unique_ptr<TalkerSteps>> load(const Program& program, const TalkerSizes& sizes) {
    KZ_TRY_ASSIGN(const double mask_value, program.read_double("mask_value"));
    const auto shape = [&](std::size_t tokens) {
      const StaticPassShape same{kv_shape(sizes), tokens, sizes.hidden_size, {sizes.vocab_size, sizes.hidden_size},
                                 static_cast<float>(mask_value)};
      return same;
    };
    KZ_TRY_ASSIGN(auto prefill, program.load_method(contract::kPrefillMethod));
    KZ_TRY_ASSIGN(auto decode, program.load_method(contract::kDecodeMethod));
    KZ_TRY_ASSIGN(const StaticPass::Past past, StaticPass::past_of(*decode, shape(1)));
    if (past.positions + 1 < sizes.context_length) {
      return make_error(ErrorCode::LoadFailed, "%s keeps %zu positions, its context has %zu; export the checkpoint again with kz export",
                        program.path().c_str(), past.positions, sizes.context_length);
    }
    KZ_TRY_ASSIGN(StaticKvCache cache, StaticKvCache::create(kv_shape(sizes), past.element_bytes, past.positions,
                                                             sizes.prefill_tokens, allocate_npu_memory));
    log_message(LogLevel::Debug, "KV cache: %zu bytes an element, %s", past.element_bytes,
                cache.is_shared() ? "shared with the NPU" : "not shared with the NPU");
    std::unique_ptr<StaticSteps> steps(new StaticSteps(std::move(cache)));
    KZ_TRY_ASSIGN(auto prompts, StaticPass::create(std::move(prefill), shape(sizes.prefill_tokens), steps->cache_));
    KZ_TRY_ASSIGN(auto frames, StaticPass::create(std::move(decode), shape(1), steps->cache_));
    steps->use(std::move(prompts), std::move(frames));
    return std::unique_ptr<TalkerSteps>(std::move(steps));
  }

 private:
  using PassSteps::PassSteps;

  Status call(StaticPass& pass, Span<const float> embeds) override { return pass.run(embeds); }
};

}  // namespace

Result<std::unique_ptr<TalkerSteps>> load_talker_steps(const Program& program, const TalkerSizes& sizes) {
  KZ_TRY_ASSIGN(const int64_t past_dynamic, program.read_int("past_dynamic", 0, 1));
  return past_dynamic == 1 ? DynamicSteps::load(program, sizes) : StaticSteps::load(program, sizes);
}

}  // namespace kz
