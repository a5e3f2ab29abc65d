// SPDX-License-Identifier: Apache-2.0
#include "python/errors.h"

#include <array>

#include "base/named_status.h"
#include "interpreter/exception_table.h"

namespace py = pybind11;

namespace rocecoll::python {
namespace {

// By code; owned by the module, which lives as long as the interpreter.
std::array<PyObject*, kExceptionTraits.size()> error_types{};

PyObject* NewType(py::module_& module, const char* name, py::tuple bases, const char* doc) {
  const std::string qualified = "rocecoll._core." + std::string(name);
  PyObject* type = PyErr_NewExceptionWithDoc(qualified.c_str(), doc, bases.ptr(), nullptr);
  if (type == nullptr) throw py::error_already_set();
  module.attr(name) = py::reinterpret_borrow<py::object>(type);
  return type;
}

PyObject* TypeOf(Builtin builtin) {
  switch (builtin) {
    case Builtin::kRuntimeError:
      return PyExc_RuntimeError;
    case Builtin::kValueError:
      return PyExc_ValueError;
    case Builtin::kTimeoutError:
      return PyExc_TimeoutError;
    case Builtin::kConnectionError:
      return PyExc_ConnectionError;
    case Builtin::kOSError:
      return PyExc_OSError;
    case Builtin::kNotImplementedError:
      return PyExc_NotImplementedError;
  }
  return nullptr;
}

}  // namespace

void BindErrors(py::module_& module) {
  const py::handle runtime_error(PyExc_RuntimeError);
  const py::handle base(NewType(module, "Error", py::make_tuple(runtime_error),
                                "What rocecoll raises; a subclass says which kind of failure."));
  for (const ExceptionTraits& traits : kExceptionTraits) {
    if (traits.name == nullptr) continue;
    const py::handle builtin(TypeOf(traits.builtin));
    py::tuple bases = py::make_tuple(base);  // a RuntimeError already
    if (!builtin.is(runtime_error)) bases = py::make_tuple(base, builtin);
    error_types[static_cast<size_t>(traits.code)] = NewType(module, traits.name, bases, traits.doc);
  }
}

void Raise(const Status& status) {
  ROCECOLL_CHECK(!status.ok());
  PyErr_SetString(error_types[static_cast<size_t>(status.code())], status.message().c_str());
  throw py::error_already_set();
}

void RaiseInvalid(const std::string& what) {
  Raise(NamedStatus(StatusCode::kInvalidArgument, what));
}

}  // namespace rocecoll::python
