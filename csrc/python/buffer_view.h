// SPDX-License-Identifier: Apache-2.0
// Memory of Python objects (the buffer protocol), held for as long as an operation needs it.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/data_type.h"

namespace rocecoll::python {

// The buffers of one operation. Dropped by whichever thread completes it: the destructor takes the
// GIL.
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
  std::vector<std::unique_ptr<Py_buffer>> views_;
};

}  // namespace rocecoll::python
