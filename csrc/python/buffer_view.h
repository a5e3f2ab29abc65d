// SPDX-License-Identifier: Apache-2.0
// Memory of Python objects (the buffer protocol), held for as long as an operation needs it.
#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "collectives/data_type.h"

namespace rocecoll::python {

// The buffers of one operation. The last thread that needs them drops them, so the destructor takes
// the GIL.
class BufferViews {
 public:
  struct Memory {
    void* data = nullptr;
    uint64_t elements = 0;
  };

  BufferViews() = default;
  ~BufferViews();
  BufferViews(const BufferViews&) = delete;
  BufferViews& operator=(const BufferViews&) = delete;

  // Raises unless `object` is contiguous, holds whole elements and, for `writable`, may be written.
  // `name` is the argument's. None yields no memory.
  Memory add(const pybind11::object& object, const char* name, DataType type, bool writable);

 private:
  void hold(const pybind11::object& object, const char* name, bool writable);

  struct View {
    const PyObject* object = nullptr;  // which the buffer holds
    Py_buffer buffer{};
  };
  std::array<View, 2> views_;  // an input and an output
  size_t count_ = 0;
};

}  // namespace rocecoll::python
