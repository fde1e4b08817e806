# SPDX-License-Identifier: Apache-2.0
"""What an acceptance compares, runs and reports."""
