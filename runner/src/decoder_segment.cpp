#include "decoder_segment.h"

#include <algorithm>
#include <utility>

namespace kz {
namespace {

constexpr std::size_t kSlackElements = Method::kReadSlackBytes / sizeof(float);

}  // namespace

Result<std::unique_ptr<DecoderSegment>> DecoderSegment::create(std::unique_ptr<Method> method) {
  std::unique_ptr<DecoderSegment> segment(new DecoderSegment(std::move(method)));
  KZ_TRY(segment->check());
  segment->allocate();
  return segment;
}

Status DecoderSegment::check() const {
  const auto& inputs = method_->inputs();
  const auto& outputs = method_->outputs();
  bool fits = !inputs.empty() && outputs.size() == inputs.size() && outputs[0].type == ElementType::Float32;
  for (std::size_t index = 1; fits && index < inputs.size(); ++index) {
    fits = inputs[index].type == ElementType::Float32 && outputs[index].type == ElementType::Float32 &&
           inputs[index].sizes == outputs[index].sizes;
  }
  if (!fits) {
    return make_error(ErrorCode::LoadFailed,
                      "method %s of the speech decoder does not fit its constants; export the checkpoint again with kz export",
                      method_->name().c_str());
  }
  return {};
}

void DecoderSegment::allocate() {
  output_.resize(method_->outputs()[0].elements() + kSlackElements);
  for (std::size_t index = 1; index < method_->inputs().size(); ++index) {
    states_.emplace_back(method_->inputs()[index].elements() + kSlackElements, 0.0f);
  }
  next_states_ = states_;
}

void DecoderSegment::reset() {
  for (auto& state : states_) {
    std::fill(state.begin(), state.end(), 0.0f);
  }
}

Status DecoderSegment::run(const void* chunk, Span<const int32_t> sizes) {
  KZ_TRY(method_->set_input(0, chunk, sizes));
  KZ_TRY(method_->bind_output(0, output_.data(), output().size() * sizeof(float)));
  KZ_TRY(bind_states());
  return method_->execute();
}

Status DecoderSegment::bind_states() {
  for (std::size_t index = 0; index < states_.size(); ++index) {
    const TensorSpec& spec = method_->inputs()[1 + index];
    KZ_TRY(method_->set_input(1 + index, states_[index].data(), spec.sizes));
    KZ_TRY(method_->bind_output(1 + index, next_states_[index].data(), spec.elements() * sizeof(float)));
  }
  return {};
}

}  // namespace kz
