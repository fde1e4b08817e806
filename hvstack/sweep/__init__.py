# SPDX-License-Identifier: Apache-2.0
"""Plan, strategies and resume of a sweep."""
