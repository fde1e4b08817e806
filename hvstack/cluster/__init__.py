# SPDX-License-Identifier: Apache-2.0
"""One interface over a Heat stack, hosts by SSH, and lab hosts."""
