# SPDX-License-Identifier: Apache-2.0
"""Machines that boot for real, under QEMU's emulation.

They have what the tests' containers lack: systemd as PID 1, cgroup version
2, and a kernel with modules. They are about 20 times slower, so they show
whether the lab works, never how fast it is.
"""
