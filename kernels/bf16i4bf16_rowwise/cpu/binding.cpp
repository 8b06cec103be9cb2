// The operators on CPU, one for each format: checks, shares the work among torch's threads and registers, on torch's
// stable ABI only. Python owns the schemas.

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <vector>

#include "../arguments.h"
#include "body.h"

namespace {

using ao_kernels::CpuBody;
using ao_kernels::CpuProblem;
using ao_kernels::Format;
using ao_kernels::kTileColumns;
using ao_kernels::Operands;
using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// Bytes of dequantized weight that one thread makes, multiplies by and forgets: half of a second cache of 1 MiB.
constexpr int64_t kThreadPanelBytes = 512 << 10;

// The same for all threads together: a part of the last cache.
constexpr int64_t kPanelBytes = 4 << 20;

// Weights that are worth a thread of their own: it takes about as long to wake one.
constexpr int64_t kThreadWeights = 1 << 16;

void check_device(const Operands& operands) {
  for (const Tensor* tensor : {&operands.input, &operands.weight, &operands.scale, &operands.zero_point}) {
    STD_TORCH_CHECK(!tensor->defined() || tensor->is_cpu(), "input, weight, scale",
                    operands.zero_point.defined() ? " and zero_point" : "", " must be on the CPU");
  }
}

CpuProblem describe_problem(const Operands& operands, const Tensor& output, Format format) {
  const int64_t columns = operands.weight.size(0);
  return {
      static_cast<const uint16_t*>(operands.input.const_data_ptr()),
      static_cast<const int8_t*>(operands.weight.const_data_ptr()),
      operands.scale.const_data_ptr(),
      operands.zero_point.defined() ? operands.zero_point.const_data_ptr() : nullptr,
      static_cast<uint16_t*>(output.mutable_data_ptr()),
      output.numel() / columns,
      columns,
      operands.input.size(-1),
      std::max<int64_t>(ao_kernels::group_size(operands), 1),
      operands.scale.scalar_type() == ScalarType::BFloat16,
      format,
  };
}

float to_float(uint16_t bfloat16) {
  const uint32_t bits = static_cast<uint32_t>(bfloat16) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// The sum of the input over each group, [rows, groups]; none where no zero point asks for it.
std::vector<float> add_up_groups(const CpuProblem& problem) {
  if (!ao_kernels::has_zero_points(problem.format)) {
    return {};
  }
  std::vector<float> sums(problem.rows * problem.depth / problem.group_size);
  const uint16_t* input = problem.input;
  for (float& sum : sums) {
    for (const uint16_t* end = input + problem.group_size; input < end; ++input) {
      sum += to_float(*input);
    }
  }
  return sums;
}

// Threads take whole tiles of columns, enough of them to be worth it.
int64_t tiles_per_thread(const CpuProblem& problem) {
  return 1 + kThreadWeights / (kTileColumns * std::max<int64_t>(problem.depth, 1));
}

// For few rows: every weight is decoded in registers and forgotten.
void multiply_few_rows(const CpuBody& body, const CpuProblem& problem) {
  const std::vector<float> sums = add_up_groups(problem);
  const int64_t tiles = (problem.columns + kTileColumns - 1) / kTileColumns;
  torch::stable::parallel_for(0, tiles, tiles_per_thread(problem), [&](int64_t begin, int64_t end) {
    std::vector<float> scales(problem.depth / problem.group_size * kTileColumns);
    body.multiply(problem, sums.data(), scales.data(), begin * kTileColumns,
                  std::min(end * kTileColumns, problem.columns));
  });
}

// The columns of a panel that takes at most these bytes, but always a tile of them.
int64_t panel_columns(const CpuProblem& problem, int64_t bytes) {
  const int64_t fitting = bytes / (problem.depth * static_cast<int64_t>(sizeof(uint16_t)));
  return std::min(std::max(fitting, kTileColumns), problem.columns);
}

// For some rows: every thread has a panel of its own, which stays in its second cache.
void multiply_some_rows(const CpuBody& body, const CpuProblem& problem) {
  const int64_t most = panel_columns(problem, kThreadPanelBytes);
  const int64_t grain = tiles_per_thread(problem) * kTileColumns;
  torch::stable::parallel_for(0, problem.columns, grain, [&](int64_t begin, int64_t end) {
    const std::unique_ptr<uint16_t[]> panel(new uint16_t[most * problem.depth]);
    for (int64_t first = begin; first < end; first += most) {
      const int64_t last = std::min(first + most, end);
      body.fill_panel(problem, first, last, panel.get());
      body.multiply_panel(problem, panel.get(), first, last);
    }
  });
}

// For many rows: all threads make one panel, and torch multiplies by it as by any bfloat16 matrix, with whatever this
// CPU has for that.
void multiply_many_rows(const CpuBody& body, const CpuProblem& problem, const Tensor& input, const Tensor& output) {
  const int64_t most = panel_columns(problem, kPanelBytes);
  const int64_t grain = tiles_per_thread(problem) * kTileColumns;
  const Tensor rows = torch::stable::view(input, {problem.rows, problem.depth});
  Tensor products = torch::stable::view(output, {problem.rows, problem.columns});
  Tensor panel = torch::stable::new_empty(input, {most, problem.depth});
  uint16_t* weight = static_cast<uint16_t*>(panel.mutable_data_ptr());
  for (int64_t first = 0; first < problem.columns; first += most) {
    const int64_t columns = std::min(most, problem.columns - first);
    torch::stable::parallel_for(0, columns, grain, [&](int64_t begin, int64_t end) {
      body.dequantize(problem, first + begin, first + end, weight + begin * problem.depth);
    });
    Tensor part = torch::stable::narrow(panel, 0, 0, columns);
    Tensor product = torch::stable::narrow(products, 1, first, columns);
    torch::stable::copy_(product, torch::stable::matmul(rows, torch::stable::transpose(part, 0, 1)));
  }
}

// Whether torch's own operator multiplies so, and is quicker: int8, a scale a row, and up to four rows (README.md). It
// reads 32 values of a row at a time and looks for no rest.
bool has_operator_of_torch(const Operands& operands, int64_t rows) {
  return rows <= 4 && operands.scale.size(0) == 1 && operands.scale.scalar_type() == ScalarType::BFloat16 &&
         operands.weight.size(1) % 32 == 0;
}

Tensor multiply_by_torch(const Operands& operands, const Tensor& output) {
  const int64_t depth = operands.weight.size(1);
  const int64_t columns = operands.weight.size(0);
  const Tensor rows = torch::stable::view(operands.input, {operands.input.numel() / depth, depth});
  const Tensor scales = torch::stable::view(operands.scale, {columns});
  return torch::stable::view(ao_kernels::call_torch("aten::_weight_int8pack_mm", "", rows, operands.weight, scales),
                             output.sizes());
}

// The ways to a product.
enum class Way { kRegisters, kPanels, kTorch };

// What decides them, for a call and for whoever asks before there is one.
Way choose_way(const CpuBody& body, int64_t rows, int64_t depth) {
  if (rows <= body.few_rows || depth == 0) {
    return Way::kRegisters;
  }
  return rows <= body.some_rows ? Way::kPanels : Way::kTorch;
}

Tensor multiply(const CpuBody& body, const Operands& given, Format format) {
  check_device(given);
  check_dtype(given, format);
  check_shape(given, format);
  const Operands operands = make_contiguous(given);
  const Tensor output = allocate_output(operands);
  if (output.numel() == 0) {
    return output;
  }
  const CpuProblem problem = describe_problem(operands, output, format);
  if (format == Format::kInt8 && problem.depth > 0 && has_operator_of_torch(operands, problem.rows)) {
    return multiply_by_torch(operands, output);
  }
  switch (choose_way(body, problem.rows, problem.depth)) {
    case Way::kRegisters:
      multiply_few_rows(body, problem);
      break;
    case Way::kPanels:
      multiply_some_rows(body, problem);
      break;
    case Way::kTorch:
      multiply_many_rows(body, problem, operands.input, output);
      break;
  }
  return output;
}

// Whether ATEN_CPU_CAPABILITY, which limits torch itself, is one of these.
bool is_limited_to(std::initializer_list<const char*> limits) {
  const char* given = std::getenv("ATEN_CPU_CAPABILITY");
  return given != nullptr &&
         std::any_of(limits.begin(), limits.end(), [&](const char* limit) { return std::strcmp(given, limit) == 0; });
}

// The best body that this CPU can run, and that torch itself would.
const CpuBody& choose_body() {
#ifdef __x86_64__
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (has_avx512 && !is_limited_to({"default", "avx2"})) {
    if (!__builtin_cpu_supports("avx512bf16")) {
      return ao_kernels::kAvx512Body;
    }
    return __builtin_cpu_supports("amx-bf16") ? ao_kernels::kAmxBody : ao_kernels::kAvx512Bfloat16Body;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && !is_limited_to({"default"})) {
    return ao_kernels::kAvx2Body;
  }
#endif
  return ao_kernels::kPlainBody;
}

const CpuBody& chosen_body() {
  static const CpuBody& body = choose_body();
  return body;
}

Tensor bf16i4bf16_rowwise(const Tensor& input, const Tensor& weight, const Tensor& scale, const Tensor& zero_point) {
  return multiply(chosen_body(), {input, weight, scale, zero_point}, Format::kInt4);
}

Tensor bf16u4bf16_rowwise(const Tensor& input, const Tensor& weight, const Tensor& scale, const Tensor& zero_point) {
  return multiply(chosen_body(), {input, weight, scale, zero_point}, Format::kUint4);
}

Tensor bf16i8bf16_rowwise(const Tensor& input, const Tensor& weight, const Tensor& scale) {
  return multiply(chosen_body(), {input, weight, scale, Tensor()}, Format::kInt8);
}

Tensor bf16f8bf16_rowwise(const Tensor& input, const Tensor& weight, const Tensor& scale) {
  return multiply(chosen_body(), {input, weight, scale, Tensor()}, Format::kFloat8);
}

}  // namespace

// The name of the body that serves, for `describe()`.
extern "C" __attribute__((visibility("default"))) const char* ao_kernels_cpu_body() {
  return chosen_body().name;
}

// What multiplies so many rows, for the same: the CPU's kernels serve every shape.
extern "C" __attribute__((visibility("default"))) const char* ao_kernels_cpu_serves(int64_t rows, int64_t,
                                                                                    int64_t depth, int64_t) {
  switch (choose_way(chosen_body(), rows, depth)) {
    case Way::kRegisters:
      return "weights decoded in registers";
    case Way::kPanels:
      return "panels of dequantized weights";
    default:
      return "panels of dequantized weights and torch's product";
  }
}

STABLE_TORCH_LIBRARY_IMPL(ao, CPU, m) {
  m.impl("bf16i4bf16_rowwise", TORCH_BOX(&bf16i4bf16_rowwise));
  m.impl("bf16u4bf16_rowwise", TORCH_BOX(&bf16u4bf16_rowwise));
  m.impl("bf16i8bf16_rowwise", TORCH_BOX(&bf16i8bf16_rowwise));
  m.impl("bf16f8bf16_rowwise", TORCH_BOX(&bf16f8bf16_rowwise));
}
