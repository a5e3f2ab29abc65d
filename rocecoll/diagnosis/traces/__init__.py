# SPDX-License-Identifier: Apache-2.0
"""The traces of a job's ranks: reading them (trace_files.py), who came late, and the timeline of all."""
