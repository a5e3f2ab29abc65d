# SPDX-License-Identifier: Apache-2.0
"""The command `rocecoll`: a file per command, which shows what rocecoll.diagnosis has found out.

bench.py shows what rocecoll.bench has measured; its options are also those of scripts/bench.

Without torch but where a command needs ranks: it starts at once, and where torch does not work.
"""
