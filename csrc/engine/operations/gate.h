// SPDX-License-Identifier: Apache-2.0
// Holds back a collective, which keeps its number among those of its group, until something outside
// the engine is over.
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
