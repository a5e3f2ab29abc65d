# SPDX-License-Identifier: Apache-2.0
"""The command `rocecoll`: a file per command, which shows what rocecoll.diagnosis has found out.

Without torch but where a command needs ranks: it starts at once, and where torch does not work.
"""
