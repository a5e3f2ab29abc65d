# SPDX-License-Identifier: Apache-2.0
"""The rules of the source tree, each a function from a Tree to its violations."""
