# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What bench/run.py is made of: one module an area, and what they share."""
