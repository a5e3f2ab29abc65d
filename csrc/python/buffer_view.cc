// SPDX-License-Identifier: Apache-2.0
#include "python/buffer_view.h"

#include <string>
#include <utility>

#include "python/errors.h"

namespace py = pybind11;

namespace rocecoll::python {

BufferViews::~BufferViews() {
  if (views_.empty()) return;
  const py::gil_scoped_acquire gil;
  for (auto& view : views_) PyBuffer_Release(view.get());
}

BufferViews::Memory BufferViews::add(const py::object& object, const char* name, DataType type,
                                     bool writable) {
  if (object.is_none()) return {};
  auto view = std::make_unique<Py_buffer>();
  const int flags = PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(object.ptr(), view.get(), flags) != 0) {
    const py::error_already_set error;
    RaiseInvalid(std::string(name) + " must be a contiguous" + (writable ? ", writable" : "") +
                 " buffer: " + std::string(py::str(error.value())));
  }
  Memory memory;
  memory.data = view->buf;
  const auto bytes = static_cast<uint64_t>(view->len);
  views_.push_back(std::move(view));
  if (bytes % SizeOf(type) != 0) {
    RaiseInvalid(std::string(name) + " has " + std::to_string(bytes) +
                 " bytes, not a whole number of " + std::string(ToString(type)));
  }
  memory.elements = bytes / SizeOf(type);
  return memory;
}

}  // namespace rocecoll::python
