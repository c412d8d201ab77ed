#pragma once

#include <executorch/extension/memory_allocator/malloc_memory_allocator.h>
#include <executorch/runtime/backend/backend_options_map.h>
#include <executorch/runtime/core/hierarchical_allocator.h>
#include <executorch/runtime/executor/method.h>
#include <executorch/runtime/executor/program.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "method.h"

namespace kz {

/// A `Method` of an ExecuTorch program, with the memory its plan asks for.
class ProgramMethod final : public Method {
 public:
  /// `owner` keeps `program` alive for the life of the method. `options` are used during this call only and may be null.
  static Result<std::unique_ptr<Method>> load(std::shared_ptr<const void> owner, const executorch::runtime::Program& program,
                                              const std::string& path, const std::string& name,
                                              const executorch::runtime::LoadBackendOptionsMap* options);

  const std::string& name() const override { return name_; }
  const std::vector<TensorSpec>& inputs() const override { return inputs_; }
  const std::vector<TensorSpec>& outputs() const override { return outputs_; }

  Status set_input(std::size_t index, const void* data, Span<const int32_t> sizes) override;
  Status bind_output(std::size_t index, void* data, std::size_t bytes) override;
  Status execute() override;

  /// The value of output 0, for methods that return a constant.
  Result<executorch::runtime::EValue> constant_output();

 private:
  /// Where to copy an output that the program keeps in its own memory.
  struct CopyTarget {
    void* data = nullptr;
    std::size_t bytes = 0;
  };

  ProgramMethod(std::shared_ptr<const void> owner, std::string name);

  executorch::runtime::Error load_from(const executorch::runtime::Program& program,
                                       const executorch::runtime::LoadBackendOptionsMap* options);
  executorch::runtime::Error plan_memory(const executorch::runtime::MethodMeta& meta);
  void describe(const executorch::runtime::MethodMeta& meta);
  void copy_planned_outputs();

  std::shared_ptr<const void> owner_;
  std::string name_;
  bool on_npu_ = false;
  std::vector<TensorSpec> inputs_;
  std::vector<TensorSpec> outputs_;
  std::vector<CopyTarget> copy_targets_;  ///< one an output

  executorch::extension::MallocMemoryAllocator method_allocator_;
  executorch::extension::MallocMemoryAllocator temporary_allocator_;
  std::vector<std::vector<uint8_t>> planned_buffers_;
  std::vector<executorch::runtime::Span<uint8_t>> planned_spans_;
  std::optional<executorch::runtime::HierarchicalAllocator> planned_memory_;
  std::optional<executorch::runtime::MemoryManager> memory_;
  std::optional<executorch::runtime::Method> method_;
};

/// The value of constant method `name` of the program at `path`.
Result<executorch::runtime::EValue> read_constant(const executorch::runtime::Program& program, const std::string& path,
                                                  const char* name);

}  // namespace kz
