// Draws codes with the runner's sampler, for comparison with other implementations. One case a line, in and out.
//
//   in   {"logits": [floats], "previous": [ids], "options": {...}, "seed": u64, "frame": n, "codebook": n, "draws": n}
//   out  {"kept": [ids, ascending], "codes": [one a draw]}
//
// `previous`: codebook-0 ids emitted so far. `options`, all of them optional: greedy, temperature, top_k, top_p as in the
// runner's protocol; repetition_penalty; suppress_from (first id that is never drawn, but for eos), eos, forbid_eos. Without
// suppress_from nothing is suppressed. Draw d uses the noise of frame `frame` + d. A line that is not a case ends the tool with
// exit code 1.

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "json.h"
#include "sampler.h"

namespace {

struct Case {
  std::vector<float> logits;
  std::vector<int32_t> previous;
  kz::SamplingOptions options;
  kz::LogitRules rules;
  uint64_t seed = 0;
  uint32_t frame = 0;
  uint32_t codebook = 0;
  uint32_t draws = 0;
};

Case read_case(const kz::Json& json) {
  const kz::Json options = json.value("options", kz::Json::object());
  Case one;
  one.logits = json.at("logits").get<std::vector<float>>();
  one.previous = json.value("previous", std::vector<int32_t>());
  one.options.greedy = options.value("greedy", false);
  one.options.temperature = options.value("temperature", 1.0);
  one.options.top_k = options.value("top_k", int64_t{0});
  one.options.top_p = options.value("top_p", 1.0);
  one.rules.repetition_penalty = options.value("repetition_penalty", 1.0);
  one.rules.suppress_from = options.value("suppress_from", static_cast<int32_t>(one.logits.size()));
  one.rules.eos = options.value("eos", 0);
  one.rules.forbid_eos = options.value("forbid_eos", false);
  one.seed = json.value("seed", uint64_t{0});
  one.frame = json.value("frame", 0u);
  one.codebook = json.value("codebook", 0u);
  one.draws = json.value("draws", 1u);
  return one;
}

kz::Json run_case(Case one) {
  kz::CodeHistory history(one.logits.size());
  for (const int32_t code : one.previous) {
    history.add(code);
  }
  kz::apply_rules(one.rules, history, one.logits);
  kz::Sampler sampler(one.logits.size());
  const auto kept = sampler.keep(one.logits, one.options);
  kz::Json result{{"kept", std::vector<int32_t>(kept.begin(), kept.end())}, {"codes", kz::Json::array()}};
  for (uint32_t draw = 0; draw < one.draws; ++draw) {
    const kz::GumbelNoise noise(one.seed, one.frame + draw, one.codebook);
    result["codes"].push_back(sampler.draw(one.logits, one.options, noise));
  }
  return result;
}

}  // namespace

int main() {
  try {
    for (std::string line; std::getline(std::cin, line);) {
      std::puts(kz::dump_json(run_case(read_case(kz::Json::parse(line)))).c_str());
      std::fflush(stdout);
    }
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "sampler_tool: %s\n", failure.what());
    return 1;
  }
  return 0;
}
