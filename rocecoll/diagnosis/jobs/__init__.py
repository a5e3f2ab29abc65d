# SPDX-License-Identifier: Apache-2.0
"""Jobs that run on this host: what their processes say of themselves, and who waits for whom."""
