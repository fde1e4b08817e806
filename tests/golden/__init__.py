# SPDX-License-Identifier: Apache-2.0
"""Stored output of hvstack, with which a refactoring is compared."""
