# SPDX-License-Identifier: Apache-2.0
"""What wordcount must do."""
import unittest

from wordcount import count


class WordCount(unittest.TestCase):
	def test_counts(self):
		self.assertEqual(count("a b a"), {"a": 2, "b": 1})

	def test_ignores_case(self):
		self.assertEqual(count("The the THE"), {"the": 3})


if __name__ == "__main__":
	unittest.main()
