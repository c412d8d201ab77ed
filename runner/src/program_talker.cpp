#include "program_talker.h"

#include <utility>

#include "contract.h"
#include "program_sizes.h"

namespace kz {
namespace {

Result<TalkerSizes> read_sizes(const Program& program) {
  TalkerSizes sizes;
  KZ_TRY(read_size(program, "context_length", sizes.context_length, 2));
  KZ_TRY(read_size(program, "prefill_tokens", sizes.prefill_tokens, 1, static_cast<int64_t>(sizes.context_length)));
  KZ_TRY(read_size(program, "layers", sizes.layers));
  KZ_TRY(read_size(program, "kv_heads", sizes.kv_heads));
  KZ_TRY(read_size(program, "head_dim", sizes.head_dim));
  KZ_TRY(read_size(program, "hidden_size", sizes.hidden_size));
  KZ_TRY(read_size(program, "vocab_size", sizes.vocab_size, 2, contract::kMaxVocabulary));
  KZ_TRY(read_size(program, "code_groups", sizes.code_groups, 2, 256));
  const auto vocab = static_cast<int64_t>(sizes.vocab_size);
  KZ_TRY(read_size(program, "codebook_size", sizes.codebook_size, 1, vocab));
  KZ_TRY_ASSIGN(const int64_t eos, program.read_int("codec_eos_id", 0, vocab - 1));
  KZ_TRY_ASSIGN(const int64_t suppress_from, program.read_int("suppress_from", 1, vocab));
  sizes.codec_eos_id = static_cast<int32_t>(eos);
  sizes.suppress_from = static_cast<int32_t>(suppress_from);
  return sizes;
}

PassShape pass_shape(const TalkerSizes& sizes, std::size_t tokens) {
  PassShape shape;
  shape.kv = {sizes.layers, sizes.kv_heads, sizes.head_dim};
  shape.tokens = tokens;
  shape.width = sizes.hidden_size;
  shape.result_widths = {sizes.vocab_size, sizes.hidden_size};
  shape.needed_past = sizes.context_length > tokens ? sizes.context_length - tokens : 1;
  return shape;
}

}  // namespace

Result<std::unique_ptr<ProgramTalker>> ProgramTalker::load(const Program& program) {
  KZ_TRY_ASSIGN(const TalkerSizes sizes, read_sizes(program));
  KZ_TRY_ASSIGN(auto prefill, load_pass(program, contract::kPrefillMethod, pass_shape(sizes, sizes.prefill_tokens)));
  KZ_TRY_ASSIGN(auto decode, load_pass(program, contract::kDecodeMethod, pass_shape(sizes, 1)));
  const KvShape kv{sizes.layers, sizes.kv_heads, sizes.head_dim};
  KZ_TRY_ASSIGN(KvCache cache, KvCache::create(kv, sizes.context_length, sizes.prefill_tokens - 1));
  return std::unique_ptr<ProgramTalker>(new ProgramTalker(sizes, std::move(cache), std::move(prefill), std::move(decode)));
}

ProgramTalker::ProgramTalker(const TalkerSizes& sizes, KvCache cache, std::unique_ptr<TransformerPass> prefill,
                             std::unique_ptr<TransformerPass> decode)
    : sizes_(sizes), cache_(std::move(cache)), prefill_(std::move(prefill)), decode_(std::move(decode)), last_(prefill_.get()) {}

Status ProgramTalker::run(TransformerPass& pass, Span<const float> embeds) {
  KZ_TRY(pass.run(embeds, cache_));
  last_ = &pass;
  return {};
}

}  // namespace kz
