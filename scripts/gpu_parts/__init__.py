# SPDX-License-Identifier: Apache-2.0
"""The parts of scripts/gpu_check: `parts` lists them, a file each has what the ranks of one do."""
