# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own tests of a c10d backend, run against rocecoll (or gloo, to compare with)."""
