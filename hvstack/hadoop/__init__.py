# SPDX-License-Identifier: Apache-2.0
"""Hadoop's site files, sizing, daemons and history-server counters."""
