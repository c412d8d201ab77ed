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

}  // namespace

Result<std::unique_ptr<ProgramTalker>> ProgramTalker::load(const Program& program) {
  KZ_TRY_ASSIGN(const TalkerSizes sizes, read_sizes(program));
  KZ_TRY_ASSIGN(auto steps, load_talker_steps(program, sizes));
  return std::unique_ptr<ProgramTalker>(new ProgramTalker(sizes, std::move(steps)));
}

ProgramTalker::ProgramTalker(const TalkerSizes& sizes, std::unique_ptr<TalkerSteps> steps)
    : sizes_(sizes), steps_(std::move(steps)) {}

}  // namespace kz
