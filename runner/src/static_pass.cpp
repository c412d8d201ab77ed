#include "static_pass.h"

#include <algorithm>
#include <utility>

#include "pass_inputs.h"

namespace kz {
namespace {

constexpr std::size_t kSlackElements = Method::kReadSlackBytes / sizeof(float);

Error misfit(const Method& method, const char* what) {
  return make_error(ErrorCode::LoadFailed,
                    "%s of method %s have another type or shape than the bundle's sizes ask for; export the checkpoint again with "
                    "kz export",
                    what, method.name().c_str());
}

bool is_tensor(const TensorSpec& spec, ElementType type, std::initializer_list<std::size_t> sizes) {
  return spec.type == type && !spec.planned &&
         std::equal(sizes.begin(), sizes.end(), spec.sizes.begin(), spec.sizes.end(),
                    [](std::size_t want, int32_t has) { return want == static_cast<std::size_t>(has); });
}

/// Do tensors [first, first + 2 L) hold keys with `length` last and values with it in front of the last, all of one type?
bool are_cache(const std::vector<TensorSpec>& specs, std::size_t first, const KvShape& kv, std::size_t length) {
  const ElementType type = specs[first].type;
  bool fit = element_bytes(type) > 0;
  for (std::size_t layer = 0; layer < kv.layers; ++layer) {
    fit = fit && is_tensor(specs[first + layer], type, {1, kv.kv_heads, kv.head_dim, length}) &&
          is_tensor(specs[first + kv.layers + layer], type, {1, kv.kv_heads, length, kv.head_dim});
  }
  return fit;
}

}  // namespace

Result<StaticPass::Past> StaticPass::past_of(const Method& method, const StaticPassShape& shape) {
  const auto& inputs = method.inputs();
  const auto& outputs = method.outputs();
  const std::size_t results = shape.result_widths.size();
  const std::size_t cache_tensors = 2 * shape.kv.layers;
  if (inputs.size() != kFirstPast + cache_tensors || outputs.size() != results + cache_tensors ||
      inputs[kFirstPast].sizes.size() != 4) {
    return misfit(method, "the inputs or outputs");
  }
  const auto past = static_cast<std::size_t>(inputs[kFirstPast].sizes[3]);
  if (!is_tensor(inputs[kEmbeds], ElementType::Float32, {1, shape.tokens, shape.width}) ||
      !is_tensor(inputs[kPositions], ElementType::Int32, {shape.tokens}) ||
      !is_tensor(inputs[kMask], ElementType::Float32, {1, shape.tokens, past + shape.tokens}) ||
      !are_cache(inputs, kFirstPast, shape.kv, past)) {
    return misfit(method, "the inputs");
  }
  bool fit = are_cache(outputs, results, shape.kv, shape.tokens) && outputs[results].type == inputs[kFirstPast].type;
  for (std::size_t index = 0; fit && index < results; ++index) {
    fit = is_tensor(outputs[index], ElementType::Float32, {1, shape.result_widths[index]});
  }
  if (!fit) {
    return misfit(method, "the outputs");
  }
  return Past{past, element_bytes(inputs[kFirstPast].type)};
}

Result<std::unique_ptr<StaticPass>> StaticPass::create(std::unique_ptr<Method> method, StaticPassShape shape,
                                                       StaticKvCache& cache) {
  KZ_TRY_ASSIGN(const Past past, past_of(*method, shape));
  if (past.positions != cache.past() || past.element_bytes != cache.element_bytes()) {
    return misfit(*method, "past keys and values");
  }
  std::unique_ptr<StaticPass> pass(new StaticPass(std::move(method), std::move(shape), cache));
  KZ_TRY(pass->bind());
  KZ_TRY(pass->bind_cache());
  return pass;
}

StaticPass::StaticPass(std::unique_ptr<Method> method, StaticPassShape shape, StaticKvCache& cache)
    : method_(std::move(method)), shape_(std::move(shape)), cache_(cache) {}

Status StaticPass::bind() {
  const auto& inputs = method_->inputs();
  embeds_.assign(inputs[kEmbeds].elements() + kSlackElements, 0.0f);
  positions_.assign(inputs[kPositions].elements() + kSlackElements, 0);
  mask_.assign(inputs[kMask].elements() + kSlackElements, 0.0f);
  KZ_TRY(method_->set_input(kEmbeds, embeds_.data(), inputs[kEmbeds].sizes));
  KZ_TRY(method_->set_input(kPositions, positions_.data(), inputs[kPositions].sizes));
  KZ_TRY(method_->set_input(kMask, mask_.data(), inputs[kMask].sizes));
  for (const std::size_t width : shape_.result_widths) {
    results_.emplace_back(width + kSlackElements, 0.0f);
    KZ_TRY(method_->bind_output(results_.size() - 1, results_.back().data(), width * sizeof(float)));
  }
  return {};
}

Status StaticPass::bind_cache() {
  const auto& inputs = method_->inputs();
  const std::size_t layers = shape_.kv.layers;
  const std::size_t results = results_.size();
  const std::size_t new_bytes = cache_.new_tensor_bytes(shape_.tokens);
  for (std::size_t layer = 0; layer < layers; ++layer) {
    KZ_TRY(method_->set_input(kFirstPast + layer, cache_.keys(layer), inputs[kFirstPast + layer].sizes));
    KZ_TRY(method_->set_input(kFirstPast + layers + layer, cache_.values(layer), inputs[kFirstPast + layers + layer].sizes));
    KZ_TRY(method_->bind_output(results + layer, cache_.new_keys(layer), new_bytes));
    KZ_TRY(method_->bind_output(results + layers + layer, cache_.new_values(layer), new_bytes));
  }
  return {};
}

Status StaticPass::run(Span<const float> embeds) {
  const std::size_t rows = embeds.size() / shape_.width;
  if (rows < 1 || rows > shape_.tokens || cache_.used() > cache_.past()) {
    return make_error(ErrorCode::ExecutionFailed, "method %s cannot take %zu rows behind %zu of %zu; shorten the text",
                      method_->name().c_str(), rows, cache_.used(), cache_.past());
  }
  const PassRows pass{rows, shape_.tokens, cache_.used(), cache_.past() + shape_.tokens};
  fill_embeds(embeds, {embeds_.data(), shape_.tokens * shape_.width});
  for (std::size_t row = 0; row < pass.pad(); ++row) {
    std::copy_n(embeds.begin(), shape_.width, embeds_.begin() + static_cast<std::ptrdiff_t>(row * shape_.width));
  }
  fill_positions(pass, positions_.data());
  fill_mask(pass, shape_.mask_value, mask_.data());
  KZ_TRY(method_->execute());
  copied_bytes_ += cache_.store(shape_.tokens, rows);
  return {};
}

}  // namespace kz
