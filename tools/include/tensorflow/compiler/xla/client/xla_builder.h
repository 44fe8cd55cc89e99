// Horovod 0.28.1 includes XLA's builder from where TensorFlow 2.15 has it, and names xla::StatusOr.
// TensorFlow 2.21 has it elsewhere, and its StatusOr is Abseil's. tools/setup.sh puts this file
// before TensorFlow's own where it compiles Horovod for that version.
#pragma once

#include "absl/status/statusor.h"
#include "xla/hlo/builder/xla_builder.h"

namespace xla {
template <typename T>
using StatusOr = absl::StatusOr<T>;
}  // namespace xla
