# SPDX-License-Identifier: Apache-2.0
"""What can be found out about machines and jobs, as plain values, without torch.

`machine` looks at this machine and its settings, `pairs` tries what carries between hosts, `jobs` asks
the processes that run, `traces` reads what they have recorded. Beside them lie a finding's form and the
explanations of messages. Nothing here writes to a terminal: rocecoll.cli does.
"""
