# SPDX-License-Identifier: Apache-2.0
"""Heat/Nova flavor and validation suite for virtualized Hadoop."""
