// SPDX-License-Identifier: Apache-2.0
// Keeps a collective in its place among those of its group, which other ranks count too, until
// something that the engine does not see is over.
#pragma once

namespace rocecoll {

// Once submitted with an operation it belongs to the engine: Progress::open() opens it.
class Gate {
 public:
  void open() { open_ = true; }
  bool is_open() const { return open_; }

 private:
  bool open_ = false;
};

}  // namespace rocecoll
