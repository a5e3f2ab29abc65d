// SPDX-License-Identifier: Apache-2.0
#include "python/memory_object.h"

#include <cstddef>
#include <new>

#include "base/lasting_memory.h"

namespace py = pybind11;

namespace rocecoll::python {
namespace {

struct Memory {
  explicit Memory(size_t bytes) : size(bytes), data(LastingMemory::Allocate(bytes)) {
    if (data == nullptr) throw std::bad_alloc();
  }

  size_t size;
  LastingMemory::Owner data;
};

}  // namespace

void BindMemory(py::module_& module) {
  py::class_<Memory>(module, "Memory", py::buffer_protocol(),
                     "Bytes that stay registered with RDMA devices from one operation to the next, "
                     "for numpy.frombuffer() and the like. Not cleared.")
      .def(py::init<size_t>(), py::arg("bytes"))
      .def_buffer([](Memory& memory) {
        return py::buffer_info(reinterpret_cast<uint8_t*>(memory.data.get()),
                               static_cast<py::ssize_t>(memory.size));
      });
}

}  // namespace rocecoll::python
