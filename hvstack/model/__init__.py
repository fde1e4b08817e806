# SPDX-License-Identifier: Apache-2.0
"""What a host, a configuration, a flavor and a topology are: no I/O."""
