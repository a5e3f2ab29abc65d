// SPDX-License-Identifier: Apache-2.0
#include "python/buffer_view.h"

#include <string>

#include "base/check.h"
#include "python/errors.h"

namespace py = pybind11;

namespace rocecoll::python {

BufferViews::~BufferViews() {
  if (count_ == 0) return;
  const py::gil_scoped_acquire gil;
  for (size_t i = 0; i < count_; ++i) PyBuffer_Release(&views_[i].buffer);
}

BufferViews::Memory BufferViews::add(const py::object& object, const char* name, DataType type,
                                     bool writable) {
  if (object.is_none()) return {};
  // In place, the output is also the input.
  const bool held = !writable && count_ > 0 && views_[count_ - 1].object == object.ptr();
  if (!held) hold(object, name, writable);
  const Py_buffer& view = views_[count_ - 1].buffer;
  Memory memory;
  memory.data = view.buf;
  const auto bytes = static_cast<uint64_t>(view.len);
  if (bytes % SizeOf(type) != 0) {
    RaiseInvalid(std::string(name) + " has " + std::to_string(bytes) +
                 " bytes, not a whole number of " + std::string(ToString(type)));
  }
  memory.elements = bytes / SizeOf(type);
  return memory;
}

void BufferViews::hold(const py::object& object, const char* name, bool writable) {
  ROCECOLL_CHECK(count_ < views_.size());
  View& view = views_[count_];
  const int flags = PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(object.ptr(), &view.buffer, flags) != 0) {
    const py::error_already_set error;
    RaiseInvalid(std::string(name) + " must be a contiguous" + (writable ? ", writable" : "") +
                 " buffer: " + std::string(py::str(error.value())));
  }
  view.object = object.ptr();
  ++count_;
}

}  // namespace rocecoll::python
