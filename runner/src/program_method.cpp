#include "program_method.h"

#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "npu_calls.h"

namespace kz {
namespace {

namespace et = ::executorch::runtime;
using ::executorch::aten::ScalarType;
using ::executorch::aten::Tensor;
using ::executorch::aten::TensorImpl;

constexpr std::size_t kMaxDimensions = 8;
constexpr char kQnnBackend[] = "QnnBackend";

struct TypePair {
  ScalarType scalar;
  ElementType element;
};

constexpr TypePair kTypes[] = {
    {ScalarType::Float, ElementType::Float32},  {ScalarType::Half, ElementType::Float16},
    {ScalarType::Long, ElementType::Int64},     {ScalarType::Int, ElementType::Int32},
    {ScalarType::Short, ElementType::Int16},    {ScalarType::UInt16, ElementType::UInt16},
    {ScalarType::Char, ElementType::Int8},      {ScalarType::Byte, ElementType::UInt8},
};

ElementType element_type(ScalarType type) {
  for (const TypePair& pair : kTypes) {
    if (pair.scalar == type) {
      return pair.element;
    }
  }
  return ElementType::Other;
}

ScalarType scalar_type(ElementType type) {
  for (const TypePair& pair : kTypes) {
    if (pair.element == type) {
      return pair.scalar;
    }
  }
  return ScalarType::Undefined;
}

TensorSpec spec_of(const et::Result<et::TensorInfo>& info) {
  TensorSpec spec;
  if (info.ok()) {
    spec.type = element_type(info->scalar_type());
    spec.sizes.assign(info->sizes().begin(), info->sizes().end());
    spec.planned = info->is_memory_planned();
  }
  return spec;
}

bool is_tensor(const et::Result<et::Tag>& tag) { return tag.ok() && *tag == et::Tag::Tensor; }

Error load_error(const std::string& path, const std::string& name, et::Error reason) {
  return make_error(
      ErrorCode::LoadFailed,
      "method %s of %s cannot be loaded (%s); export the checkpoint again with kz export, for a backend of this runner",
      name.c_str(), path.c_str(), et::to_string(reason));
}

}  // namespace

Result<std::unique_ptr<Method>> ProgramMethod::load(std::shared_ptr<const void> owner, const et::Program& program,
                                                    const std::string& path, const std::string& name,
                                                    const et::LoadBackendOptionsMap* options) {
  std::unique_ptr<ProgramMethod> method(new ProgramMethod(std::move(owner), name));
  const et::Error error = method->load_from(program, options);
  if (error != et::Error::Ok) {
    return load_error(path, name, error);
  }
  return std::unique_ptr<Method>(std::move(method));
}

ProgramMethod::ProgramMethod(std::shared_ptr<const void> owner, std::string name)
    : owner_(std::move(owner)), name_(std::move(name)) {}

et::Error ProgramMethod::load_from(const et::Program& program, const et::LoadBackendOptionsMap* options) {
  const auto meta = program.method_meta(name_.c_str());
  if (!meta.ok()) {
    return meta.error();
  }
  if (const et::Error error = plan_memory(*meta); error != et::Error::Ok) {
    return error;
  }
  describe(*meta);
  on_npu_ = meta->uses_backend(kQnnBackend);
  memory_.emplace(&method_allocator_, &*planned_memory_, &temporary_allocator_);
  auto method = program.load_method(name_.c_str(), &*memory_, nullptr, nullptr, options);
  if (!method.ok()) {
    return method.error();
  }
  method_.emplace(std::move(method.get()));
  return et::Error::Ok;
}

et::Error ProgramMethod::plan_memory(const et::MethodMeta& meta) {
  for (std::size_t index = 0; index < meta.num_memory_planned_buffers(); ++index) {
    const auto bytes = meta.memory_planned_buffer_size(index);
    if (!bytes.ok()) {
      return bytes.error();
    }
    planned_buffers_.emplace_back(static_cast<std::size_t>(*bytes));
  }
  for (auto& buffer : planned_buffers_) {
    planned_spans_.emplace_back(buffer.data(), buffer.size());
  }
  planned_memory_.emplace(et::Span<et::Span<uint8_t>>(planned_spans_.data(), planned_spans_.size()));
  return et::Error::Ok;
}

/// Inputs and outputs that are not tensors are described as `Other`, without sizes.
void ProgramMethod::describe(const et::MethodMeta& meta) {
  for (std::size_t index = 0; index < meta.num_inputs(); ++index) {
    inputs_.push_back(is_tensor(meta.input_tag(index)) ? spec_of(meta.input_tensor_meta(index)) : TensorSpec{});
  }
  for (std::size_t index = 0; index < meta.num_outputs(); ++index) {
    outputs_.push_back(is_tensor(meta.output_tag(index)) ? spec_of(meta.output_tensor_meta(index)) : TensorSpec{});
  }
  copy_targets_.resize(outputs_.size());
}

Status ProgramMethod::set_input(std::size_t index, const void* data, Span<const int32_t> sizes) {
  const std::size_t dimensions = sizes.size();
  std::array<int32_t, kMaxDimensions> dims{};
  std::array<int32_t, kMaxDimensions> strides{};
  std::array<uint8_t, kMaxDimensions> order{};
  if (dimensions > kMaxDimensions) {
    return make_error(ErrorCode::ExecutionFailed, "input %zu of method %s has too many dimensions", index, name_.c_str());
  }
  std::copy(sizes.begin(), sizes.end(), dims.begin());
  std::iota(order.begin(), order.end(), uint8_t{0});
  int32_t stride = 1;
  for (std::size_t dim = dimensions; dim-- > 0;) {
    strides[dim] = stride;
    stride *= dims[dim];
  }
  const ScalarType type = scalar_type(inputs_[index].type);
  // The runtime only reads inputs, but has no type that says so.
  TensorImpl tensor(type, static_cast<ssize_t>(dimensions), dims.data(), const_cast<void*>(data), order.data(), strides.data());
  const et::Error error = method_->set_input(et::EValue(Tensor(&tensor)), index);
  if (error != et::Error::Ok) {
    return make_error(ErrorCode::ExecutionFailed,
                      "input %zu of method %s was refused (%s); export the checkpoint again with kz export", index, name_.c_str(),
                      et::to_string(error));
  }
  return {};
}

Status ProgramMethod::bind_output(std::size_t index, void* data, std::size_t bytes) {
  if (outputs_[index].planned) {
    copy_targets_[index] = {data, bytes};
    return {};
  }
  const et::Error error = method_->set_output_data_ptr(data, bytes, index);
  if (error != et::Error::Ok) {
    return make_error(ErrorCode::ExecutionFailed,
                      "output %zu of method %s was refused (%s); export the checkpoint again with kz export", index,
                      name_.c_str(), et::to_string(error));
  }
  return {};
}

Status ProgramMethod::execute() {
  if (on_npu_) {
    count_npu_call();
  }
  const et::Error error = method_->execute();
  if (error != et::Error::Ok) {
    return make_error(ErrorCode::ExecutionFailed, "method %s failed (%s); --log-level debug shows the runtime's own messages",
                      name_.c_str(), et::to_string(error));
  }
  copy_planned_outputs();
  return {};
}

void ProgramMethod::copy_planned_outputs() {
  for (std::size_t index = 0; index < copy_targets_.size(); ++index) {
    const CopyTarget& target = copy_targets_[index];
    if (target.data != nullptr && method_->get_output(index).isTensor()) {
      const Tensor& tensor = method_->get_output(index).toTensor();
      std::memcpy(target.data, tensor.const_data_ptr(), std::min(target.bytes, tensor.nbytes()));
    }
  }
}

Result<et::EValue> ProgramMethod::constant_output() {
  KZ_TRY(execute());
  if (method_->outputs_size() != 1) {
    return make_error(ErrorCode::LoadFailed,
                      "method %s returns %zu values instead of 1; export the checkpoint again with kz export", name_.c_str(),
                      method_->outputs_size());
  }
  return et::EValue(method_->get_output(0));
}

Result<et::EValue> read_constant(const et::Program& program, const std::string& path, const char* name) {
  if (!program.method_meta(name).ok()) {
    return make_error(ErrorCode::LoadFailed, "%s lacks the constant %s; export the checkpoint again with kz export", path.c_str(),
                      name);
  }
  KZ_TRY_ASSIGN(const auto method, ProgramMethod::load(nullptr, program, path, name, nullptr));
  return static_cast<ProgramMethod&>(*method).constant_output();
}

}  // namespace kz
