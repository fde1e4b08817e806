# SPDX-License-Identifier: Apache-2.0
"""Burn-in of a cluster: measures of its parts, and those that are slower.

The AMD paper (sections 2.1 and 2.3) measures disks, memory and network of
all hosts before a cluster is used, and vsphere6 compares what the hosts do: a
part that is slower than the others shows a fault or another setting.
"""
