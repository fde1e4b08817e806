# SPDX-License-Identifier: Apache-2.0
"""Fuzzer of everything that hvstack reads from outside.

``python -m tests.fuzz --seed N --count N`` mutates every kind of file, the
options of every command and the environment, runs each case in a forked child
process with limits, and classifies what the child did.
"""
