# SPDX-License-Identifier: Apache-2.0
"""The command `rocecoll`: a file for each command, which shows what rocecoll.diagnosis finds.

bench.py shows what rocecoll.bench has measured; its options are also those of scripts/bench.

Only commands that need ranks load torch: the others start at once, and work where torch does not.
"""
