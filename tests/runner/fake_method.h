#pragma once

#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "method.h"

namespace kz::test {

/// A method whose work the test writes: `work` runs in `execute`, on the bound inputs and outputs.
class FakeMethod final : public Method {
 public:
  struct Input {
    const void* data = nullptr;
    std::vector<int32_t> sizes;
  };

  FakeMethod(std::vector<TensorSpec> inputs, std::vector<TensorSpec> outputs)
      : bound_inputs(inputs.size()), bound_outputs(outputs.size()), inputs_(std::move(inputs)), outputs_(std::move(outputs)) {}

  const std::string& name() const override { return name_; }
  const std::vector<TensorSpec>& inputs() const override { return inputs_; }
  const std::vector<TensorSpec>& outputs() const override { return outputs_; }

  Status set_input(std::size_t index, const void* data, Span<const int32_t> sizes) override {
    bound_inputs[index] = {data, {sizes.begin(), sizes.end()}};
    return {};
  }

  Status bind_output(std::size_t index, void* data, std::size_t) override {
    bound_outputs[index] = data;
    return {};
  }

  Status execute() override {
    if (work) {
      work(*this);
    }
    return failure;
  }

  const float* input(std::size_t index) const { return static_cast<const float*>(bound_inputs[index].data); }
  float* output(std::size_t index) const { return static_cast<float*>(bound_outputs[index]); }

  std::vector<Input> bound_inputs;
  std::vector<void*> bound_outputs;
  std::function<void(FakeMethod&)> work;
  Status failure;

 private:
  std::string name_ = "fake";
  std::vector<TensorSpec> inputs_;
  std::vector<TensorSpec> outputs_;
};

}  // namespace kz::test
