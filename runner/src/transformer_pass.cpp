#include "transformer_pass.h"

#include <algorithm>
#include <array>
#include <utility>

#include "pass_inputs.h"

namespace kz {
namespace {

constexpr std::size_t kSlackElements = Method::kReadSlackBytes / sizeof(float);

/// An expected size of a dimension; a dynamic one only needs an upper bound that reaches it.
struct Extent {
  Extent(std::size_t exact) : size(exact), dynamic(false) {}
  Extent(std::size_t reach, bool is_dynamic) : size(reach), dynamic(is_dynamic) {}

  bool accepts(int32_t actual) const {
    const auto bound = static_cast<std::size_t>(actual);
    return dynamic ? bound >= size : bound == size;
  }

  std::size_t size;
  bool dynamic;
};

Status check_tensor(const Method& method, const char* kind, std::size_t index, const TensorSpec& spec, ElementType type,
                    std::initializer_list<Extent> extents) {
  const bool fits = spec.type == type && std::equal(extents.begin(), extents.end(), spec.sizes.begin(), spec.sizes.end(),
                                                    [](const Extent& e, int32_t size) { return e.accepts(size); });
  if (!fits) {
    return make_error(ErrorCode::LoadFailed,
                      "%s %zu of method %s has another type or shape than the bundle's sizes ask for; export the checkpoint "
                      "again with kz export",
                      kind, index, method.name().c_str());
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<TransformerPass>> TransformerPass::create(std::unique_ptr<Method> method, PassShape shape) {
  std::unique_ptr<TransformerPass> pass(new TransformerPass(std::move(method), std::move(shape)));
  KZ_TRY(pass->check_counts());
  KZ_TRY(pass->check_inputs());
  KZ_TRY(pass->check_outputs());
  KZ_TRY(pass->allocate());
  return pass;
}

TransformerPass::TransformerPass(std::unique_ptr<Method> method, PassShape shape)
    : method_(std::move(method)), shape_(std::move(shape)) {}

Status TransformerPass::check_counts() const {
  const std::size_t inputs = kFirstPast + 2 * shape_.kv.layers;
  const std::size_t outputs = shape_.result_widths.size() + 2 * shape_.kv.layers;
  if (method_->inputs().size() != inputs || method_->outputs().size() != outputs) {
    return make_error(
        ErrorCode::LoadFailed,
        "method %s has %zu inputs and %zu outputs instead of %zu and %zu; export the checkpoint again with kz export",
        method_->name().c_str(), method_->inputs().size(), method_->outputs().size(), inputs, outputs);
  }
  return {};
}

Status TransformerPass::check_inputs() {
  const auto check = [this](std::size_t index, ElementType type, std::initializer_list<Extent> extents) {
    return check_tensor(*method_, "input", index, method_->inputs()[index], type, extents);
  };
  KZ_TRY(check(kEmbeds, ElementType::Float32, {1, shape_.tokens, shape_.width}));
  KZ_TRY(check(kPositions, ElementType::Int64, {shape_.tokens}));
  for (std::size_t index = 0; index < 2 * shape_.kv.layers; ++index) {
    const Extent past(shape_.needed_past, true);
    KZ_TRY(check(kFirstPast + index, ElementType::Float32, {past, shape_.kv.kv_heads, shape_.kv.head_dim}));
  }
  max_past_ = static_cast<std::size_t>(method_->inputs()[kFirstPast].sizes[0]);
  const Extent columns(max_past_ + shape_.tokens, true);
  return check(kMask, ElementType::Float32, {1, shape_.tokens, columns});
}

Status TransformerPass::check_outputs() const {
  const auto check = [this](std::size_t index, std::initializer_list<Extent> extents) {
    return check_tensor(*method_, "output", index, method_->outputs()[index], ElementType::Float32, extents);
  };
  const std::size_t results = shape_.result_widths.size();
  for (std::size_t index = 0; index < results; ++index) {
    KZ_TRY(check(index, {1, shape_.result_widths[index]}));
  }
  for (std::size_t index = 0; index < 2 * shape_.kv.layers; ++index) {
    KZ_TRY(check(results + index, {shape_.tokens, shape_.kv.kv_heads, shape_.kv.head_dim}));
  }
  return {};
}

Status TransformerPass::allocate() {
  embeds_.assign(shape_.tokens * shape_.width + kSlackElements, 0.0f);
  positions_.assign(shape_.tokens + kSlackElements, 0);
  mask_.assign(shape_.tokens * (max_past_ + shape_.tokens) + kSlackElements, 0.0f);
  for (const std::size_t width : shape_.result_widths) {
    results_.emplace_back(width + kSlackElements, 0.0f);
    KZ_TRY(method_->bind_output(results_.size() - 1, results_.back().data(), width * sizeof(float)));
  }
  return {};
}

Status TransformerPass::run(Span<const float> embeds, KvCache& cache) {
  const std::size_t rows = embeds.size() / shape_.width;
  const std::size_t past = cache.used();
  const std::size_t past_rows = std::max<std::size_t>(past, 1);
  KZ_TRY(check_room(rows, past_rows, cache));
  const PassRows pass{rows, shape_.tokens, past, past_rows + shape_.tokens};
  fill_embeds(embeds, {embeds_.data(), shape_.tokens * shape_.width});
  fill_positions(pass, positions_.data());
  fill_mask(pass, shape_.mask_value, mask_.data());
  KZ_TRY(bind_inputs(cache, past_rows));
  KZ_TRY(bind_outputs(cache, static_cast<std::ptrdiff_t>(past) - static_cast<std::ptrdiff_t>(pass.pad())));
  KZ_TRY(method_->execute());
  count_planned_copies(past_rows);
  cache.advance(rows);
  ++calls_;
  return {};
}

Status TransformerPass::check_room(std::size_t rows, std::size_t past_rows, const KvCache& cache) const {
  const bool fits = rows >= 1 && rows <= shape_.tokens && past_rows <= max_past_ && cache.used() + rows <= cache.capacity() &&
                    shape_.tokens - rows <= cache.used() + cache.headroom();
  if (!fits) {
    return make_error(ErrorCode::ExecutionFailed, "method %s cannot take %zu rows behind %zu of %zu; shorten the text",
                      method_->name().c_str(), rows, cache.used(), cache.capacity());
  }
  return {};
}

Span<float> TransformerPass::result(std::size_t index) { return {results_[index].data(), shape_.result_widths[index]}; }

Status TransformerPass::bind_inputs(KvCache& cache, std::size_t past_rows) {
  const auto tokens = static_cast<int32_t>(shape_.tokens);
  const std::array<int32_t, 3> embeds_sizes{1, tokens, static_cast<int32_t>(shape_.width)};
  const std::array<int32_t, 3> mask_sizes{1, tokens, static_cast<int32_t>(past_rows) + tokens};
  const std::array<int32_t, 3> past_sizes{static_cast<int32_t>(past_rows), static_cast<int32_t>(shape_.kv.kv_heads),
                                          static_cast<int32_t>(shape_.kv.head_dim)};
  KZ_TRY(method_->set_input(kEmbeds, embeds_.data(), {embeds_sizes.data(), 3}));
  KZ_TRY(method_->set_input(kPositions, positions_.data(), {&tokens, 1}));
  KZ_TRY(method_->set_input(kMask, mask_.data(), {mask_sizes.data(), 3}));
  const bool stand_in = cache.used() == 0;
  for (std::size_t layer = 0; layer < shape_.kv.layers; ++layer) {
    const float* keys = stand_in ? cache.blank_row() : cache.keys(layer, 0);
    const float* values = stand_in ? cache.blank_row() : cache.values(layer, 0);
    KZ_TRY(method_->set_input(kFirstPast + layer, keys, {past_sizes.data(), 3}));
    KZ_TRY(method_->set_input(kFirstPast + shape_.kv.layers + layer, values, {past_sizes.data(), 3}));
  }
  return {};
}

/// `first_row`: cache position of this call's row 0, negative for pad rows in the headroom.
Status TransformerPass::bind_outputs(KvCache& cache, std::ptrdiff_t first_row) {
  const std::size_t layers = shape_.kv.layers;
  const std::size_t results = results_.size();
  const std::size_t elements = shape_.tokens * shape_.kv.row_elements();
  for (std::size_t layer = 0; layer < layers; ++layer) {
    float* keys = cache.keys(layer, first_row);
    float* values = cache.values(layer, first_row);
    KZ_TRY(method_->bind_output(results + layer, keys, elements * sizeof(float)));
    KZ_TRY(method_->bind_output(results + layers + layer, values, elements * sizeof(float)));
  }
  return {};
}

void TransformerPass::count_planned_copies(std::size_t past_rows) {
  const std::size_t row_bytes = shape_.kv.row_elements() * sizeof(float);
  for (std::size_t index = 0; index < 2 * shape_.kv.layers; ++index) {
    copied_bytes_ += method_->inputs()[kFirstPast + index].planned ? past_rows * row_bytes : 0;
    copied_bytes_ += method_->outputs()[results_.size() + index].planned ? shape_.tokens * row_bytes : 0;
  }
}

}  // namespace kz
