# SPDX-License-Identifier: Apache-2.0
"""Beds for Soft-RoCE: places with rxe devices, brought up and taken down by scripts/softroce.

bed       what a bed is, and a job for it
beds      which beds there are, and which one `auto` means
native    the host's own kernel
uml       User-Mode Linux, built by uml_kernel
qemu      an emulated machine that boots what qemu_kernel makes
guests    runs a job in one or two virtual machines of any kind, under warden
roce      the tests that run in a bed; step_runner runs them, several at once
"""
