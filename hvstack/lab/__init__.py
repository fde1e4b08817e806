# SPDX-License-Identifier: Apache-2.0
"""The all-in-one OpenStack on one machine, and its guest images."""
