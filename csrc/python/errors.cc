// SPDX-License-Identifier: Apache-2.0
#include "python/errors.h"

#include <array>

namespace py = pybind11;

namespace rocecoll::python {
namespace {

// By code; owned by the module, which lives as long as the interpreter.
std::array<PyObject*, kStatusCodeTraits.size()> error_types{};

PyObject* NewType(py::module_& module, const char* name, py::tuple bases, const char* doc) {
  const std::string qualified = "rocecoll._core." + std::string(name);
  PyObject* type = PyErr_NewExceptionWithDoc(qualified.c_str(), doc, bases.ptr(), nullptr);
  if (type == nullptr) throw py::error_already_set();
  module.attr(name) = py::reinterpret_borrow<py::object>(type);
  return type;
}

}  // namespace

void BindErrors(py::module_& module) {
  const py::handle runtime_error(PyExc_RuntimeError);
  const py::handle base(NewType(module, "Error", py::make_tuple(runtime_error),
                                "What rocecoll raises; a subclass says which kind of failure."));
  const auto add = [&](StatusCode code, const char* name, PyObject* also, const char* doc) {
    py::tuple bases = py::make_tuple(base);
    if (also != nullptr) bases = py::make_tuple(base, py::handle(also));
    error_types[static_cast<size_t>(code)] = NewType(module, name, bases, doc);
  };
  add(StatusCode::kInvalidArgument, "InvalidArgumentError", PyExc_ValueError,
      "Refused before anything was sent.");
  add(StatusCode::kMismatch, "MismatchError", nullptr,
      "Ranks called different operations, or with different arguments.");
  add(StatusCode::kTimeout, "OperationTimeoutError", PyExc_TimeoutError,
      "The deadline of an operation or a connection passed.");
  add(StatusCode::kPeerLost, "PeerLostError", PyExc_ConnectionError,
      "A rank died or became unreachable.");
  add(StatusCode::kPeerLeft, "PeerLeftError", PyExc_ConnectionError,
      "A rank closed its side in good order while it was still needed.");
  add(StatusCode::kNoContact, "NoContactError", PyExc_ConnectionError,
      "Nothing ever came from a rank: a firewall, the wrong interface, or it died early.");
  add(StatusCode::kAborted, "AbortedError", nullptr, "Some rank aborted the group.");
  add(StatusCode::kNetwork, "NetworkError", PyExc_OSError,
      "The local network or socket refused to work.");
  add(StatusCode::kUnsupported, "UnsupportedError", PyExc_NotImplementedError,
      "Not offered for these arguments.");
  add(StatusCode::kDevice, "DeviceError", nullptr, "An accelerator's runtime refused to work.");
  add(StatusCode::kInternal, "InternalError", nullptr, "A bug in rocecoll.");
}

void Raise(const Status& status) {
  ROCECOLL_CHECK(!status.ok());
  PyErr_SetString(error_types[static_cast<size_t>(status.code())], status.message().c_str());
  throw py::error_already_set();
}

void RaiseInvalid(const std::string& what) {
  Raise(Status(StatusCode::kInvalidArgument, "rocecoll: " + what));
}

}  // namespace rocecoll::python
